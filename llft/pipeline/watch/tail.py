"""The live tail of journals as slim rows, for the watch: a data source of format "llft_watch".

Only what the watch looks at is decoded: a kind, who, which number, and 64 bits for the content.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from llft.identifiers import BirthId
from llft.journal.record import MembershipChanged
from llft.pipeline.decode import content_of, content_of_entry, parse, process_number
from llft.pipeline.frames import Frame, scan
from llft.pipeline.segments import open_data, read_header
from llft.pipeline.source import JournalSource, JournalStreamReader, Piece, PiecesPartition
from llft.pipeline.watch.watcher import GAP, KINDS, MEMBER, OPERATED, PRIMARY, VIEW, view_key

if TYPE_CHECKING:
    import pyarrow as pa

SLIM_SCHEMA = StructType(
    [
        StructField("group_id", LongType()),
        StructField("code", IntegerType()),
        StructField("replica", LongType()),
        StructField("number", LongType()),
        StructField("content", LongType()),
        StructField("view", LongType()),
        StructField("primary", IntegerType()),
        StructField("name", StringType()),
    ]
)
"""`replica` is the number of a process; `name` is there where a piece of a file first has that number."""

OPERATED_START = b'["Operated"'
RARE = ("RoleChanged", "ViewInstalled", "MembershipChanged", "Gap")
WANTED = tuple(f'["{name}"'.encode() for name in (*KINDS, *RARE))
NO_RECORD = (ValueError, RecursionError, TypeError, struct.error)
Slim = tuple[int, int, int, int, int, int, int, str | None]


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

        assert isinstance(partition, PiecesPartition)
        rows = [row for piece in partition.pieces for row in slim_rows(piece)]
        if rows:
            schema = to_arrow_schema(SLIM_SCHEMA)
            columns = zip(zip(*rows, strict=True), schema, strict=True)
            arrays = [pa.array(values, one.type) for values, one in columns]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def slim_rows(piece: Piece) -> Iterator[Slim]:
    path, start, end = piece
    data = open_data(path)
    header = read_header(data)
    if header is None:
        return
    slimmer = Slimmer()
    for found in scan(data, max(start, header.size)):
        if found.offset >= end:
            return
        if isinstance(found, Frame) and found.payload.startswith(WANTED):
            yield from slimmer.rows_of(found.payload)


class Slimmer:
    """Along one piece of a file."""

    def __init__(self) -> None:
        self.known: dict[tuple[int, ...], int] = {}
        """By group and birth id: the number of the process."""
        self.performed = 0

    def rows_of(self, payload: bytes) -> Sequence[Slim]:
        """None of what does not parse or is not of interest: the audit tells about the first."""
        try:
            return self._operated(payload) if payload.startswith(OPERATED_START) else self._other(payload)
        except NO_RECORD:
            return ()

    def _operated(self, payload: bytes) -> Sequence[Slim]:
        """Most records are operations: taken from the JSON as they are, and not made into records first."""
        _, (_, group_id, birth_id, view), number, entry = json.loads(payload)
        if type(entry) is not str or type(number) is not int or number >> 63:
            raise ValueError("not an operation")
        self.performed = number
        who, name = self._who(group_id, birth_id)
        content, key, primary = content_of_entry(entry), view_key(view[0], view[1]), int(view[2] == birth_id)
        return ((group_id, OPERATED, who, number, content, key, primary, name),)

    def _other(self, payload: bytes) -> Sequence[Slim]:
        record: Any = parse(payload)
        stamp = record.stamp
        group_id, view = stamp.group_id, view_key(*stamp.view[:2])
        primary = int(stamp.view.birth_id == stamp.birth_id)
        if type(record) is MembershipChanged:
            members = [self._who(group_id, member.birth_id) for member in record.membership]
            return [(group_id, MEMBER, who, record.change_num, 0, view, 0, name) for who, name in members]
        fields = self._fields(record)
        if fields is None:
            return ()
        who, name = self._who(group_id, stamp.birth_id)
        code, number, content = fields
        return ((group_id, code, who, number, content, view, primary, name),)

    def _fields(self, record: Any) -> tuple[int, int, int] | None:
        """Code, number and content."""
        kind, stamp = type(record).__name__, record.stamp
        if kind in KINDS:
            return KINDS[kind], record.order_seq_num, content_of(record) or 0
        if kind == "Gap":
            return GAP, self.performed, record.lost_count
        if kind == "ViewInstalled":
            return VIEW, record.order_seq_num, 0
        if record.role == "primary":
            return PRIMARY, stamp.view.primary_view_num, int(stamp.view.birth_id == stamp.birth_id)
        return None

    def _who(self, group_id: int, birth_id: Sequence[int]) -> tuple[int, str | None]:
        """The number of a process, and its name when it is met for the first time."""
        key = (group_id, *birth_id)
        number = self.known.get(key)
        if number is not None:
            return number, None
        number = self.known[key] = process_number(0, group_id, birth_id)
        return number, str(BirthId(*birth_id))
