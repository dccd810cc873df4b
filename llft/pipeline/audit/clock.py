"""The group clock never goes back along the order (D-18).

Every reading has the value of the same clock before it in the same journal, so within a life a filter is
enough. Between lives: where two overlap they have read the same (`agreement`); where one ends before
another begins, the first reading of the later is compared with the last of the earlier.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812

from llft.pipeline.audit.columns import as_findings, view_text
from llft.pipeline.audit.findings import VIOLATION

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CLOCK = ("world", "group_id", "epoch", "clock_id")


def steps_back(records: DataFrame, lives: DataFrame) -> DataFrame:
    """Findings: the first step back of each clock."""
    whose = lives.select("process", "life", "epoch", "limit", "replica")
    readings = (
        records.filter("kind = 'ClockRead'")
        .join(F.broadcast(whose), ["process", "life"], "inner")
        .filter(F.col("order_seq_num") < F.col("limit"))
    )
    within = readings.filter("value_ns < previous").select(
        *CLOCK, "order_seq_num", "value_ns", "previous", "replica", "view", "wall_ns"
    )
    every = within.unionByName(_between(readings))
    first = every.groupBy(*CLOCK).agg(
        F.min_by(
            F.struct("order_seq_num", "value_ns", "previous", "replica", "view", "wall_ns"), "order_seq_num"
        ).alias("one")
    )
    return first.select(*CLOCK, "one.*").transform(_as_findings)


def _between(readings: DataFrame) -> DataFrame:
    """First readings of lives that are below the last of one that had ended before."""
    ends = readings.groupBy(*CLOCK, "process", "life").agg(
        F.min_by(
            F.struct("order_seq_num", "value_ns", "replica", "view", "wall_ns"), F.col("order_seq_num")
        ).alias("first"),
        F.max_by(F.struct("order_seq_num", "value_ns"), F.col("order_seq_num")).alias("last"),
    )
    nobody = F.lit(None).cast(ends.schema["first"].dataType)
    begins = ends.select(*CLOCK, F.col("first.order_seq_num").alias("at"), "first").withColumn(
        "ended_with", F.lit(None).cast("long")
    )
    finishes = ends.select(
        *CLOCK,
        F.col("last.order_seq_num").alias("at"),
        nobody.alias("first"),
        F.col("last.value_ns").alias("ended_with"),
    )
    before = Window.partitionBy(*CLOCK).orderBy("at").rangeBetween(Window.unboundedPreceding, -1)
    return (
        begins.unionByName(finishes)
        .withColumn("previous", F.max("ended_with").over(before))
        .filter(F.col("first.value_ns") < F.col("previous"))
        .select(*CLOCK, "first.*", "previous")
    )


def _as_findings(found: DataFrame) -> DataFrame:
    values = {
        "condition": F.lit("clock"),
        "severity": F.lit(VIOLATION),
        "view": view_text(F.col("view")),
        "expected": F.format_string("%d ns or later", "previous"),
        "found": F.format_string("%d ns", "value_ns"),
        "explanation": F.format_string(
            "Clock %d of group %d went back from %d ns to %d ns at operation %d of replica %s.",
            *("clock_id", "group_id", "previous", "value_ns", "order_seq_num", "replica"),
        ),
    }
    return found.transform(as_findings, values)
