"""Worlds judged where they lie are judged as a fleet is: the same findings, or none is cleared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import Row, SparkSession

from llft.cli import seed_work
from llft.journal.record import ClockRead, Delivered, Operated, Record, Sent
from llft.pipeline.audit.worlds import judge_file, judge_worlds
from llft.pipeline.campaign.encode import Gathered, gather, table_of
from llft.pipeline.campaign.outcome import Cell
from llft.pipeline.campaign.work import write_whole
from llft.pipeline.ingest import split
from llft.pipeline.scan import opened
from tests.pipeline.worlds import Audited

SERVER = 100
PLACE = ("condition", "severity", "world", "group_id", "epoch", "order_seq_num", "connection")
OF_DAMAGE = " are no record ("
"""Bytes that are none have no world: only who has read the journals themselves knows of them."""


@pytest.fixture(scope="module")
def file(spark: SparkSession, audited: Audited, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All planted faults, generated histories and simulated runs."""
    records = split(spark.read.parquet(audited.rows)).records.toArrow()
    path = tmp_path_factory.mktemp("whole") / "all.parquet"
    parquet.write_table(records, path, row_group_size=5000)
    return path


def expected(audited: Audited) -> dict[int, list[tuple[object, ...]]]:
    rows = [one for one in audited.findings if OF_DAMAGE not in one["explanation"]]
    return by_world(rows)


def by_world(findings: Iterable[Row | dict[str, object]]) -> dict[int, list[tuple[object, ...]]]:
    found: dict[int, list[tuple[object, ...]]] = {}
    for one in findings:
        found.setdefault(int(str(one["world"])), []).append(_comparable(one))
    return {world: sorted(rows) for world, rows in found.items()}


def _comparable(finding: Row | dict[str, object]) -> tuple[object, ...]:
    """Of several replicas that say the same any may be named."""
    return tuple(repr(finding[name]) for name in PLACE)


def test_no_world_is_cleared_in_which_there_is_something_to_be_found(file: Path, audited: Audited) -> None:
    with opened(str(file)) as rows:
        doubtful, told = judge_file(rows)
    known = {world: rows for world, rows in expected(audited).items() if world not in doubtful}
    assert by_world(told) == known
    assert doubtful, "some are wrong in what only rows can show"


def test_findings_are_those_of_a_fleet(spark: SparkSession, file: Path, audited: Audited) -> None:
    assert by_world(judge_worlds(spark, [str(file)]).to_pylist()) == expected(audited)


# -- one record of a clean world is altered -------------------------------------------------------


@pytest.fixture(scope="module")
def clean() -> list[Record]:
    outcome = seed_work.run_seed(1, Cell("default", 3))
    assert not outcome.violations
    return list(outcome.records)


def doubtful_of(records: list[Record], directory: Path) -> set[int]:
    gathered = Gathered()
    gather(gathered, records, world=7)
    table = table_of(gathered)
    assert isinstance(table, pa.Table)
    write_whole(table, directory / "one.parquet")
    with opened(str(directory / "one.parquet")) as rows:
        return judge_file(rows)[0]


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


def test_a_clean_world_is_cleared(clean: list[Record], tmp_path: Path) -> None:
    assert doubtful_of(clean, tmp_path) == set()


@pytest.mark.parametrize("kind", [Sent, Delivered, Operated, ClockRead])
def test_a_world_with_one_other_record_is_not(clean: list[Record], kind: type, tmp_path: Path) -> None:
    """One early record of its kind, of a group of several replicas."""
    places = [at for at, one in enumerate(clean) if type(one) is kind and one.stamp.group_id == SERVER]
    at = places[len(places) // 3]
    for altered in alterations(clean[at]):
        other = [*clean[:at], altered, *clean[at + 1 :]]
        assert doubtful_of(other, tmp_path) == {7}, altered


def test_a_world_in_which_messages_were_collected_that_nobody_read_is_not(
    clean: list[Record], tmp_path: Path
) -> None:
    assert doubtful_of([one for one in clean if type(one) is not Delivered], tmp_path) == {7}
