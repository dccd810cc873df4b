"""Heartbeat arrivals of a fleet, counted by Spark: what the fit on the driver needs, and no more.

A stream is one backup that listens to one primary. Every arrival falls in a bucket by its excess over the
stream's usual interval, and is counted under its pair of hosts, the load of its second, and its half: odd and
even blocks of ten seconds, one for the fit and the other held out. Blocks and not single arrivals, because
neighbours are alike, and a split between neighbours would hold out nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from llft.instant import SECOND
from llft.pipeline.tune.cost import Stream
from llft.pipeline.tune.tail import BUCKET_RATIO, LEAST_EXCESS_NS, ON_TIME, fit_tail

BLOCK_NS = 10 * SECOND
LEAST_ARRIVALS = 1000
"""Of a kind of stream that gets a tail of its own."""
INTERVAL_ACCURACY = 1000
"""Of the median: a relative error of a thousandth of the rank."""


class Key(NamedTuple):
    pair: str
    load: str
    held_out: bool


@dataclass(slots=True)
class Counted:
    """The arrivals of one kind of stream."""

    interval_ns: int
    histogram: dict[int, int] = field(default_factory=dict)
    listened_ns: int = 0


def count_arrivals(records: DataFrame) -> DataFrame:
    """One row per pair, load, half and bucket: `arrivals`, and the sums of what they waited."""
    return (
        records.transform(heartbeats)
        .transform(with_usual_interval)
        .transform(lambda beats: with_load(beats, operations_by_second(records)))
        .groupBy("pair", "load", "held_out", "usual_ns", _bucket().alias("bucket"))
        .agg(F.count("*").alias("arrivals"), F.sum("interval_ns").alias("listened_ns"))
    )


def heartbeats(records: DataFrame) -> DataFrame:
    """The first heartbeat of a sender has no interval, and is left out."""
    return records.where((F.col("kind") == "HeartbeatArrived") & (F.col("interval_ns") > 0)).select(
        "process",
        "interval_ns",
        F.concat_ws(" to ", F.col("sender.host_id"), F.col("birth_id.host_id")).alias("pair"),
        F.expr(f"time_ns div {SECOND}").alias("second"),
        (F.expr(f"time_ns div {BLOCK_NS}") % 2 == 1).alias("held_out"),
    )


def with_usual_interval(beats: DataFrame) -> DataFrame:
    """The median. Where arrivals come in bursts, because the listener did not get a processor, the median is
    that of a burst; then the mean, which bursts do not change."""
    usual = beats.groupBy("process").agg(
        F.percentile_approx("interval_ns", 0.5, INTERVAL_ACCURACY).alias("median_ns"),
        F.mean("interval_ns").alias("mean_ns"),
    )
    is_bursty = 2 * F.col("median_ns") < F.col("mean_ns")
    typical_ns = F.when(is_bursty, F.col("mean_ns")).otherwise(F.col("median_ns"))
    # In whole milliseconds, as it was configured: so that streams of one configuration are one kind.
    whole_ms = F.greatest(F.lit(1), F.round(typical_ns / 1e6))
    rounded = usual.select("process", (whole_ms * 1_000_000).cast("long").alias("usual_ns"))
    return beats.join(rounded, "process", "inner")


def operations_by_second(records: DataFrame) -> DataFrame:
    return (
        records.where(F.col("kind") == "Operated")
        .groupBy("process", F.expr(f"time_ns div {SECOND}").alias("second"))
        .agg(F.count("*").alias("operations"))
    )


def with_load(beats: DataFrame, operations: DataFrame) -> DataFrame:
    """Loads are powers of ten of operations a second: "0", "1+", "10+", "100+" and so on."""
    known = F.coalesce("operations", F.lit(0))
    power = F.floor(F.log10(F.greatest(known, F.lit(1))))
    name = F.when(known == 0, F.lit("0")).otherwise(
        F.concat(F.pow(F.lit(10.0), power).cast("long").cast("string"), F.lit("+"))
    )
    return beats.join(operations, ["process", "second"], "left").withColumn("load", name)


def _bucket() -> Column:
    """As `tail.bucket_of`."""
    excess = F.col("interval_ns") - F.col("usual_ns")
    late = F.floor(F.log(F.greatest(excess, F.lit(LEAST_EXCESS_NS))) / math.log(BUCKET_RATIO))
    return F.when(excess < LEAST_EXCESS_NS, F.lit(ON_TIME)).otherwise(late).cast("int")


def collect(counted: DataFrame) -> dict[Key, list[Counted]]:
    """To the driver: some hundred rows per key. Streams of different usual intervals stay apart."""
    found: dict[Key, dict[int, Counted]] = {}
    for row in counted.collect():
        kinds = found.setdefault(Key(row.pair, row.load, row.held_out), {})
        kind = kinds.setdefault(row.usual_ns, Counted(row.usual_ns))
        kind.histogram[row.bucket] = kind.histogram.get(row.bucket, 0) + row.arrivals
        kind.listened_ns += row.listened_ns
    return {key: list(kinds.values()) for key, kinds in sorted(found.items())}


def streams_of(found: dict[Key, list[Counted]], *, held_out: bool) -> list[Stream]:
    """A fitted tail for each kind of stream of one half. Kinds with few arrivals are put together over all
    loads: a shape that is fitted to a handful of points would be let loose on a year."""
    named: dict[tuple[str, int], Counted] = {}
    for key, kinds in found.items():
        for kind in kinds:
            if key.held_out == held_out:
                load = f"load {key.load}" if _size(kind) >= LEAST_ARRIVALS else "other loads"
                known = named.setdefault((f"{key.pair}, {load}", kind.interval_ns), Counted(kind.interval_ns))
                _add(known, kind)
    return [
        Stream(name, kind.interval_ns, fit_tail(kind.histogram, kind.listened_ns / SECOND))
        for (name, _), kind in named.items()
    ]


def _add(total: Counted, kind: Counted) -> None:
    total.listened_ns += kind.listened_ns
    for bucket, arrivals in kind.histogram.items():
        total.histogram[bucket] = total.histogram.get(bucket, 0) + arrivals


def _size(kind: Counted) -> int:
    return sum(kind.histogram.values())


def replica_count(records: DataFrame) -> int:
    """Of the largest group that has heartbeats; 2 if no membership was recorded."""
    listeners = records.where(F.col("kind") == "HeartbeatArrived").select("group_id").distinct()
    sizes = (
        records.where(F.col("kind") == "MembershipChanged")
        .join(listeners, "group_id", "leftsemi")
        .agg(F.max(F.size("membership")).alias("size"))
        .collect()
    )
    return max(2, sizes[0].size or 0)
