"""The live tail of journals as slim rows, for the watch: a data source of format "llft_watch".

Only what the watch looks at is decoded: a kind, who, which number, and 64 bits for the content.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from llft.identifiers import BirthId
from llft.journal.record import MembershipChanged
from llft.pipeline.decode import (
    content_of_clock,
    content_of_entry,
    content_of_sent,
    parse,
    process_number,
)
from llft.pipeline.frames import Frame, scan
from llft.pipeline.segments import open_data, read_header
from llft.pipeline.source import JournalSource, JournalStreamReader, Piece, PiecesPartition
from llft.pipeline.watch.watcher import (
    CLOCK_READ,
    GAP,
    KINDS,
    MEMBER,
    OPERATED,
    PRIMARY,
    SENT,
    VIEW,
    view_key,
)

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

RARE = ("RoleChanged", "ViewInstalled", "MembershipChanged", "Gap")
WANTED = tuple(f'["{name}"'.encode() for name in (*KINDS, *RARE))
BATCH_RECORDS = 4096
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
        schema = to_arrow_schema(SLIM_SCHEMA)
        for rows in (rows for piece in partition.pieces for rows in slim_batches(piece)):
            columns = zip(zip(*rows, strict=True), schema, strict=True)
            arrays = [pa.array(values, one.type) for values, one in columns]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def slim_batches(piece: Piece) -> Iterator[list[Slim]]:
    """The rows of a piece, none of the batches empty."""
    slimmer = Slimmer()
    wanted = _wanted(piece)
    while payloads := list(islice(wanted, BATCH_RECORDS)):
        values = zip(values_of(payloads), payloads, strict=True)
        rows = [row for value, payload in values for row in slimmer.rows_of(value, payload)]
        if rows:
            yield rows


def _wanted(piece: Piece) -> Iterator[bytes]:
    path, start, end = piece
    data = open_data(path)
    header = read_header(data)
    if header is None:
        return
    for found in scan(data, max(start, header.size)):
        if found.offset >= end:
            return
        if isinstance(found, Frame) and found.payload.startswith(WANTED):
            yield found.payload


def values_of(payloads: Sequence[bytes]) -> list[Any]:
    """What they are in JSON; None for one that is none. All at once: one by one takes three times as long."""
    try:
        values: list[Any] = json.loads(b"[" + b",".join(payloads) + b"]")
    except NO_RECORD:
        values = []
    return values if len(values) == len(payloads) else [_value_of(payload) for payload in payloads]


def _value_of(payload: bytes) -> Any:
    try:
        return json.loads(payload)
    except NO_RECORD:
        return None


class Slimmer:
    """Along one piece of a file."""

    def __init__(self) -> None:
        self.known: dict[tuple[int, ...], int] = {}
        """By group and birth id: the number of the process."""
        self.performed = 0

    def rows_of(self, value: Any, payload: bytes) -> Sequence[Slim]:
        """None of what does not parse or is not of interest: the audit tells about the first. Most records
        are numbered deeds: taken from the JSON as they are, and not made into records first."""
        try:
            deed = DEEDS.get(value[0])
            return self._other(payload) if deed is None else (self._deed(*deed(value)),)
        except NO_RECORD:
            return ()

    def _deed(self, code: int, stamp: Any, number: int, content: int) -> Slim:
        _, group_id, birth_id, view = stamp
        if type(number) is not int or number >> 63:
            raise ValueError("not an order number")
        if code == OPERATED:
            self.performed = number
        who, name = self._who(group_id, birth_id)
        return (
            group_id,
            code,
            who,
            number,
            content,
            view_key(view[0], view[1]),
            int(view[2] == birth_id),
            name,
        )

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


Deed = tuple[int, Any, int, int]
"""Code, stamp, number and content."""


def _operated(value: list[Any]) -> Deed:
    _, stamp, number, entry = value
    if type(entry) is not str:
        raise ValueError("not an operation")
    return OPERATED, stamp, number, content_of_entry(entry)


def _sent(value: list[Any]) -> Deed:
    _, stamp, connection, _, position, timestamp, size, digest, number = value
    return SENT, stamp, number, content_of_sent(connection, position, timestamp, size, digest, number)


def _clock_read(value: list[Any]) -> Deed:
    _, stamp, clock_id, value_ns, number = value
    return CLOCK_READ, stamp, number, content_of_clock(clock_id, value_ns)


DEEDS = {"Operated": _operated, "Sent": _sent, "ClockRead": _clock_read}
