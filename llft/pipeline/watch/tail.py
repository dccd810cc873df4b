"""The live tail of journals as slim rows, for the watch: a data source of format "llft_watch".

Only what the watch looks at is decoded: a kind, who, which number, and 64 bits for the content.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from llft.identifiers import BirthId
from llft.pipeline.decode import content_of, parse, process_number
from llft.pipeline.frames import Frame, scan
from llft.pipeline.segments import open_data, read_header
from llft.pipeline.source import FilePartition, JournalSource, JournalStreamReader
from llft.pipeline.watch.watcher import GAP, KINDS, PRIMARY

if TYPE_CHECKING:
    import pyarrow as pa

SLIM_SCHEMA = StructType(
    [
        StructField("group_id", LongType()),
        StructField("code", IntegerType()),
        StructField("replica", LongType()),
        StructField("name", StringType()),
        StructField("number", LongType()),
        StructField("content", LongType()),
        StructField("wall_ns", LongType()),
    ]
)
WANTED = tuple(f'["{name}"'.encode() for name in (*KINDS, "RoleChanged", "Gap"))
Slim = tuple[int, int, int, str, int, int, int]


class WatchSource(JournalSource):
    @classmethod
    def name(cls) -> str:
        return "llft_watch"

    def schema(self) -> StructType:
        return SLIM_SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return WatchStreamReader(self._paths())


class WatchStreamReader(JournalStreamReader):
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        from pyspark.sql.pandas.types import to_arrow_schema

        assert isinstance(partition, FilePartition)
        rows = list(slim_rows(partition.path, partition.start, partition.end))
        if rows:
            schema = to_arrow_schema(SLIM_SCHEMA)
            columns = zip(zip(*rows, strict=True), schema, strict=True)
            arrays = [pa.array(values, one.type) for values, one in columns]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def slim_rows(path: str, start: int, end: int) -> Iterator[Slim]:
    data = open_data(path)
    header = read_header(data)
    if header is None:
        return
    names: dict[tuple[int, ...], tuple[int, str]] = {}
    performed = 0
    for piece in scan(data, max(start, header.size)):
        if piece.offset >= end:
            return
        if isinstance(piece, Frame) and piece.payload.startswith(WANTED):
            row = _slim(piece.payload, names, performed)
            if row is not None:
                performed = row[4] if row[1] == KINDS["Operated"] else performed
                yield row


def _slim(payload: bytes, names: dict[tuple[int, ...], tuple[int, str]], performed: int) -> Slim | None:
    """None for what does not parse or is not of interest: the audit tells about the first."""
    try:
        record: Any = parse(payload)
    except (ValueError, RecursionError):
        return None
    stamp, kind = record.stamp, type(record).__name__
    key = (stamp.group_id, *stamp.birth_id)
    if key not in names:
        names[key] = process_number(0, stamp.group_id, stamp.birth_id), str(BirthId(*stamp.birth_id))
    replica, name = names[key]
    if kind in KINDS:
        fields = KINDS[kind], replica, name, record.order_seq_num, content_of(record) or 0
    elif kind == "Gap":
        fields = GAP, replica, name, performed, record.lost_count
    elif record.role == "primary":
        fields = (
            PRIMARY,
            replica,
            name,
            stamp.view.primary_view_num,
            int(stamp.view.birth_id == stamp.birth_id),
        )
    else:
        return None
    return stamp.group_id, *fields, stamp.time_ns
