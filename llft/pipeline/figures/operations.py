"""The price of an ordered operation: how long the primary was at a request, by how many operations it
performed for it.

From a request's delivery to the first message sent back on the same connection, at the primary. A server
with several clients works on several requests at a time, so what lies between is everybody's: the slope is
an upper bound of what one operation costs, the program's own work included. Journals have no run without
LLFT to subtract.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from llft.pipeline.charts import Axis, Series, chart
from llft.pipeline.figures.figure import SPREAD, SPREAD_HEAD, Figure, spread_us

MOST_OPERATIONS = 64


def service_times(records: DataFrame) -> DataFrame:
    """`operations` and `duration_ns` of every request that was answered."""
    is_server = F.col("connection.server_group_id") == F.col("group_id")
    is_primary = F.col("view.birth_id") == F.col("birth_id")
    on_connection = Window.partitionBy("process", "life", "connection").orderBy("place")
    talk = records.filter(
        F.col("kind").isin("Sent", "Delivered") & is_server & is_primary & (F.col("size") > 0)
    )
    before = [
        F.lag(name).over(on_connection).alias(f"before_{name}") for name in ("kind", "time_ns", "performed")
    ]
    return (
        talk.select("*", *before)
        .filter((F.col("kind") == "Sent") & (F.col("before_kind") == "Delivered"))
        .select(
            (F.col("order_seq_num") - F.col("before_performed")).alias("operations"),
            (F.col("time_ns") - F.col("before_time_ns")).alias("duration_ns"),
        )
        .filter(f"operations BETWEEN 1 AND {MOST_OPERATIONS}")
    )


def per_operation(records: DataFrame) -> Figure:
    times = service_times(records)
    rows = times.groupBy("operations").agg(*spread_us("duration_ns")).orderBy("operations").collect()
    slopes = times.agg((F.regr_slope("duration_ns", "operations") / 1e3).alias("slope")).collect()
    slope = slopes[0].slope if slopes else None
    price = f" The slope of all of them is {slope:.3g} us per operation." if slope is not None else ""
    points = tuple((float(row.operations), row.p50) for row in rows)
    return Figure(
        "operations",
        "Time at the primary by number of operations",
        "From a request's delivery to the next message on its connection; operations of other clients in "
        f"between are counted, and the program's own work is in it.{price}",
        ("operations", *SPREAD_HEAD),
        [[row.operations, *(row[name] for name in SPREAD)] for row in rows],
        chart("Time at the primary", Axis("operations"), Axis("microseconds"), [Series("median", points)]),
        "no request that was answered: give the journals of the server's replicas",
    )
