"""DuckDB's opinion on what Spark finds: the same questions, asked of the same rows in other words.

Histories are generated, with faults planted at random. DuckDB looks at the rows in the order of their
journals, and at none of the columns that are derived for the audit.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest
from pyspark.sql import SparkSession

from llft.journal.record import ClockRead, Delivered, Operated, Record, Sent
from llft.pipeline.audit.checks import findings, judging
from llft.pipeline.ingest import decode_plans, journal_files, split
from llft.pipeline.segments import Plan, plan
from tests.pipeline.history import Journals, clean, write

WORLDS = 40

Answer = set[tuple[int, str, str | None, int | None]]
"""World, condition, replica and order number; what a question does not tell is None."""


def _change(
    kind: type, alter: Callable[[Record, random.Random], Record]
) -> Callable[[list[Record], random.Random], None]:
    def plant(records: list[Record], chance: random.Random) -> None:
        index = chance.choice([at for at, record in enumerate(records) if isinstance(record, kind)])
        records[index] = alter(records[index], chance)

    return plant


def _drop(kind: type) -> Callable[[list[Record], random.Random], None]:
    def plant(records: list[Record], chance: random.Random) -> None:
        del records[
            chance.choice([at for at, record in enumerate(records) if isinstance(record, kind)][1:-1])
        ]

    return plant


def _repeat(kind: type) -> Callable[[list[Record], random.Random], None]:
    def plant(records: list[Record], chance: random.Random) -> None:
        index = chance.choice([at for at, record in enumerate(records) if isinstance(record, kind)])
        records.insert(index, records[index])

    return plant


def _swap(records: list[Record], chance: random.Random) -> None:
    places = [at for at, record in enumerate(records) if isinstance(record, Operated)]
    first = chance.randrange(len(places) - 1)
    one, other = places[first], places[first + 1]
    records[one], records[other] = records[other], records[one]


PLANTS = (
    _change(Operated, lambda record, chance: record._replace(entry=f"other {chance.random()}")),  # type: ignore[call-arg]
    _change(Sent, lambda record, chance: record._replace(digest=chance.getrandbits(32))),  # type: ignore[call-arg]
    _change(ClockRead, lambda record, chance: record._replace(value_ns=record.value_ns + 1)),  # type: ignore[union-attr, call-arg]
    _change(ClockRead, lambda record, chance: record._replace(value_ns=5)),  # type: ignore[call-arg]
    _drop(Operated),
    _repeat(Operated),
    _drop(Delivered),
    _repeat(Delivered),
    _swap,
)


def planted(seed: int) -> Journals:
    """Up to three faults, in journals of backups: the primary's word is what others are compared with."""
    chance = random.Random(seed)
    journals = clean()
    for _ in range(seed % 4):
        chance.choice(PLANTS)(journals[chance.choice("DC")], chance)
    return journals


DIFFERENT = """
SELECT world, CASE kind WHEN 'Operated' THEN 'theorem2' WHEN 'Sent' THEN 'digests' ELSE 'clock' END, NULL,
       min(number) FROM (
    SELECT world, group_id, kind, min(order_seq_num) AS number FROM rows
    WHERE kind IN ('Operated', 'Sent', 'ClockRead')
    GROUP BY world, group_id, kind, CASE kind WHEN 'Sent' THEN connection END,
             CASE kind WHEN 'Sent' THEN position ELSE order_seq_num END
    HAVING count(DISTINCT (entry, size, digest, timestamp, clock_id, value_ns,
                           CASE kind WHEN 'Sent' THEN order_seq_num END)) > 1
) GROUP BY world, group_id, kind
"""

JUMPS = """
WITH deeds AS (
    SELECT world, birth_id, place, kind, order_seq_num AS number,
           lag(order_seq_num) OVER (PARTITION BY world, birth_id ORDER BY place) AS before
    FROM rows WHERE kind IN ('Operated', 'ViewInstalled', 'StateApplied')
)
SELECT world, 'theorem3', concat_ws('.', birth_id.host_id, birth_id.pid, birth_id.start_ns),
       arg_min(number, place)
FROM deeds WHERE kind = 'Operated' AND number != coalesce(before, 0) + 1 GROUP BY world, birth_id
"""

STEPS_BACK = """
WITH readings AS (
    SELECT *, lag(value_ns) OVER (PARTITION BY world, birth_id, clock_id ORDER BY place) AS before
    FROM rows WHERE kind = 'ClockRead'
)
SELECT world, 'clock', NULL, min(order_seq_num) FROM readings WHERE value_ns < before
GROUP BY world, group_id, clock_id
"""

READS = """
WITH reads AS (
    SELECT *, lag(stream_offset) OVER (PARTITION BY world, birth_id, connection ORDER BY place) AS before,
           birth_id IN (SELECT birth_id FROM rows WHERE kind = 'StateApplied') AS has_a_past
    FROM rows WHERE kind = 'Delivered'
)
SELECT DISTINCT world, 'exactly_once', concat_ws('.', birth_id.host_id, birth_id.pid, birth_id.start_ns),
       NULL::BIGINT
FROM reads WHERE stream_offset - size != CASE WHEN has_a_past THEN coalesce(before, stream_offset - size)
                                              ELSE coalesce(before, 0) END
"""


def opinion_of_duckdb(rows: str) -> Answer:
    with duckdb.connect() as connection:
        connection.execute(
            f"CREATE VIEW rows AS SELECT * FROM '{rows}/*.parquet' WHERE kind NOT LIKE '\\_%' ESCAPE '\\'"
        )
        return {
            row
            for query in (DIFFERENT, JUMPS, STEPS_BACK, READS)
            for row in connection.execute(query).fetchall()
        }


@pytest.fixture(scope="module")
def opinions(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Answer, Answer]:
    root = tmp_path_factory.mktemp("opinions")
    plans: list[Plan] = []
    for world in range(WORLDS):
        write(planted(world), root / str(world))
        plans += plan(journal_files([root / str(world)]), world)
    rows = str(Path(root) / "rows")
    decode_plans(spark, plans).write.parquet(rows)
    got = split(spark.read.parquet(rows))
    mine: Answer = set()
    with judging(got.records, got.quarantined) as case:
        for one in findings(case).collect():
            by_replica = one["condition"] in ("theorem3", "exactly_once")
            number = None if one["condition"] == "exactly_once" else one["order_seq_num"]
            mine.add((one["world"], one["condition"], one["replica"] if by_replica else None, number))
    return mine, opinion_of_duckdb(rows)


def test_both_find_the_same(opinions: tuple[Answer, Answer]) -> None:
    spark_says, duckdb_says = opinions
    assert spark_says == duckdb_says


def test_there_was_something_to_find(opinions: tuple[Answer, Answer]) -> None:
    _, duckdb_says = opinions
    assert {condition for _, condition, _, _ in duckdb_says} == {
        "theorem2",
        "theorem3",
        "digests",
        "clock",
        "exactly_once",
    }
    assert {world for world, _, _, _ in duckdb_says}.isdisjoint(range(0, WORLDS, 4)), "clean worlds are clean"
