"""How far backups are behind: from the primary's performing an operation to a backup's, under the same
number.

Compared only where primary and backup have the same clock, which is on one host; between hosts the clocks
differ by more than the lag, and nothing is shown.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from llft.pipeline.figures.figure import SPREAD, SPREAD_HEAD, Figure, same_clock, spread_us

KEY = ("world", "group_id", "view", "order_seq_num")


def lags(records: DataFrame) -> DataFrame:
    """`replicas` that performed it, and `lag_ns` of each backup. The view is part of the key: a branch that
    was pruned is no one's yardstick."""
    is_primary = F.col("view.birth_id") == F.col("birth_id")
    operated = records.filter(F.col("kind") == "Operated").select(
        *KEY, "time_ns", (F.col("wall_ns") - F.col("time_ns")).alias("offset"), is_primary.alias("is_primary")
    )
    word = F.struct("time_ns", "offset")
    together = operated.groupBy(*KEY).agg(
        F.min(F.when(F.col("is_primary"), word)).alias("primary"),
        F.collect_list(F.when(~F.col("is_primary"), word)).alias("backups"),
    )
    return (
        together.filter(F.col("primary").isNotNull())
        .select((F.size("backups") + 1).alias("replicas"), "primary", F.explode("backups").alias("backup"))
        .filter(same_clock("primary.offset", "backup.offset"))
        .select("replicas", (F.col("backup.time_ns") - F.col("primary.time_ns")).alias("lag_ns"))
    )


def backup_lag(records: DataFrame) -> Figure:
    rows = lags(records).groupBy("replicas").agg(*spread_us("lag_ns")).orderBy("replicas").collect()
    return Figure(
        "lag",
        "Lag of backups",
        "From the primary's performing an operation to a backup's performing the same, where both have one "
        "clock.",
        ("replicas that performed it", *SPREAD_HEAD),
        [[row.replicas, *(row[name] for name in SPREAD)] for row in rows],
        "",
        "no operation of a primary and of a backup with the same clock",
    )
