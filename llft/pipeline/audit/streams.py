"""What a group wrote on its connections, merged from the journals of its replicas.

A direction of a connection is named by the connection and the group that writes. The messages of the
surviving branch are told apart by the order number of their SEND entry, which all replicas share.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import BooleanType, IntegerType, LongType, StructField, StructType

from llft.pipeline.audit.columns import by_other
from llft.pipeline.audit.prints import Numbers, numbers, run_starts
from llft.pipeline.schema import FIELDS

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

DIRECTION = ("world", "group_id", "epoch", "connection")
"""The group is the one that writes."""
MESSAGE = ("order_seq_num", "position", "timestamp", "size", "digest")
MEASURED = ("position", "size", "digest")
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
        StructField("is_empty", BooleanType()),
    ]
)
"""One row for each message; `follows`: its position is one more than that of the message before; `is_empty`:
it has no bytes, only flags."""


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
        .mapInArrow(measure, STREAM_SCHEMA)
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

    def step(self, size: int, digest: int) -> int:
        """The digest of all bytes up to the end of this message."""
        if size:
            if self.difference:
                zeros = bytes(size)
                self.difference = crc32(zeros, self.difference) ^ crc32(zeros)
        else:
            self.difference ^= digest ^ self.digest
        self.digest = digest
        return digest ^ self.difference


def measure(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Sorted by direction and order number, so one meter at a time is enough."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    schema = to_arrow_schema(STREAM_SCHEMA)
    current: tuple[int, ...] = ()
    meter = Meter()
    for batch in batches:
        if not batch.num_rows:
            continue
        names = [*map(batch.column, ("world", "group_id", "epoch")), *batch.column("connection").flatten()]
        keys = [numbers(column) for column in names]
        if tuple(int(key[0]) for key in keys) != current:
            meter = Meter()
        columns = measured(meter, run_starts(*keys), *map(numbers, batch.select(list(MEASURED)).columns))
        current = tuple(int(key[-1]) for key in keys)
        arrays = [
            pa.array(columns[one.name], one.type) if one.name in columns else batch.column(one.name)
            for one in schema
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def measured(
    meter: Meter, starts: Numbers, position: Numbers, size: Numbers, digest: Numbers
) -> dict[str, Numbers]:
    """All runs at once; only those with flags to be taken out of the digests go step by step. The meter goes
    on from the batch before, and is left at the end of this one."""
    stops = np.append(starts[1:], len(size))
    ends = np.cumsum(size)
    offset = ends - np.repeat(ends[starts] - size[starts], stops - starts)
    offset[: stops[0]] += meter.offset
    before = np.roll(position, 1)
    before[starts] = 0
    before[0] = meter.position
    plain = digest.copy()
    flagged = np.logical_or.reduceat(size == 0, starts)
    flagged[0] |= meter.difference != 0
    last = len(starts) - 1
    for run in sorted({*np.flatnonzero(flagged).tolist(), last}):
        one = meter if run == 0 else Meter()
        if flagged[run]:
            this = slice(starts[run], stops[run])
            plain[this] = list(map(one.step, size[this].tolist(), digest[this].tolist()))
        if run == last:
            meter.difference, meter.digest = one.difference, int(digest[-1])
            meter.offset, meter.position = int(offset[-1]), int(position[-1])
    return {
        "end_offset": offset,
        "plain_digest": plain,
        "follows": position == before + 1,
        "is_empty": size == 0,
    }


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
