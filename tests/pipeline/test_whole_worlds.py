"""Worlds judged where they lie are judged as a fleet is: the same findings, or none is cleared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import Row, SparkSession

from llft.cli import seed_work
from llft.journal.reader import JournalReader
from llft.journal.record import ClockRead, Delivered, Operated, Record, Sent
from llft.pipeline.audit.doubtful import judge_doubtful
from llft.pipeline.audit.worlds import Verdict, judge
from llft.pipeline.campaign.derive import derive
from llft.pipeline.campaign.encode import table_of
from llft.pipeline.campaign.gathered import Gathered, gather
from llft.pipeline.campaign.outcome import Cell
from llft.pipeline.campaign.whole import whole_of
from llft.pipeline.campaign.work import write_whole
from tests.pipeline.worlds import Audited

SERVER = 100
PLACE = ("condition", "severity", "world", "group_id", "epoch", "order_seq_num", "connection")


def judge_gathered(gathered: Gathered) -> Verdict:
    return judge(whole_of(gathered, derive(gathered)))


@pytest.fixture(scope="module")
def gathered(audited: Audited) -> Gathered:
    """All planted faults, generated histories and simulated runs; a simulation damages no file."""
    worlds = Gathered()
    for world, place in audited.journals.items():
        for path in sorted(place.iterdir()):
            with JournalReader(path) as reader:
                gather(worlds, reader, world=world)
    return worlds


def expected(audited: Audited) -> dict[int, list[tuple[object, ...]]]:
    return by_world(one for one in audited.findings if one["world"] in audited.journals)


def by_world(findings: Iterable[Row | dict[str, object]]) -> dict[int, list[tuple[object, ...]]]:
    found: dict[int, list[tuple[object, ...]]] = {}
    for one in findings:
        found.setdefault(int(str(one["world"])), []).append(_comparable(one))
    return {world: sorted(rows) for world, rows in found.items()}


def _comparable(finding: Row | dict[str, object]) -> tuple[object, ...]:
    """Of several replicas that say the same any may be named."""
    return tuple(repr(finding[name]) for name in PLACE)


def test_no_world_is_cleared_in_which_there_is_something_to_be_found(
    gathered: Gathered, audited: Audited
) -> None:
    doubtful, told = judge_gathered(gathered)
    known = {world: rows for world, rows in expected(audited).items() if world not in doubtful}
    assert by_world(one._asdict() for one in told) == known
    assert doubtful, "some are wrong in what only rows can show"


def test_findings_are_those_of_a_fleet(
    spark: SparkSession, gathered: Gathered, audited: Audited, tmp_path: Path
) -> None:
    """Doubtful worlds are judged by their rows, as the others are by those who have them."""
    doubtful, told = judge_gathered(gathered)
    table = table_of(gathered)
    assert isinstance(table, pa.Table)
    write_whole(table, tmp_path / "all.parquet")
    found = judge_doubtful(spark, [str(tmp_path / "all.parquet")], sorted(doubtful))
    assert by_world([*found.to_pylist(), *(one._asdict() for one in told)]) == expected(audited)


# -- one record of a clean world is altered -------------------------------------------------------


@pytest.fixture(scope="module")
def clean() -> list[Record]:
    outcome = seed_work.run_seed(1, Cell("default", 3))
    assert not outcome.violations
    return list(outcome.records)


def doubtful_of(records: list[Record]) -> set[int]:
    gathered = Gathered()
    gather(gathered, records, world=7)
    return judge_gathered(gathered).doubtful


def alterations(record: Record) -> Iterator[Record]:
    if isinstance(record, Sent):
        yield record._replace(digest=record.digest ^ 1)
        yield record._replace(position=record.position + 1)
    elif isinstance(record, Delivered):
        yield record._replace(digest=record.digest ^ 1)
        yield record._replace(stream_offset=record.stream_offset + 1)
    elif isinstance(record, Operated):
        yield record._replace(entry=record.entry + "!")
    elif isinstance(record, ClockRead):
        yield record._replace(value_ns=0)


def test_a_clean_world_is_cleared(clean: list[Record]) -> None:
    assert doubtful_of(clean) == set()


@pytest.mark.parametrize("kind", [Sent, Delivered, Operated, ClockRead])
def test_a_world_with_one_other_record_is_not(clean: list[Record], kind: type) -> None:
    """One early record of its kind, of a group of several replicas."""
    places = [at for at, one in enumerate(clean) if type(one) is kind and one.stamp.group_id == SERVER]
    at = places[len(places) // 3]
    for altered in alterations(clean[at]):
        other = [*clean[:at], altered, *clean[at + 1 :]]
        assert doubtful_of(other) == {7}, altered


def test_a_world_in_which_messages_were_collected_that_nobody_read_is_not(clean: list[Record]) -> None:
    assert doubtful_of([one for one in clean if type(one) is not Delivered]) == {7}
