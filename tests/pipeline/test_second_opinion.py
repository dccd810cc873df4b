"""DuckDB's opinion on what Spark finds: the same questions, asked of the same rows in other words.

Histories are generated, with faults planted at random. DuckDB looks at the rows in the order of their
journals, and at none of the columns that are derived for the audit.
"""

from __future__ import annotations

import duckdb
import pytest

from tests.pipeline.generated import WORLDS
from tests.pipeline.worlds import GENERATED, Audited

Answer = set[tuple[int, str, str | None, int | None]]
"""World, condition, replica and order number; what a question does not tell is None."""

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
            f"CREATE VIEW rows AS SELECT * FROM '{rows}/*.parquet' WHERE kind NOT LIKE '\\_%' ESCAPE '\\' "
            f"AND world >= {GENERATED} AND world < {GENERATED + WORLDS}"
        )
        return {
            row
            for query in (DIFFERENT, JUMPS, STEPS_BACK, READS)
            for row in connection.execute(query).fetchall()
        }


@pytest.fixture(scope="module")
def opinions(audited: Audited) -> tuple[Answer, Answer]:
    mine: Answer = set()
    for one in audited.findings:
        if one["world"] in range(GENERATED, GENERATED + WORLDS):
            by_replica = one["condition"] in ("theorem3", "exactly_once")
            number = None if one["condition"] == "exactly_once" else one["order_seq_num"]
            mine.add((one["world"], one["condition"], one["replica"] if by_replica else None, number))
    return mine, opinion_of_duckdb(audited.rows)


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
    assert {world for world, _, _, _ in duckdb_says}.isdisjoint(range(GENERATED, GENERATED + WORLDS, 4)), (
        "clean worlds are clean"
    )
