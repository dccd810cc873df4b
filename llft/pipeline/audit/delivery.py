"""Exactly once, in order, what was written: per connection and direction.

At every replica of the reader: no byte missing, none twice, none that the surviving branch of the writer
did not write. Bytes from or for a pruned branch are no violation if the connection is excused (`excuses`). A
killed process may have kept its last records to itself, so what others read of a group behind the end of its
journals is compared among the readers only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from llft.instant import MS
from llft.pipeline.audit.columns import (
    VIEW_NUMBERS,
    as_findings,
    connection_text,
    view_name,
    view_numbers,
)
from llft.pipeline.audit.findings import VIOLATION
from llft.pipeline.audit.lives import NO_LIMIT
from llft.pipeline.audit.streams import DIRECTION

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

CONDITION = "exactly_once"
END = ("world", "group_id", "epoch", "connection")
"""One end of a connection; the group is the one that reads."""
BEFORE = ("process", "life")
CLOCKS_DIFFER_NS = 50 * MS
"""The time of day is known of a process as far as its birth id shows it, which is older than the first record
by what the process took to begin. So the end of a writer's journals is no sharp moment to others."""


def surviving_delivered(records: DataFrame, lives: DataFrame) -> DataFrame:
    """Deliveries carry no order number. One that follows the last surviving operation may belong to it or
    to the next, so it is left out."""
    whose = lives.select(*BEFORE, "epoch", "limit", "replica", "partial")
    survives = F.coalesce(F.col("performed") < F.col("limit") - 1, F.col("limit") == NO_LIMIT)
    begin_offset = (F.col("stream_offset") - F.col("size")).alias("begin_offset")
    what = ("connection", "stream_offset", begin_offset, "previous", "digest", "performed", "wall_ns")
    return (
        records.filter("kind = 'Delivered'")
        .select("world", "group_id", *BEFORE, *what, *view_numbers())
        .join(F.broadcast(whose), list(BEFORE), "inner")
        .filter(survives)
        .drop("limit", "performed")
    )


def jumps(delivered: DataFrame) -> DataFrame:
    """A replica read on at another place than where it had stopped."""
    values = {
        "expected": F.format_string("offset %d", "previous"),
        "found": F.format_string("offset %d", "begin_offset"),
        "explanation": F.format_string(
            "Replica %s of group %d read on %s from offset %d when it had reached %d.",
            *("replica", "group_id", connection_text(F.col("connection")), "begin_offset", "previous"),
        ),
    }
    return delivered.filter("begin_offset != previous").transform(_findings, values)


def disagreements(delivered: DataFrame, lives: DataFrame) -> DataFrame:
    """Replicas of the reader read other bytes up to the same offset."""
    # Number by number: a struct among the aggregates would make Spark sort all deliveries.
    once = delivered.groupBy(*END, "stream_offset").agg(
        *(F.min("digest").alias("low"), F.max("digest").alias("high")),
        *(F.min_by(name, "digest").alias(f"low_{name}") for name in BEFORE),
        *(F.max_by(name, "digest").alias(name) for name in (*BEFORE, "wall_ns", *VIEW_NUMBERS)),
    )
    names = lives.select("process", "life", "replica")
    others = names.toDF("low_process", "low_life", "other_replica")
    differ = (
        once.filter("low != high")
        .join(F.broadcast(names), list(BEFORE), "inner")
        .join(F.broadcast(others), ["low_process", "low_life"], "inner")
    )
    values = {
        "expected": F.format_string("digest 0x%x", "low"),
        "found": F.format_string("digest 0x%x", "high"),
        "explanation": F.format_string(
            "Up to offset %d of %s replica %s of group %d read bytes with digest 0x%x, replica %s 0x%x.",
            *("stream_offset", connection_text(F.col("connection")), "replica", "group_id", "high"),
            *("other_replica", "low"),
        ),
    }
    return differ.transform(_findings, values)


