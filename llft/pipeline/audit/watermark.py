"""Watermark safety: nothing is collected before all had it (paper, Buffer Management).

A group's watermark passes a message only when its primary has ordered it and every member has it. So
whatever was collected, of messages sent or delivered, the reading group's surviving branch has read; a
message that was collected and never read is one that nobody could have sent again. Connections that were
reset are excused: there a branch that had read it was pruned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from llft.pipeline.audit.columns import as_findings, connection_text, view_text
from llft.pipeline.audit.delivery import other_end
from llft.pipeline.audit.findings import VIOLATION

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CONDITION = "watermark"
DIRECTION = ["world", "connection", "sender"]


def collected_too_early(
    records: DataFrame, delivered: DataFrame, written: DataFrame, lives: DataFrame, excused: DataFrame
) -> DataFrame:
    """Findings: one for each direction, the first message that was collected and not read."""
    whose = lives.select("process", "life", "epoch", "limit", "replica")
    furthest = (
        records.filter("kind = 'Collected'")
        .join(F.broadcast(whose), ["process", "life"], "inner")
        .filter(F.coalesce("performed", F.lit(0)) < F.col("limit"))
        .withColumn("sender", F.when(F.col("which") == "sent", F.col("group_id")).otherwise(other_end()))
        .groupBy(*DIRECTION)
        .agg(
            F.max_by(
                F.struct("up_to_timestamp", "replica", "view", "wall_ns", "which", "epoch"), "up_to_timestamp"
            ).alias("last")
        )
    )
    reached = (
        delivered.withColumn("sender", other_end())
        .groupBy(*DIRECTION)
        .agg(F.max("stream_offset").alias("read_offset"))
    )
    messages = written.withColumnRenamed("group_id", "sender").drop("epoch", "follows")
    unread = (
        messages.join(furthest, DIRECTION, "inner")
        .filter(F.col("timestamp") <= F.col("last.up_to_timestamp"))
        .join(reached, DIRECTION, "left")
        .filter(F.col("end_offset") > F.coalesce("read_offset", F.lit(0)))
        .transform(_with_reader, lives)
        .join(excused, ["world", "connection"], "left_anti")
    )
    first = unread.groupBy(*DIRECTION).agg(
        F.min_by(F.struct("position", "timestamp", "end_offset", "read_offset", "last"), "end_offset").alias(
            "one"
        )
    )
    return first.select(*DIRECTION, "one.*").transform(_as_findings)


def _with_reader(messages: DataFrame, lives: DataFrame) -> DataFrame:
    """Only where the reader's journals are all here and go on behind the collecting."""
    readers = lives.groupBy("world", F.col("group_id").alias("reader")).agg(
        F.max("last_wall_ns").alias("reader_end_ns"), F.max("partial").alias("reader_partial")
    )
    client, server = F.col("connection.client_group_id"), F.col("connection.server_group_id")
    reading = messages.withColumn("reader", F.when(F.col("sender") == client, server).otherwise(client))
    joined = reading.join(F.broadcast(readers), ["world", "reader"], "inner")
    return joined.filter(~F.col("reader_partial") & (F.col("last.wall_ns") < F.col("reader_end_ns")))


def _as_findings(found: DataFrame) -> DataFrame:
    name = connection_text(F.col("connection"))
    values = {
        "condition": F.lit(CONDITION),
        "severity": F.lit(VIOLATION),
        "group_id": F.col("sender"),
        "epoch": F.col("last.epoch"),
        "view": view_text(F.col("last.view")),
        "replica": F.col("last.replica"),
        "connection": name,
        "end_offset": F.col("end_offset"),
        "expected": F.format_string("read up to offset %d", "end_offset"),
        "found": F.format_string("read up to offset %d", F.coalesce("read_offset", F.lit(0))),
        "wall_ns": F.col("last.wall_ns"),
        "explanation": F.format_string(
            "Replica %s collected messages of group %d on %s up to timestamp %d; message %d of timestamp %d "
            "was never read.",
            *("last.replica", "sender", name, "last.up_to_timestamp", "position", "timestamp"),
        ),
    }
    return found.transform(as_findings, values)
