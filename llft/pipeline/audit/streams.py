"""What a group wrote on its connections, merged from the journals of its replicas.

A direction of a connection is named by the connection and the group that writes. The messages of the
surviving branch are told apart by the order number of their SEND entry, which all replicas share.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from zlib import crc32

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import BooleanType, IntegerType, LongType, StructField, StructType

from llft.pipeline.audit.columns import by_other
from llft.pipeline.schema import FIELDS

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

DIRECTION = ("world", "group_id", "epoch", "connection")
"""The group is the one that writes."""
MESSAGE = ("order_seq_num", "position", "timestamp", "size", "digest")
NO_PRIMARY = 1 << 62
"""More than any time of day."""

STREAM_SCHEMA = StructType(
    [
        StructField("world", LongType()),
        StructField("group_id", LongType()),
        StructField("epoch", IntegerType()),
        FIELDS["connection"],
        StructField("order_seq_num", LongType()),
        StructField("position", LongType()),
        StructField("timestamp", LongType()),
        StructField("end_offset", LongType()),
        StructField("plain_digest", LongType()),
        StructField("follows", BooleanType()),
    ]
)
"""One row for each message; `follows`: its position is one more than that of the message before."""


def surviving_sent(records: DataFrame, lives: DataFrame) -> DataFrame:
    """Replicas that differ are for `agreement` to find; here the primary's word counts, else the earliest:
    the one of lowest `rank`."""
    rank = F.col("wall_ns") + F.when(by_other(), NO_PRIMARY).otherwise(0)
    whose = lives.select("process", "life", "epoch", "limit")
    return (
        records.filter(F.col("kind") == "Sent")
        .select("world", "group_id", "process", "life", "connection", *MESSAGE, rank.alias("rank"))
        .join(F.broadcast(whose), ["process", "life"], "inner")
        .filter(F.col("order_seq_num") < F.col("limit"))
    )


def streams(records: DataFrame, lives: DataFrame) -> DataFrame:
    """The messages of every direction, with offsets and digests of the bytes (`STREAM_SCHEMA`)."""
    # Number by number: a struct among the aggregates would make Spark sort all messages.
    once = (
        surviving_sent(records, lives)
        .groupBy(*DIRECTION, "order_seq_num")
        .agg(*(F.min_by(name, "rank").alias(name) for name in MESSAGE[1:]))
    )
    return (
        once.repartition(*DIRECTION)
        .sortWithinPartitions(*DIRECTION, "order_seq_num")
        .mapInArrow(_measure, STREAM_SCHEMA)
    )


@dataclass(slots=True)
class Meter:
    """Runs along one direction. D-09's digest also takes in the flags of each message; the reader's does
    not. CRC-32 is linear, so the difference can be carried along: an empty message shows its flags, and
    zeros of the message's size show what becomes of the difference."""

    offset: int = 0
    difference: int = 0
    digest: int = 0
    position: int = 0

    def step(self, position: int, size: int, digest: int) -> tuple[int, int, bool]:
        """The end of the message, the digest of all bytes up to there, and whether its position follows."""
        if size:
            if self.difference:
                zeros = bytes(size)
                self.difference = crc32(zeros, self.difference) ^ crc32(zeros)
        else:
            self.difference ^= digest ^ self.digest
        follows = position == self.position + 1
        self.digest, self.position = digest, position
        self.offset += size
        return self.offset, digest ^ self.difference, follows


def _measure(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Sorted by direction and order number, so one meter at a time is enough."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    schema = to_arrow_schema(STREAM_SCHEMA)
    current: tuple[Any, ...] = ()
    meter = Meter()
    for batch in batches:
        # The connection's three numbers, rather than a dictionary for each row.
        keys = [*map(batch.column, ("world", "group_id", "epoch")), *batch.column("connection").flatten()]
        values = [*keys, *map(batch.column, ("position", "size", "digest"))]
        rows = zip(*(column.to_pylist() for column in values), strict=True)
        measured = []
        for *key, position, size, digest in rows:
            direction = tuple(key)
            if direction != current:
                current, meter = direction, Meter()
            measured.append(meter.step(position, size, digest))
        ends, digests, follows = zip(*measured, strict=True) if measured else ((), (), ())
        columns = {"end_offset": ends, "plain_digest": digests, "follows": follows}
        arrays = [
            pa.array(columns[one.name], one.type) if one.name in columns else batch.column(one.name)
            for one in schema
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def begin_offsets(pairs: DataFrame, sent: DataFrame) -> DataFrame:
    """Where the messages that differ begin: behind all of lower position. Only of directions that differ."""
    keys = ("world", "group_id", "epoch", "key_connection")
    wanted = pairs.filter("kind = 'Sent'").select(*keys, F.col("key_number").alias("upto"))
    known = sent.withColumnRenamed("connection", "key_connection").select(*keys, "position", "size")
    before = (
        known.join(F.broadcast(wanted), list(keys), "inner")
        .filter(F.col("position") < F.col("upto"))
        .groupBy(*keys, "position")
        .agg(F.max("size").alias("size"))
        .groupBy(*keys)
        .agg(F.sum("size").alias("sum_before"))
    )
    placed = pairs.join(F.broadcast(before), list(keys), "left")
    zero_or_more = F.when(F.col("kind") == "Sent", F.coalesce("sum_before", F.lit(0)))
    return placed.withColumn("begin_offset", zero_or_more)
