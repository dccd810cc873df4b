"""Fingerprints: what lives performed, sent and read, summed up by 4096 order numbers.

Of the rows of a life how many, and two sums of their hashes: an exclusive or (blind to a row that comes three
times) and an addition (not blind to it). They are small, and those of two runs of the audit can be added up.

Sealed rows of a kind and a life lie side by side, so a kernel sums up run by run and nothing is shuffled;
rows that lie otherwise (of a simulation, whose replicas take turns) are sorted first, batch by batch. A life
that a part of a file ends in has several prints of one bucket, which whoever compares adds up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from llft.pipeline.scan import Pass

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from llft.pipeline.scan import Rows

BUCKET_BITS = 12
COMPARED = ("Operated", "Sent", "ClockRead")
"""The kinds of records that all replicas have in common."""
OWNER = ("world", "group_id", "kind", "process", "life", "bucket")
SUMS = ("rows", "xor", "total", "last_number", "first_wall_ns", "last_wall_ns")
_TYPES = {"kind": StringType(), "life": IntegerType()}
PRINT_SCHEMA = StructType([StructField(name, _TYPES.get(name, LongType())) for name in (*OWNER, *SUMS)])
READ = (*OWNER[:-1], "order_seq_num", "content", "wall_ns")

SPARE_BITS = 20
"""Of a hash, left out of the addition: one that overflows is an error to Spark. 2^19 rows are room enough
for 4096."""
SCATTERED = 16
"""Runs of fewer rows than this are not what sealed records have: sorting costs less than a print for each."""
BLOCK_ROWS = 16_384
"""That many hashes at a time stay in the processor's cache."""
_MULTIPLIERS = tuple(map(np.uint64, (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)))
_SHIFTS = tuple(map(np.uint64, (30, 27, 31)))

Numbers = np.ndarray[Any, np.dtype[Any]]


def fingerprints(rows: Rows) -> DataFrame:
    """`PRINT_SCHEMA`: one row or more for each life, kind and 4096 order numbers."""
    return rows.through(PRINT_SCHEMA, PRINTING)


def merged(prints: DataFrame) -> DataFrame:
    """One row for each, added up."""
    return prints.groupBy(*OWNER).agg(
        F.sum("rows").alias("rows"),
        F.bit_xor("xor").alias("xor"),
        F.sum("total").alias("total"),
        F.max("last_number").alias("last_number"),
        F.min("first_wall_ns").alias("first_wall_ns"),
        F.max("last_wall_ns").alias("last_wall_ns"),
    )


def print_runs(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One print for each run of rows of one owner."""
    room = Room()
    for batch in batches:
        if batch.num_rows:
            yield _print_batch(batch, room)


class Room:
    """Memory that one batch after the other is summed up in: fresh memory for each would cost more than the
    sums."""

    def __init__(self) -> None:
        self.hashes = self.shifted = np.empty(0, np.uint64)
        self.differs = np.empty(0, bool)

    def grow(self, count: int) -> None:
        if len(self.hashes) < count:
            self.hashes, self.shifted = np.empty(count, np.uint64), np.empty(count, np.uint64)
            self.differs = np.empty(count, bool)


def _print_batch(batch: pa.RecordBatch, room: Room, *, is_sorted: bool = False) -> pa.RecordBatch:
    import pyarrow as pa

    number, wall_ns = numbers(batch.column("order_seq_num")), numbers(batch.column("wall_ns"))
    room.grow(batch.num_rows)
    hashes, shifted = room.hashes[: batch.num_rows], room.shifted[: batch.num_rows]
    bucket = np.right_shift(number, BUCKET_BITS, out=shifted.view(np.int64))
    owners = (numbers(batch.column("process")), numbers(batch.column("life")), codes(batch.column("kind")))
    starts = run_starts(*owners, bucket, room=room.differs)
    if len(starts) * SCATTERED > batch.num_rows and not is_sorted:
        return _print_batch(batch.take(pa.array(np.lexsort((bucket, *owners)))), room, is_sorted=True)
    buckets = bucket[starts]
    mix(number, numbers(batch.column("content")), hashes)
    xors = np.bitwise_xor.reduceat(hashes, starts)
    np.right_shift(hashes, np.uint64(SPARE_BITS), out=shifted)
    sums = {
        "bucket": buckets,
        "rows": np.diff(starts, append=batch.num_rows),
        "xor": xors.view(np.int64),
        "total": np.add.reduceat(shifted, starts).view(np.int64),
        "last_number": np.maximum.reduceat(number, starts),
        "first_wall_ns": np.minimum.reduceat(wall_ns, starts),
        "last_wall_ns": np.maximum.reduceat(wall_ns, starts),
    }
    at = pa.array(starts)
    columns = {name: plain(batch.column(name).take(at)) for name in OWNER[:-1]}
    columns |= {name: pa.array(values, pa.int64()) for name, values in sums.items()}
    return pa.RecordBatch.from_pydict(columns)


def run_starts(*keys: Numbers, room: Numbers | None = None) -> Numbers:
    """Where a row differs from the one before it in any key."""
    count = len(keys[0])
    differs = np.empty(count, dtype=bool) if room is None else room[:count]
    differs[:1] = True
    np.not_equal(keys[0][1:], keys[0][:-1], out=differs[1:])
    for begin in range(1, count, BLOCK_ROWS):
        end = min(begin + BLOCK_ROWS, count)
        for key in keys[1:]:
            differs[begin:end] |= key[begin:end] != key[begin - 1 : end - 1]
    return np.flatnonzero(differs)


def mix(numbers: Numbers, contents: Numbers, hashes: Numbers) -> None:
    """64 bits for each pair, by the mixer of splitmix64. A content is a digest already; its number moves it
    along, so that two contents in each other's places give other sums."""
    scratch = np.empty(BLOCK_ROWS, np.uint64)
    for begin in range(0, len(hashes), BLOCK_ROWS):
        block = hashes[begin : begin + BLOCK_ROWS]
        shifted = scratch[: len(block)]
        np.multiply(numbers[begin : begin + BLOCK_ROWS].view(np.uint64), _MULTIPLIERS[0], out=block)
        block += contents[begin : begin + BLOCK_ROWS].view(np.uint64)
        for shift, multiplier in zip(_SHIFTS, (*_MULTIPLIERS[1:], None), strict=True):
            np.right_shift(block, shift, out=shifted)
            block ^= shifted
            if multiplier is not None:
                block *= multiplier


def numbers(column: pa.Array) -> Numbers:
    """0 for null: of what is compared nothing is."""
    from pyarrow import compute

    known = compute.fill_null(column, 0) if column.null_count else column
    values: Numbers = known.to_numpy(zero_copy_only=False)
    return values


def codes(column: pa.Array) -> Numbers:
    """A number for each text, good within this batch."""
    import pyarrow as pa

    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    values: Numbers = encoded.indices.to_numpy(zero_copy_only=False)
    return values


def plain(column: pa.Array) -> pa.Array:
    """Texts that were read as a dictionary, as texts."""
    import pyarrow as pa

    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


PRINTING = Pass(print_runs, READ, {"kind": COMPARED})
