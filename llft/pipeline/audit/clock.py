"""The group clock never goes back along the order (D-18).

Every reading has the value of the same clock before it in the same journal, so within a life a filter is
enough. Between lives: where two overlap they have read the same (`agreement`); where one ends before
another begins, the first reading of the later is compared with the last of the earlier.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812

from llft.pipeline.audit.columns import VIEW_NUMBERS, as_findings, view_name, view_numbers
from llft.pipeline.audit.findings import VIOLATION

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CLOCK = ("world", "group_id", "epoch", "clock_id")
READING = ("order_seq_num", "value_ns", "wall_ns", *VIEW_NUMBERS)


def steps_back(records: DataFrame, lives: DataFrame) -> DataFrame:
    """Findings: the first step back of each clock."""
    limits = lives.select("process", "life", "limit")
    readings = (
        records.filter("kind = 'ClockRead'")
        .select(
            "process", "life", "clock_id", "order_seq_num", "value_ns", "wall_ns", "previous", *view_numbers()
        )
        .join(F.broadcast(limits), ["process", "life"], "inner")
        .filter(F.col("order_seq_num") < F.col("limit"))
    )
    whose = lives.select("world", "group_id", "process", "life", "epoch", "replica")
    within = (
        readings.filter("value_ns < previous")
        .select("process", "life", "clock_id", *READING, "previous")
        .join(F.broadcast(whose), ["process", "life"], "inner")
        .drop("process", "life")
    )
    every = within.unionByName(
        _between(_ends(readings).join(F.broadcast(whose), ["process", "life"], "inner"))
    )
    first = every.groupBy(*CLOCK).agg(
        F.min_by(F.struct(*READING, "previous", "replica"), "order_seq_num").alias("one")
    )
    return first.select(*CLOCK, "one.*").transform(_as_findings)


def _ends(readings: DataFrame) -> DataFrame:
    """The first and the last reading of every clock in every life. Number by number: a struct among the
    aggregates would make Spark sort all readings."""
    at = "order_seq_num"
    return readings.groupBy("process", "life", "clock_id").agg(
        *(F.min_by(name, at).alias(name) for name in READING),
        F.max(at).alias("last_at"),
        F.max_by("value_ns", at).alias("last_value_ns"),
    )


def _between(ends: DataFrame) -> DataFrame:
    """First readings of lives that are below the last of one that had ended before."""
    first = F.struct(*READING, "replica")
    begins = ends.select(
        *CLOCK,
        F.col("order_seq_num").alias("at"),
        first.alias("first"),
        F.lit(None).cast("long").alias("ended"),
    )
    nobody = F.lit(None).cast(begins.schema["first"].dataType)
    finishes = ends.select(
        *CLOCK, F.col("last_at").alias("at"), nobody.alias("first"), F.col("last_value_ns").alias("ended")
    )
    before = Window.partitionBy(*CLOCK).orderBy("at").rangeBetween(Window.unboundedPreceding, -1)
    return (
        begins.unionByName(finishes)
        .withColumn("previous", F.max("ended").over(before))
        .filter(F.col("first.value_ns") < F.col("previous"))
        .select(*CLOCK, "first.*", "previous")
    )


def _as_findings(found: DataFrame) -> DataFrame:
    values = {
        "condition": F.lit("clock"),
        "severity": F.lit(VIOLATION),
        "view": view_name(),
        "expected": F.format_string("%d ns or later", "previous"),
        "found": F.format_string("%d ns", "value_ns"),
        "explanation": F.format_string(
            "Clock %d of group %d went back from %d ns to %d ns at operation %d of replica %s.",
            *("clock_id", "group_id", "previous", "value_ns", "order_seq_num", "replica"),
        ),
    }
    return found.transform(as_findings, values)
