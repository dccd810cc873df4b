"""Round trips, as the client's end of a connection saw them: from a request's leaving to its reply's
delivery.

A reply is what is delivered after something was sent on the same connection, with nothing else in between.
Requests that are pipelined have no round trip of their own, and are left out. The clock is one process's, so
no clocks are compared.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from llft.pipeline.charts import Axis, Series, chart
from llft.pipeline.figures.figure import SPREAD, SPREAD_HEAD, Figure, spread_us

NO_TRIPS = (
    "no request with its reply: give the journals of the clients' end too (a gateway, or a replicated client)"
)


def round_trips(records: DataFrame) -> DataFrame:
    """`world`, `server`, `at_ns`, `size` (the larger of request and reply), `latency_ns`."""
    is_client = F.col("connection.client_group_id") == F.col("group_id")
    is_primary = F.col("view.birth_id") == F.col("birth_id")
    on_connection = Window.partitionBy("process", "life", "connection").orderBy("place")
    talk = records.filter(
        F.col("kind").isin("Sent", "Delivered") & is_client & is_primary & (F.col("size") > 0)
    )
    before = [F.lag(name).over(on_connection).alias(f"before_{name}") for name in ("kind", "time_ns", "size")]
    return (
        talk.select("*", *before)
        .filter((F.col("kind") == "Delivered") & (F.col("before_kind") == "Sent"))
        .select(
            "world",
            F.col("connection.server_group_id").alias("server"),
            F.col("wall_ns").alias("at_ns"),
            F.greatest("size", "before_size").alias("size"),
            (F.col("time_ns") - F.col("before_time_ns")).alias("latency_ns"),
        )
    )


def with_replicas(trips: DataFrame, records: DataFrame) -> DataFrame:
    """`replicas` of the server at that time, as its primaries told it; null before the first word."""
    is_primary = F.col("view.birth_id") == F.col("birth_id")
    told = records.filter((F.col("kind") == "MembershipChanged") & is_primary).select(
        "world",
        F.col("group_id").alias("server"),
        F.col("wall_ns").alias("at_ns"),
        F.size("membership").alias("told"),
    )
    in_time = Window.partitionBy("world", "server").orderBy("at_ns").rowsBetween(Window.unboundedPreceding, 0)
    both = trips.withColumn("told", F.lit(None).cast("int")).unionByName(told, allowMissingColumns=True)
    latest = F.last("told", ignorenulls=True).over(in_time)
    return both.withColumn("replicas", latest).filter(F.col("latency_ns").isNotNull()).drop("told")


def by_size(trips: DataFrame) -> Figure:
    """Sizes are put together by powers of two."""
    size = F.pow(F.lit(2.0), F.ceil(F.log2("size"))).cast("long").alias("size")
    rows = trips.groupBy("replicas", size).agg(*spread_us("latency_ns")).orderBy("replicas", "size").collect()
    series = [
        Series(f"{replicas} replicas", tuple((row.size, row.p50) for row in rows if row.replicas == replicas))
        for replicas in sorted({row.replicas for row in rows if row.replicas is not None})
    ]
    return Figure(
        "latency-by-size",
        "End-to-end latency by message size",
        "From the request's leaving to the reply's delivery, at the primary of the client's end. The size is "
        "that of the larger message, rounded up to a power of two. The paper's figure has plain TCP beside "
        "it: no journal has that.",
        ("replicas", "bytes up to", *SPREAD_HEAD),
        [[_known(row.replicas), row.size, *(row[name] for name in SPREAD)] for row in rows],
        chart("Latency by message size (median)", Axis("bytes", True), Axis("microseconds"), series),
        NO_TRIPS,
    )


def by_replicas(trips: DataFrame) -> Figure:
    rows = trips.groupBy("replicas").agg(*spread_us("latency_ns")).orderBy("replicas").collect()
    known = [row for row in rows if row.replicas is not None]
    series = [
        Series(name, tuple((float(row.replicas), row[name]) for row in known)) for name in ("p50", "p99")
    ]
    return Figure(
        "latency-by-replicas",
        "End-to-end latency by number of replicas",
        "The server's membership at the time of the reply, as its primary's journal tells it.",
        ("replicas", *SPREAD_HEAD),
        [[_known(row.replicas), *(row[name] for name in SPREAD)] for row in rows],
        chart("Latency by replicas", Axis("replicas"), Axis("microseconds"), series),
        NO_TRIPS,
    )


def _known(replicas: int | None) -> object:
    return "not told" if replicas is None else replicas
