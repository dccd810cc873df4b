"""Journals are judged like the run that wrote them; a defect planted in a copy of them is found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from llft.cli.main import main
from llft.instant import SECOND
from llft.journal.record import (
    ClockRead,
    Delivered,
    Gap,
    Operated,
    Record,
    RoleChanged,
    Sent,
    StateApplied,
    StateTaken,
    ViewInstalled,
)
from llft.journal.writer import JournalWriter
from llft.simulator.checkers import CHECKERS
from llft.simulator.from_journals import LEFT_OUT, Journal, evidence_of, judge, read_journals
from llft.simulator.options import SimulationOptions
from llft.simulator.runner import Simulation, write_journals

SEED = 1


@pytest.fixture(scope="module")
def journals(tmp_path_factory: pytest.TempPathFactory) -> list[Journal]:
    directory = tmp_path_factory.mktemp("journals")
    simulation = Simulation(
        SEED, SimulationOptions(profile="crash", topology="one-client", replication="semi-active")
    )
    simulation.run()
    write_journals(directory, simulation.evidence())
    return read_journals(sorted(directory.glob("*.journal")))


def write(directory: Path, journals: Sequence[Journal]) -> None:
    for journal in journals:
        with JournalWriter(directory / f"{journal.name}.llj") as writer:
            for record in journal.records:
                writer.write(record)


def alter(
    journals: Sequence[Journal], kind: type[Record], change: Callable[[list[Record], int], None]
) -> list[Journal]:
    """One record, in the middle of the records of that kind in the journal that has the most of them. The end
    of a stream is not taken: nothing follows that would show that it is missing."""

    def places(journal: Journal) -> list[int]:
        return [
            index
            for index, record in enumerate(journal.records)
            if type(record) is kind and getattr(record, "size", 1)
        ]

    chosen = max(journals, key=lambda journal: len(places(journal)))
    records, found = list(chosen.records), places(chosen)
    change(records, found[len(found) // 2])
    return [replace(one, records=records) if one is chosen else one for one in journals]


def drop(records: list[Record], index: int) -> None:
    del records[index]


def swap(records: list[Record], index: int) -> None:
    """With the next record of the same kind."""
    other = next(i for i in range(index + 1, len(records)) if type(records[i]) is type(records[index]))
    first, second = records[index], records[other]
    records[index], records[other] = (
        second._replace(stamp=first.stamp),
        first._replace(stamp=second.stamp),
    )


def with_field(name: str) -> Callable[[list[Record], int], None]:
    def change(records: list[Record], index: int) -> None:
        value = getattr(records[index], name)
        records[index] = records[index]._replace(**{name: value + 5})

    return change


def test_a_clean_run_is_clean(journals: list[Journal]) -> None:
    assert len(journals) > 3
    assert judge(journals) == []


def test_what_is_left_out_is_named_and_the_rest_is_checked() -> None:
    assert CHECKERS.keys() >= LEFT_OUT.keys()
    assert {"theorem1", "theorem2", "theorem3", "theorem4", "virtual_synchrony", "exactly_once"} <= (
        CHECKERS.keys() - LEFT_OUT.keys()
    )


@pytest.mark.parametrize(
    ("kind", "change", "properties"),
    [
        (Operated, drop, {"theorem3"}),
        (Operated, swap, {"theorem3", "theorem2"}),
        (Delivered, drop, {"exactly_once"}),
        (Delivered, with_field("digest"), {"exactly_once"}),
        (Sent, with_field("digest"), {"digests", "exactly_once"}),
        (ClockRead, with_field("value_ns"), {"clock"}),
        (ViewInstalled, with_field("order_seq_num"), {"virtual_synchrony", "theorem3"}),
        (StateApplied, with_field("digest"), {"theorem4"}),
    ],
)
def test_a_planted_defect_is_found(
    journals: list[Journal],
    kind: type[Record],
    change: Callable[[list[Record], int], None],
    properties: set[str],
) -> None:
    found = {violation.property for violation in judge(alter(journals, kind, change))}
    assert found & properties, found


def test_a_lost_end_of_a_killed_process_is_no_defect(journals: list[Journal]) -> None:
    """Whatever its last step was."""
    for victim in journals:
        for kept in range(len(victim.records) // 2, len(victim.records), 97):
            cut = [replace(one, records=one.records[:kept]) if one is victim else one for one in journals]
            if victim.first.group_id == 100 and not _others_go_on(victim, kept, journals):
                continue
            properties = {violation.property for violation in judge(cut)}
            assert properties <= {"theorem1"}, (victim.name, kept, judge(cut))


def test_of_a_state_beyond_the_end_of_a_killed_primarys_journal_nobody_can_tell(
    journals: list[Journal],
) -> None:
    """But one that its journal should tell of, and does not, is a defect."""
    taker, number = next(
        (one, record.order_seq_num)
        for one in journals
        for record in one.records
        if isinstance(record, StateTaken)
    )

    def judged(records: list[Record]) -> set[str]:
        changed = [replace(one, records=records) if one is taker else one for one in journals]
        return {violation.property for violation in judge(changed)}

    before = [r for r in taker.records if not (isinstance(r, Operated) and r.order_seq_num >= number)]
    cut = taker.records[: next(i for i, r in enumerate(taker.records) if r not in before)]
    assert not any(isinstance(record, StateTaken) for record in cut)
    assert "theorem4" not in judged(list(cut))
    silent = [
        record
        for record in taker.records
        if not (isinstance(record, StateTaken) and record.order_seq_num == number)
    ]
    assert "theorem4" in judged(silent)


def _others_go_on(victim: Journal, kept: int, journals: list[Journal]) -> bool:
    """Whether the victim was no primary in what is cut off: then nobody else can have it."""
    return not any(
        isinstance(record, RoleChanged | ViewInstalled) or record.stamp.view.birth_id == victim.first.birth_id
        for record in victim.records[kept:]
    )


def test_lost_records_are_a_finding(journals: list[Journal]) -> None:
    first = journals[0]
    gap = Gap(first.last, 7)
    found = judge([replace(first, records=[*first.records, gap]), *journals[1:]])
    assert [violation.property for violation in found] == ["gap"]


def test_a_group_that_is_founded_again_has_two_histories(journals: list[Journal]) -> None:
    end_ns = max(journal.last.time_ns for journal in journals)

    def later(record: Record) -> Record:
        stamp = record.stamp
        birth_id = stamp.birth_id._replace(start_ns=stamp.birth_id.start_ns + end_ns)
        return record._replace(stamp=stamp._replace(time_ns=stamp.time_ns + end_ns + 10, birth_id=birth_id))

    again = [replace(one, name=f"{one.name}-2", records=[later(r) for r in one.records]) for one in journals]
    histories = evidence_of([*journals, *again])
    assert [len(history.processes) for history in histories] == [len(journals)] * 2


def test_hosts_with_different_clocks_are_brought_together(journals: list[Journal], tmp_path: Path) -> None:
    """The birth of a simulated process is the moment of its first record."""
    hour_ns = 3600 * SECOND
    other_host = journals[-1]
    early = [
        record._replace(stamp=record.stamp._replace(time_ns=record.stamp.time_ns - hour_ns))
        for record in other_host.records
    ]
    write(tmp_path, [*journals[:-1], replace(other_host, records=early)])
    again = read_journals(sorted(tmp_path.glob("*.llj")))
    assert [journal.name for journal in again] == [journal.name for journal in journals]
    assert abs(again[-1].first.time_ns - other_host.first.time_ns) < SECOND
    assert judge(again) == []


def test_the_verb_tells_and_its_status_says_so(
    journals: list[Journal], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, written in (("good", journals), ("bad", alter(journals, Operated, drop))):
        (tmp_path / name).mkdir()
        write(tmp_path / name, written)
    assert main(["journal", "check", str(tmp_path / "good")]) == 0
    told = capsys.readouterr().out
    assert "all properties hold" in told
    assert "not checked: replies" in told
    assert main(["journal", "check", str(tmp_path / "bad")]) == 1
    assert "VIOLATED theorem3: " in capsys.readouterr().out
    assert main(["journal", "check", "--json", str(tmp_path / "bad")]) == 1
    assert '"property": "theorem3"' in capsys.readouterr().out
    assert main(["journal", "check", str(tmp_path)]) == 2
