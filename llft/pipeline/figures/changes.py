"""Changes of the primary: how long the election and the recovery took, and how long it took to see the need.

At the new primary: *view change* from its proposing itself to the last acknowledgment it needs (role
"recovering"), *recovery* from there to the virtual synchrony point (role "primary"); the paper's recovery
latency is their sum. Clients are the connections that were open at the new primary then.

*Detection* is from the last record of the one that was suspected to the suspicion, where the clock is the
same: the true moment of death is in no journal, and the last record is a little before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from llft.pipeline.charts import Axis, Series, chart
from llft.pipeline.figures.figure import SPREAD, SPREAD_HEAD, Figure, same_clock, spread_us

NO_CHANGES = "no replica became primary after another: journals of a fail-over are needed"
LONGEST_DETECTION_NS = 60_000_000_000


def changes(records: DataFrame) -> DataFrame:
    """One row per new primary: `change_ns`, `recovery_ns`, `total_ns`, `replicas` that were left,
    `clients`."""
    in_journal = Window.partitionBy("process", "life").orderBy("place")
    so_far = in_journal.rowsBetween(Window.unboundedPreceding, 0)
    told = F.when(F.col("kind") == "MembershipChanged", F.size("membership"))
    before = [
        F.lag(name, back).over(in_journal).alias(f"{name}_{back}")
        for name in ("role", "time_ns")
        for back in (1, 2)
    ]
    roles = (
        records.filter(F.col("kind").isin("RoleChanged", "MembershipChanged"))
        .withColumn("left", F.last(told, ignorenulls=True).over(so_far))
        .filter(F.col("kind") == "RoleChanged")
        .select("process", "life", "place", "role", "left", "time_ns", *before)
    )
    elected = roles.filter("role = 'primary' AND role_1 = 'recovering' AND role_2 = 'proposing'").select(
        "process",
        "life",
        "place",
        (F.col("time_ns_1") - F.col("time_ns_2")).alias("change_ns"),
        (F.col("time_ns") - F.col("time_ns_1")).alias("recovery_ns"),
        (F.col("time_ns") - F.col("time_ns_2")).alias("total_ns"),
        F.col("left").alias("replicas"),
    )
    return _with_clients(elected, records)


def _with_clients(elected: DataFrame, records: DataFrame) -> DataFrame:
    is_server = F.col("connection.server_group_id") == F.col("group_id")
    ended = F.min(F.when(F.col("kind") == "ConnectionEnded", F.col("place")))
    connections = (
        records.filter(F.col("connection").isNotNull() & is_server)
        .groupBy("process", "life", "connection")
        .agg(F.min("place").alias("first"), ended.alias("ended"))
    )
    was_open = (F.col("first") < F.col("place")) & (
        F.col("ended").isNull() | (F.col("ended") > F.col("place"))
    )
    counted = (
        elected.join(connections, ["process", "life"], "left")
        .groupBy(*elected.columns)
        .agg(F.sum(F.when(was_open, 1).otherwise(0)).alias("clients"))
    )
    return counted.withColumn("clients", F.coalesce("clients", F.lit(0)))


def view_change(found: DataFrame) -> Figure:
    rows = found.groupBy("replicas").agg(*spread_us("change_ns")).orderBy("replicas").collect()
    return Figure(
        "view-change",
        "Primary view change latency",
        "From a backup's proposing itself to the last acknowledgment, by how many replicas were left.",
        ("replicas left", *SPREAD_HEAD),
        _cells(rows, "replicas"),
        _picture("Primary view change latency", "replicas left", rows, "replicas"),
        NO_CHANGES,
    )


def recovery(found: DataFrame) -> Figure:
    keys = ("replicas", "clients")
    rows = found.groupBy(*keys).agg(*spread_us("total_ns")).orderBy(*keys).collect()
    series = [
        Series(
            f"{replicas} replicas left",
            tuple((float(row.clients), row.p50) for row in rows if row.replicas == replicas),
        )
        for replicas in sorted({row.replicas for row in rows if row.replicas is not None})
    ]
    return Figure(
        "recovery",
        "Recovery latency by number of clients",
        "View change and virtual synchrony together; clients are the connections that were open.",
        ("replicas left", "clients", *SPREAD_HEAD),
        [[row.replicas, row.clients, *(row[name] for name in SPREAD)] for row in rows],
        chart("Recovery latency (median)", Axis("clients"), Axis("microseconds"), series),
        NO_CHANGES,
    )


def detections(records: DataFrame) -> DataFrame:
    """`reason` and `silence_ns` of every suspicion of one that wrote no more after it."""
    offset = F.col("wall_ns") - F.col("time_ns")
    ends = records.groupBy("world", F.col("birth_id").alias("suspect")).agg(
        F.max("time_ns").alias("end_ns"), F.max(offset).alias("their_offset")
    )
    suspicions = records.filter(F.col("kind") == "Suspected").select(
        "world", "suspect", "reason", "time_ns", offset.alias("our_offset")
    )
    return (
        suspicions.join(ends, ["world", "suspect"], "inner")
        .filter(same_clock("our_offset", "their_offset"))
        .select("reason", (F.col("time_ns") - F.col("end_ns")).alias("silence_ns"))
        .filter(f"silence_ns > 0 AND silence_ns < {LONGEST_DETECTION_NS}")
    )


def detection(records: DataFrame) -> Figure:
    rows = detections(records).groupBy("reason").agg(*spread_us("silence_ns")).orderBy("reason").collect()
    return Figure(
        "detection",
        "Fault detection time",
        "From the last record of the one that died to the suspicion, by what told of it. The death itself is "
        "in no journal; a process that was killed may have kept its last records to itself, so this is an "
        "upper bound.",
        ("told by", *SPREAD_HEAD),
        _cells(rows, "reason"),
        "",
        "nobody was suspected who wrote no more afterwards",
    )


def _cells(rows: Sequence[Any], key: str) -> list[list[object]]:
    return [[row[key], *(row[name] for name in SPREAD)] for row in rows]


def _picture(title: str, label: str, rows: Sequence[Any], key: str) -> str:
    known = [row for row in rows if row[key] is not None]
    series = [Series(name, tuple((float(row[key]), row[name]) for row in known)) for name in ("p50", "p99")]
    return chart(title, Axis(label), Axis("microseconds"), series)
