"""How sealed records lie: by day and bucket of group, sorted, in files that are worth opening; and their
marks.

A mark is the fingerprint of one life and 4096 order numbers, with a digest that is chained to the mark
before. So the central check of an audit needs no row of a sealed directory to which nothing was added, and
`altered` tells whether the rows are still those that were sealed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import LongType, StructField, StructType

from llft.pipeline.audit.prints import OWNER, PRINT_SCHEMA, fingerprints, merged
from llft.pipeline.scan import Rows

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

ROWS_PER_BUCKET = 500_000
MAX_BUCKETS = 16
ROWS_PER_FILE = 8_000_000
ROW_GROUP_BYTES = 16 << 20
"""Small, so that a filter on what rows are sorted by leaves most of a file unread."""

RUNNING = (
    *("place", "time_ns", "wall_ns", "order_seq_num", "performed", "previous", "content"),
    *("position", "timestamp", "digest", "stream_offset", "value_ns", "up_to_timestamp"),
)
"""Columns that hardly ever repeat a number: a dictionary would be as long as they are. As differences they
are read in half the time."""
NS_PER_S = 1_000_000_000
SORTED_BY = ("rare", "kind", "group_id", "process", "place")
MARK_COLUMNS = ("rows", "xor", "total")
ENCODING = {
    "parquet.block.size": str(ROW_GROUP_BYTES),
    "parquet.writer.version": "v2",
    **{f"parquet.enable.dictionary#{name}": "false" for name in RUNNING},
}


def write_sealed(records: DataFrame, row_count: int, path: str, marks_path: str) -> None:
    buckets = max(1, min(MAX_BUCKETS, row_count // ROWS_PER_BUCKET))
    day = F.to_date(F.timestamp_seconds(F.col("wall_ns") / NS_PER_S))
    laid_out = records.withColumn("day", day).withColumn("bucket", F.pmod("group_id", F.lit(buckets)))
    (
        laid_out.repartition(buckets, "day", "bucket")
        .sortWithinPartitions("day", "bucket", *SORTED_BY)
        .write.mode("overwrite")
        .options(**ENCODING)
        .option("maxRecordsPerFile", ROWS_PER_FILE)
        .partitionBy("day", "bucket")
        .parquet(path)
    )
    sealed = (
        records.sparkSession.read.schema(records.schema).option("recursiveFileLookup", "true").parquet(path)
    )
    marks(Rows(sealed, parquet_files(path))).coalesce(1).write.mode("overwrite").parquet(marks_path)


def parquet_files(path: str) -> list[str]:
    return sorted(str(file) for file in Path(path).rglob("*.parquet"))


def marks(rows: Rows) -> DataFrame:
    """One for each life, kind and 4096 order numbers, in order, with the chain."""
    schema = StructType([*PRINT_SCHEMA, StructField("chain", LongType())])
    ordered = merged(fingerprints(rows)).repartition(1).sortWithinPartitions(*OWNER)
    return ordered.mapInArrow(_chain, schema)


def _chain(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    owner: tuple[Any, ...] = ()
    chain = 0
    for batch in batches:
        chains = []
        for row in batch.to_pylist():
            mine = tuple(row[name] for name in OWNER[:-1])
            if mine != owner:
                owner, chain = mine, 0
            chain = link(chain, *(row[name] for name in ("bucket", *MARK_COLUMNS)))
            chains.append(chain)
        yield pa.RecordBatch.from_arrays(
            [*batch.columns, pa.array(chains, pa.int64())], names=[*batch.schema.names, "chain"]
        )


def link(chain: int, *numbers: int) -> int:
    """The chain with one mark more."""
    data = struct.pack(f"<{1 + len(numbers)}q", chain, *numbers)
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little", signed=True)


def altered(spark: SparkSession, records: DataFrame, marks_path: str) -> DataFrame:
    """The marks that the rows of a sealed directory no longer give, or give and did not."""
    sealed = spark.read.parquet(marks_path)
    now = marks(Rows(records))
    return now.exceptAll(sealed).unionByName(sealed.exceptAll(now))
