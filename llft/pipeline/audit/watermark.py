"""Watermark safety: nothing is collected before all had it (paper, Buffer Management).

A group's watermark passes a message only when its primary has ordered it and every member has it. So
whatever was collected, of messages sent or delivered, the reading group's surviving branch has read; a
message that was collected and never read is one that nobody could have sent again. On connections that
are excused (`excuses`) a branch that had read it was pruned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from llft.pipeline.audit.columns import VIEW_NUMBERS, as_findings, connection_text, view_name, view_numbers
from llft.pipeline.audit.delivery import BEFORE, other_end
from llft.pipeline.audit.findings import VIOLATION

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CONDITION = "watermark"
DIRECTION = ["world", "connection", "sender"]
LAST = (*BEFORE, "up_to_timestamp", "wall_ns", *VIEW_NUMBERS)


def collected_too_early(
    records: DataFrame, delivered: DataFrame, written: DataFrame, lives: DataFrame, excused: DataFrame
) -> DataFrame:
    """Findings: one for each direction, the first message that was collected and not read."""
    reached = (
        delivered.select("world", "connection", other_end().alias("sender"), "stream_offset")
        .groupBy(*DIRECTION)
        .agg(F.max("stream_offset").alias("read_offset"))
    )
    last = (
        furthest(records, lives)
        .join(reached, DIRECTION, "left")
        .withColumn("read_offset", F.coalesce("read_offset", F.lit(0)))
    )
    messages = written.select(
        "world", "connection", F.col("group_id").alias("sender"), "position", "timestamp", "end_offset"
    )
    unread = (
        messages.join(last, DIRECTION, "inner")
        .filter(
            (F.col("timestamp") <= F.col("up_to_timestamp")) & (F.col("end_offset") > F.col("read_offset"))
        )
        .transform(_with_reader, lives)
        .join(excused, ["world", "connection"], "left_anti")
    )
    first = unread.groupBy(*DIRECTION).agg(
        F.min_by(F.struct("position", "timestamp", "end_offset", "read_offset", *LAST), "end_offset").alias(
            "one"
        )
    )
    whose = lives.select(*BEFORE, "epoch", "replica")
    named = first.select(*DIRECTION, "one.*").join(F.broadcast(whose), list(BEFORE), "inner")
    return named.transform(_as_findings)


def furthest(records: DataFrame, lives: DataFrame) -> DataFrame:
    """Of every direction the last that was collected, and by whom."""
    sender = F.when(F.col("which") == "sent", F.col("group_id")).otherwise(other_end())
    limits = lives.select(*BEFORE, "limit")
    return (
        records.filter("kind = 'Collected'")
        .select(
            *("world", "connection", sender.alias("sender"), *BEFORE, "performed"),
            *("up_to_timestamp", "wall_ns", *view_numbers()),
        )
        .join(F.broadcast(limits), list(BEFORE), "inner")
        .filter(F.coalesce("performed", F.lit(0)) < F.col("limit"))
        .groupBy(*DIRECTION)
        .agg(*(F.max_by(name, "up_to_timestamp").alias(name) for name in LAST))
    )


def _with_reader(messages: DataFrame, lives: DataFrame) -> DataFrame:
    """Only where the reader's journals are all here and go on behind the collecting."""
    readers = lives.groupBy("world", F.col("group_id").alias("reader")).agg(
        F.max("last_wall_ns").alias("reader_end_ns"), F.max("partial").alias("reader_partial")
    )
    client, server = F.col("connection.client_group_id"), F.col("connection.server_group_id")
    reading = messages.withColumn("reader", F.when(F.col("sender") == client, server).otherwise(client))
    joined = reading.join(F.broadcast(readers), ["world", "reader"], "inner")
    return joined.filter(~F.col("reader_partial") & (F.col("wall_ns") < F.col("reader_end_ns")))


def _as_findings(found: DataFrame) -> DataFrame:
    name = connection_text(F.col("connection"))
    values = {
        "condition": F.lit(CONDITION),
        "severity": F.lit(VIOLATION),
        "group_id": F.col("sender"),
        "view": view_name(),
        "connection": name,
        "expected": F.format_string("read up to offset %d", "end_offset"),
        "found": F.format_string("read up to offset %d", "read_offset"),
        "explanation": F.format_string(
            "Replica %s collected messages of group %d on %s up to timestamp %d; message %d of timestamp %d "
            "was never read.",
            *("replica", "sender", name, "up_to_timestamp", "position", "timestamp"),
        ),
    }
    return found.transform(as_findings, values)