def strangers(delivered: DataFrame, written: DataFrame, lives: DataFrame, excused: DataFrame) -> DataFrame:
    """Bytes were read that the writer did not write: others, or more."""
    known = delivered.withColumn("sender", other_end()).transform(_with_sender_epoch, lives)
    read = known.filter(F.col("sender_epoch").isNotNull())
    ends = written.select(
        *("world", "connection", F.col("group_id").alias("sender"), F.col("epoch").alias("sender_epoch")),
        *(F.col("end_offset").alias("stream_offset"), "plain_digest"),
    ).dropDuplicates(["world", "connection", "sender", "sender_epoch", "stream_offset"])
    direction = ["world", "connection", "sender", "sender_epoch"]
    sizes = ends.groupBy(*direction).agg(F.max("stream_offset").alias("written_size"))
    compared = read.join(ends, [*direction, "stream_offset"], "left").join(sizes, direction, "left")
    size = F.coalesce("written_size", F.lit(0))
    more = (
        (F.col("stream_offset") > size)
        & (F.col("wall_ns") < F.col("sender_end_ns") - CLOCKS_DIFFER_NS)
        & ~F.col("sender_partial")
    )
    other = (F.col("stream_offset") <= size) & (F.col("plain_digest") != F.col("digest"))
    unexcused = compared.filter(more | other).join(excused, ["world", "connection"], "left_anti")
    wrote = F.when(more, F.format_string("wrote %d bytes only", size)).otherwise(
        F.format_string("wrote 0x%x", "plain_digest")
    )
    values = {
        "expected": wrote,
        "found": F.format_string("digest 0x%x", "digest"),
        "explanation": F.format_string(
            "Replica %s of group %d read up to offset %d of %s bytes with digest 0x%x, of which group %d %s.",
            *(
                "replica",
                "group_id",
                "stream_offset",
                connection_text(F.col("connection")),
                "digest",
                "sender",
            ),
            wrote,
        ),
    }
    return unexcused.transform(_findings, values)


def missing_messages(written: DataFrame, lives: DataFrame) -> DataFrame:
    """The writer's journals do not have all that it wrote."""
    partial = lives.filter("partial").select("world", "group_id", "epoch").distinct()
    holes = written.filter("NOT follows").join(
        F.broadcast(partial), ["world", "group_id", "epoch"], "left_anti"
    )
    first = holes.groupBy(*DIRECTION).agg(
        F.min_by(F.struct("position", "order_seq_num"), "order_seq_num").alias("at")
    )
    values = {
        "condition": F.lit(CONDITION),
        "severity": F.lit(VIOLATION),
        "connection": connection_text(F.col("connection")),
        "order_seq_num": F.col("at.order_seq_num"),
        "found": F.format_string("position %d", "at.position"),
        "explanation": F.format_string(
            "Messages of group %d on %s before position %d are missing from its journals.",
            *("group_id", connection_text(F.col("connection")), "at.position"),
        ),
    }
    return first.transform(as_findings, values)


def other_end() -> Column:
    client, server = F.col("connection.client_group_id"), F.col("connection.server_group_id")
    return F.when(F.col("group_id") == client, server).otherwise(client)


def _with_sender_epoch(delivered: DataFrame, lives: DataFrame) -> DataFrame:
    """The history of the writer that was going on when the bytes were read, when its journals end, and
    whether they are all here. A writer without any journal has not ended: nothing is known of it (null)."""
    histories = lives.groupBy(
        "world", F.col("group_id").alias("sender"), F.col("epoch").alias("sender_epoch")
    ).agg(
        F.min("first_wall_ns").alias("begin_ns"),
        F.max("last_wall_ns").alias("sender_end_ns"),
        F.max("partial").alias("sender_partial"),
    )
    spans = histories.groupBy("world", "sender").agg(
        F.sort_array(
            F.collect_list(F.struct("sender_epoch", "begin_ns", "sender_end_ns", "sender_partial"))
        ).alias("all")
    )
    begun = F.filter("all", lambda one: (one["begin_ns"] <= F.col("wall_ns")) | (one["sender_epoch"] == 0))
    joined = delivered.join(F.broadcast(spans), ["world", "sender"], "left")
    return joined.withColumn("span", F.element_at(begun, -1)).select("*", "span.*").drop("all", "span")


def _findings(rows: DataFrame, values: dict[str, Column]) -> DataFrame:
    """One for each replica and connection: the first."""
    common = {
        "condition": F.lit(CONDITION),
        "severity": F.lit(VIOLATION),
        "connection": connection_text(F.col("connection")),
        "end_offset": F.col("stream_offset"),
        "view": view_name(),
    }
    every = rows.transform(as_findings, common | values)
    names = [name for name in every.columns if name not in ("world", "group_id", "replica", "connection")]
    first = every.groupBy("world", "group_id", "replica", "connection").agg(
        F.min_by(F.struct(*names), "end_offset").alias("one")
    )
    return first.select("world", "group_id", "replica", "connection", "one.*").select(*every.columns)
