"""Figures from journals: what Spark finds is what a plain loop over the records finds."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession

from llft.cli import seed_work
from llft.journal.record import Delivered, Operated, Record, RoleChanged, Sent, Suspected
from llft.pipeline.campaign.encode import table_of
from llft.pipeline.campaign.gathered import Gathered, gather
from llft.pipeline.campaign.outcome import Cell
from llft.pipeline.figures.changes import changes, detections
from llft.pipeline.figures.lag import lags
from llft.pipeline.figures.operations import service_times
from llft.pipeline.figures.page import all_figures, write_figures
from llft.pipeline.figures.trips import round_trips, with_replicas
from llft.pipeline.schema import RECORD_SCHEMA

SEED = 4


@pytest.fixture(scope="module")
def world() -> list[Record]:
    return list(seed_work.run_seed(SEED, Cell("crash", 3)).records)


@pytest.fixture(scope="module")
def records(
    spark: SparkSession, world: list[Record], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DataFrame]:
    gathered = Gathered()
    gather(gathered, world, world=1)
    path = tmp_path_factory.mktemp("figures") / "records.parquet"
    parquet.write_table(table_of(gathered), path)
    frame = spark.read.schema(RECORD_SCHEMA).parquet(str(path)).persist()
    yield frame
    frame.unpersist()


def talk_of_primaries(world: list[Record], *, at_client: bool) -> Iterator[list[Sent | Delivered]]:
    """What the primaries sent and delivered, connection by connection, at one end."""
    found: dict[object, list[Sent | Delivered]] = {}
    for record in world:
        if isinstance(record, Sent | Delivered) and record.size:
            stamp, connection = record.stamp, record.connection
            end = connection.client_group_id if at_client else connection.server_group_id
            if stamp.group_id == end and stamp.view.birth_id == stamp.birth_id:
                found.setdefault((stamp.birth_id, connection), []).append(record)
    yield from found.values()


def test_round_trips(records: DataFrame, world: list[Record]) -> None:
    expected = sorted(
        (later.stamp.time_ns - earlier.stamp.time_ns, max(earlier.size, later.size))
        for talk in talk_of_primaries(world, at_client=True)
        for earlier, later in pairwise(talk)
        if isinstance(earlier, Sent) and isinstance(later, Delivered)
    )
    trips = with_replicas(round_trips(records), records)
    assert expected
    assert sorted((row.latency_ns, row["size"]) for row in trips.collect()) == expected
    assert {row.replicas for row in trips.select("replicas").distinct().collect()} <= {None, 1, 2, 3}


def test_service_times(records: DataFrame, world: list[Record]) -> None:
    expected = sorted(
        later.stamp.time_ns - earlier.stamp.time_ns
        for talk in talk_of_primaries(world, at_client=False)
        for earlier, later in pairwise(talk)
        if isinstance(earlier, Delivered) and isinstance(later, Sent)
    )
    found = sorted(row.duration_ns for row in service_times(records).collect())
    assert found
    assert not set(found) - set(expected)
    assert len(found) > 0.9 * len(expected), "only requests with very many operations in between are left out"


def test_changes_of_the_primary(records: DataFrame, world: list[Record]) -> None:
    roles: dict[object, list[RoleChanged]] = {}
    for record in world:
        if isinstance(record, RoleChanged):
            roles.setdefault(record.stamp.birth_id, []).append(record)
    expected = sorted(
        last.stamp.time_ns - first.stamp.time_ns
        for history in roles.values()
        for first, middle, last in zip(history, history[1:], history[2:], strict=False)
        if (first.role, middle.role, last.role) == ("proposing", "recovering", "primary")
    )
    found = changes(records).collect()
    assert expected
    assert sorted(row.total_ns for row in found) == expected
    assert all(row.change_ns + row.recovery_ns == row.total_ns for row in found)
    assert all(row.replicas >= 1 for row in found)
    assert any(row.clients > 0 for row in found)


def test_detections_are_of_those_who_wrote_no_more(records: DataFrame, world: list[Record]) -> None:
    ends = {record.stamp.birth_id: record.stamp.time_ns for record in world}
    expected = sorted(
        (record.reason, record.stamp.time_ns - ends[record.suspect])
        for record in world
        if isinstance(record, Suspected) and record.stamp.time_ns > ends[record.suspect]
    )
    assert expected
    assert sorted((row.reason, row.silence_ns) for row in detections(records).collect()) == expected


def test_lags(records: DataFrame, world: list[Record]) -> None:
    first: dict[tuple[object, ...], int] = {}
    for record in world:
        if isinstance(record, Operated) and record.stamp.view.birth_id == record.stamp.birth_id:
            key = (record.stamp.group_id, record.stamp.view, record.order_seq_num)
            first[key] = min(record.stamp.time_ns, first.get(key, record.stamp.time_ns))
    expected = sorted(
        record.stamp.time_ns - first[key]
        for record in world
        if isinstance(record, Operated)
        and record.stamp.view.birth_id != record.stamp.birth_id
        and (key := (record.stamp.group_id, record.stamp.view, record.order_seq_num)) in first
    )
    assert expected
    assert sorted(row.lag_ns for row in lags(records).collect()) == expected


def test_the_page_has_all_figures(records: DataFrame, tmp_path: Path) -> None:
    figures = all_figures(records)
    text = write_figures(figures, tmp_path).read_text(encoding="utf-8")
    assert all(figure.title in text for figure in figures)
    assert [figure.name for figure in figures if not figure.rows] == []
    assert (tmp_path / "latency-by-size.svg").read_text(encoding="utf-8").startswith("<svg")
    assert (tmp_path / "recovery.csv").read_text(encoding="utf-8").startswith("replicas left,clients,count")


def test_what_journals_do_not_show_is_said(records: DataFrame, tmp_path: Path) -> None:
    figures = all_figures(records.filter("kind = 'HeartbeatArrived'"))
    text = write_figures(figures, tmp_path).read_text(encoding="utf-8")
    assert all(not figure.rows for figure in figures)
    assert text.count("Not shown:") == len(figures)
    assert "gateway" in text
    assert [path.name for path in tmp_path.iterdir()] == ["index.html"]
