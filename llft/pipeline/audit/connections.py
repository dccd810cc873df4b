"""Which connections need to be looked at row by row: those of which not every replica has all, and the same.

What each life read or wrote of each connection is summed up as in `prints`: how many pieces, and two sums of
the hashes of their sizes and digests. A digest is that of all bytes up to there, and each piece begins where
the one before it ended, so equal sums are equal streams. Where every reader has, end by end, all that every
writer has, there is nothing to be found. A reader is free to stop early or to cut messages otherwise; then,
and where a life joined in between or a branch was pruned, rows have to be compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import BooleanType, IntegerType, LongType, StringType, StructField, StructType

from llft.pipeline.audit.lives import NO_LIMIT
from llft.pipeline.audit.prints import Numbers, codes, mix, numbers, plain, run_starts
from llft.pipeline.scan import Pass

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from llft.pipeline.scan import Rows

CONNECTION = ("world", "connection")
ENDS = ("client_group_id", "server_group_id", "conn_seq_num")
OWNER = ("world", "group_id", "process", "life", "kind")
SUMS = ("rows", "xor", "total")
READ = (*OWNER, "connection", "size", "digest", "previous", "position", "stream_offset", "order_seq_num")
SPARE_BITS = 32
"""Of a hash, left out of the addition: a connection may have any number of messages."""
_TYPES = {"life": IntegerType(), "kind": StringType(), "whole": BooleanType()}
SHARE_SCHEMA = StructType(
    [StructField(name, _TYPES.get(name, LongType())) for name in (*OWNER, *ENDS, *SUMS, "numbered", "whole")]
)
"""What a life has of a connection. `numbered`: the sum of the order numbers of messages, which only writers
know; `whole`: every piece follows the one before."""


def unlike_connections(rows: Rows, lives: DataFrame) -> DataFrame:
    """World and connection of those that are not the same to all."""
    keys = (*OWNER, *ENDS)
    shares = (
        rows.through(SHARE_SCHEMA, SUMMING)
        .groupBy(*keys)
        .agg(
            *(F.sum("rows").alias("rows"), F.bit_xor("xor").alias("xor"), F.sum("total").alias("total")),
            *(F.bit_xor("numbered").alias("numbered"), F.min("whole").alias("whole")),
        )
        .join(F.broadcast(_settled(lives)), ["process", "life"], "inner")
    )
    is_sent = F.col("kind") == "Sent"
    is_client = F.col("group_id") == F.col("client_group_id")
    other_end = F.when(is_client, F.col("server_group_id")).otherwise(F.col("client_group_id"))
    sender = F.when(is_sent, F.col("group_id")).otherwise(other_end)
    numbered = F.when(is_sent, F.col("numbered"))
    alike = [F.min(name) == F.max(name) for name in SUMS]
    alike += [F.min(numbered) == F.max(numbered), F.min("kind") != F.max("kind")]
    directions = shares.groupBy("world", *ENDS, sender.alias("sender")).agg(
        F.coalesce(F.min(F.col("whole") & F.col("settled")), F.lit(False)).alias("is_whole"),
        *(F.coalesce(one, F.lit(False)).alias(f"alike_{at}") for at, one in enumerate(alike)),
    )
    fine = F.col("is_whole")
    for at in range(len(alike)):
        fine &= F.col(f"alike_{at}")
    return directions.filter(~fine).select("world", F.struct(*ENDS).alias("connection")).distinct()


def _settled(lives: DataFrame) -> DataFrame:
    """Whether all that a life did counts, and its group has one history: else times and limits matter."""
    groups = lives.groupBy("world", "group_id").agg((F.max("epoch") == 0).alias("is_one"))
    whose = lives.select("world", "group_id", "process", "life", (F.col("limit") == NO_LIMIT).alias("all"))
    joined = whose.join(F.broadcast(groups), ["world", "group_id"], "inner")
    return joined.select("process", "life", (F.col("is_one") & F.col("all")).alias("settled"))


def sum_up(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One row for each life and connection of a batch: connections of a life take turns."""
    for batch in batches:
        if batch.num_rows:
            yield _sum_batch(batch)


def _sum_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    import pyarrow as pa

    ends = dict(zip(ENDS, batch.column("connection").flatten(), strict=True))
    keys = [numbers(batch.column("process")), numbers(batch.column("life")), codes(batch.column("kind"))]
    keys += [numbers(one) for one in ends.values()]
    order = np.lexsort(keys)
    starts = run_starts(*(key[order] for key in keys))
    is_sent, size, whole = _pieces(batch)
    counts = ~is_sent | (size > 0)  # an empty message has flags only, which nobody reads
    hashes = _hashed(size, numbers(batch.column("digest"))) * counts
    orders = _hashed(numbers(batch.column("position")), numbers(batch.column("order_seq_num"))) * is_sent
    sums = {
        "rows": np.add.reduceat(counts[order].astype(np.int64), starts),
        "xor": np.bitwise_xor.reduceat(hashes[order], starts).view(np.int64),
        "total": np.add.reduceat(hashes[order] >> np.uint64(SPARE_BITS), starts).view(np.int64),
        "numbered": np.bitwise_xor.reduceat(orders[order], starts).view(np.int64),
        "whole": np.logical_and.reduceat(whole[order], starts),
    }
    at = pa.array(order[starts])
    columns = {name: plain(batch.column(name).take(at)) for name in OWNER}
    columns |= {name: one.take(at) for name, one in ends.items()}
    return pa.RecordBatch.from_pydict(columns | {name: pa.array(one) for name, one in sums.items()})


def _pieces(batch: pa.RecordBatch) -> tuple[Numbers, Numbers, Numbers]:
    """Of each row: whether it was written, how long it is, and whether it follows the one before."""
    from pyarrow import compute

    is_sent: Numbers = compute.equal(plain(batch.column("kind")), "Sent").to_numpy(zero_copy_only=False)
    size, previous = numbers(batch.column("size")), numbers(batch.column("previous"))
    begin = np.where(
        is_sent, numbers(batch.column("position")) - 1, numbers(batch.column("stream_offset")) - size
    )
    known: Numbers = batch.column("previous").is_valid().to_numpy(zero_copy_only=False)
    return is_sent, size, known & (begin == previous)


def _hashed(one: Numbers, other: Numbers) -> Numbers:
    hashes = np.empty(len(one), np.uint64)
    mix(one, other, hashes)
    return hashes


SUMMING = Pass(sum_up, READ, {"kind": ("Delivered", "Sent")})
