"""Evidence from the journals of processes that really ran, for the same judges as a simulation's.

A live run has less to tell than a simulated one, and the difference is named, not glossed over:

* `LEFT_OUT` lists the checkers that need what no journal has.
* Nobody is known to be alive: the surviving branch ends in the view that supersedes all others.
* A killed process may have kept its last records to itself. So a group's word ends where its journals end
  (`Evidence.journals_end_ns`), and what others read of it after that is compared among the readers only.
* Which faults there were is not recorded. A replica that was superseded is taken as the proof of a
  partition: a pause looks the same to everybody else.

A group all of whose members died is founded again, under its old id and with a new history (its supervisor
sees to it). Each history is judged by itself: `evidence_of` returns one Evidence for each, oldest first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from llft.identifiers import BirthId, GroupId
from llft.instant import SECOND
from llft.journal.reader import JournalReader
from llft.journal.record import (
    Called,
    Gap,
    MembershipChanged,
    Record,
    RoleChanged,
    Stamp,
    Superseded,
    ViewInstalled,
)
from llft.simulator.checkers import check_named
from llft.simulator.checkers.violation import Violation
from llft.simulator.evidence import Evidence, ProcessState
from llft.simulator.faults import Partition, PerformedFault
from llft.simulator.options import SimulationOptions
from llft.simulator.profiles import Profile
from llft.simulator.topology import Topology

LEFT_OUT = {
    "replies": "needs models of the programs",
    "progress": "needs the programs at the end of the run",
    "buffers": "needs the buffers at the end of the run",
    "resets": "needs the faults that were performed; resets are counted as losses",
}

ANOTHER_CLOCK_NS = 60 * SECOND
"""Processes take less than this from their birth to their first record."""

LIVE = Profile("live", "processes that really ran")


@dataclass(frozen=True, slots=True)
class Journal:
    """One life of a process, as its journal has it."""

    name: str
    records: Sequence[Record]
    torn_bytes: int = 0

    @property
    def first(self) -> Stamp:
        return self.records[0].stamp

    @property
    def last(self) -> Stamp:
        return self.records[-1].stamp

    @property
    def founds(self) -> bool:
        """Whether the history of its group begins here."""
        return any(isinstance(record, ViewInstalled) and record.order_seq_num == 1 for record in self.records)

    @property
    def lost_count(self) -> int:
        return sum(record.lost_count for record in self.records if isinstance(record, Gap))


def read_journals(paths: Iterable[Path]) -> list[Journal]:
    """Raises PeerError for a damaged file. One without a record (killed at birth) tells nothing."""
    segments: dict[tuple[GroupId, BirthId], list[tuple[int, Journal]]] = {}
    for path in paths:
        with JournalReader(path) as reader:
            # What clients saw is no deed of a replica: the pipeline judges it.
            records = [record for record in reader if not isinstance(record, Called)]
            if records:
                one = Journal(path.stem, records, reader.torn_bytes)
                process = one.first.group_id, one.first.birth_id
                segments.setdefault(process, []).append((reader.segment, one))
    found = [_joined(parts) for parts in segments.values()]
    return sorted(_on_one_clock(found), key=lambda journal: journal.first.time_ns)


def _joined(segments: list[tuple[int, Journal]]) -> Journal:
    """The segments of one process as one journal."""
    ordered = [journal for _, journal in sorted(segments, key=lambda part: part[0])]
    records = [record for journal in ordered for record in journal.records]
    return Journal(ordered[0].name, records, ordered[-1].torn_bytes)


def _on_one_clock(journals: Sequence[Journal]) -> list[Journal]:
    """Hosts count their nanoseconds from different starts. Birth ids have the time of day, which brings them
    together as well as the hosts agree on it; the order within a process is certain in any case."""
    if not journals:
        return []
    reference_ns = _start_of_count_ns(journals[0])
    aligned = []
    for journal in journals:
        shift_ns = _start_of_count_ns(journal) - reference_ns
        same_clock = abs(shift_ns) < ANOTHER_CLOCK_NS
        aligned.append(journal if same_clock else replace(journal, records=_shifted(journal, shift_ns)))
    return aligned


def _start_of_count_ns(journal: Journal) -> int:
    """The time of day at which the clock of its host began to count, as far as its birth shows."""
    return journal.first.birth_id.start_ns - journal.first.time_ns


def _shifted(journal: Journal, by_ns: int) -> list[Record]:
    return [
        record._replace(stamp=record.stamp._replace(time_ns=record.stamp.time_ns + by_ns))
        for record in journal.records
    ]


def judge(journals: Sequence[Journal]) -> list[Violation]:
    """What the checkers that are not left out find, and journals that lost records themselves."""
    gaps = [
        Violation("gap", f"Journal {one.name} lost {one.lost_count} records: nothing is certain about it.")
        for one in journals
        if one.lost_count
    ]
    found = [
        violation
        for evidence in evidence_of(journals)
        for violation in check_named(evidence, leave_out=LEFT_OUT)
    ]
    return gaps + found


def evidence_of(journals: Sequence[Journal]) -> list[Evidence]:
    """One for each history of the groups; see above."""
    begins = [0, *_foundings_anew(journals)]
    histories: list[list[Journal]] = [[] for _ in begins]
    for journal in journals:
        index = max(at for at, begin_ns in enumerate(begins) if begin_ns <= journal.first.time_ns)
        histories[index].append(journal)
    return [_evidence(history) for history in histories]


def _foundings_anew(journals: Sequence[Journal]) -> list[int]:
    """When groups had ended before they were founded again: after the last word of all who had ended by
    then. Their gateways end and begin with them."""
    moments = set()
    by_group: dict[GroupId, list[Journal]] = {}
    for journal in journals:
        by_group.setdefault(journal.first.group_id, []).append(journal)
    for lives in by_group.values():
        for index, life in enumerate(lives):
            begin_ns = life.first.time_ns
            if index and life.founds and all(one.last.time_ns < begin_ns for one in lives[:index]):
                ends_ns = [one.last.time_ns for one in journals if one.last.time_ns < begin_ns]
                moments.add(max(ends_ns) + 1)
    return sorted(moments)


def _evidence(journals: Sequence[Journal]) -> Evidence:
    records = [record for journal in journals for record in journal.records]
    records.sort(key=lambda record: record[0].time_ns)  # stable: a process's own order stays
    ends_ns: dict[GroupId, int] = {}
    for journal in journals:
        last = journal.last
        ends_ns[last.group_id] = max(ends_ns.get(last.group_id, 0), last.time_ns)
    return Evidence(
        records=records,
        processes=[_last_known(journal) for journal in journals],
        faults=_partitions(records),
        profile=LIVE,
        options=SimulationOptions(profile=LIVE.name),
        topology=Topology(LIVE.name, ()),
        simulated_ns=0,
        quiesced=False,
        journals_end_ns=ends_ns,
    )


def _last_known(journal: Journal) -> ProcessState:
    roles = [record.role for record in journal.records if isinstance(record, RoleChanged)]
    memberships = [record.membership for record in journal.records if isinstance(record, MembershipChanged)]
    stamp = journal.last
    return ProcessState(
        group_id=stamp.group_id,
        birth_id=stamp.birth_id,
        name=journal.name,
        alive=False,
        role=roles[-1] if roles else "",
        view=stamp.view,
        membership=memberships[-1] if memberships else (),
        program=None,
        statistics={},
    )


def _partitions(records: Iterable[Record]) -> tuple[PerformedFault, ...]:
    superseded: dict[tuple[GroupId, BirthId], int] = {
        (record.stamp.group_id, record.stamp.birth_id): record.stamp.time_ns
        for record in records
        if isinstance(record, Superseded)
    }
    return tuple(
        PerformedFault(Partition(at_ns, group_id, "inferred", 0), at_ns, ((group_id, birth_id),))
        for (group_id, birth_id), at_ns in superseded.items()
    )
