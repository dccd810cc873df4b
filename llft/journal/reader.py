"""Reads a journal back as the typed records that were written (D-22).

Laws:

1. Every record that is yielded is one that was written: length, checksum, type name and the
   type of every field are checked. What fails is a PeerError, with its offset. Of a frame that has many
   records all are sound, or none is yielded.
2. A torn tail is no error: reading stops there, and `torn_bytes` says how many bytes were left. A bad
   frame is the torn tail if nothing was written after it: no sound frame lies in it, and only zeros
   follow, if anything (a file system may extend a file before it has the data). Else it is corruption.
3. A journal can be tailed: iterating again continues after the last whole frame.
4. No memory is taken on the word of a length: it is bounded first.

The fields are rebuilt from the type hints of `RECORD_TYPES`, so that a new record type needs no code here.
"""

from __future__ import annotations

import json
import os
import types
import typing
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, BinaryIO, Final

from llft.errors import PeerError
from llft.journal.frame import (
    FRAME,
    HEADER,
    HEADER_V1,
    MAGIC,
    MAX_PAYLOAD_BYTES,
    PAYLOAD_START,
    file_header,
    segment_of,
)
from llft.journal.packed import START
from llft.journal.record import RECORD_TYPES, SCHEMA_VERSION, Record
from llft.journal.unpack_rows import unpack

Build = Callable[[Any], Any]

_CHUNK_BYTES: Final = 1 << 16


def read_journal(path: str | os.PathLike[str]) -> Iterator[Record]:
    """All records of a journal, up to a torn tail if it has one (a JournalReader tells)."""
    with JournalReader(path) as reader:
        yield from reader


class JournalReader:
    """A journal open for reading. `close` it, or use it as a context manager."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self.torn_bytes = 0
        """Bytes after the last whole frame, as of when iteration last stopped."""
        self.offset = 0
        """Where the next frame begins; 0 until the file's header was read."""
        self.segment = 0
        """Which part of the journal of its process the file is."""
        self._ready: deque[Record] = deque()
        """Of the last frame, that nobody has asked for yet."""
        self._file: BinaryIO = open(self.path, "rb")  # noqa: SIM115 - closed by `close`

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> JournalReader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[Record]:
        if self.offset == 0 and not self._read_header():
            return
        while True:
            while self._ready:
                yield self._ready.popleft()
            payload = self._next_payload()
            if payload is None:
                return
            self._ready.extend(self._decode(payload))
            self.offset += FRAME.size + len(payload)

    def _read_header(self) -> bool:
        self._file.seek(0)
        header = self._file.read(HEADER.size)
        if len(header) < HEADER_V1.size and file_header().startswith(header):
            self.torn_bytes = len(header)
            return False
        if not header.startswith(MAGIC) or len(header) < HEADER_V1.size:
            raise PeerError("not-a-journal", "give a file that LLFT wrote", path=self.path)
        version = HEADER_V1.unpack_from(header)[1]
        if version == 1:
            self.offset = HEADER_V1.size
            return True
        if version > SCHEMA_VERSION:
            remedy = "read it with the release of LLFT that wrote it"
            parameters = {"path": self.path, "found": version, "known": SCHEMA_VERSION}
            raise PeerError("journal-version-unknown", remedy, **parameters)
        if len(header) < HEADER.size:
            self.torn_bytes = len(header)
            return False
        segment = segment_of(header)
        if segment is None:
            raise PeerError("journal-header-damaged", "its records may be right; its place is not known")
        self.offset, self.segment = HEADER.size, segment
        return True

    def _next_payload(self) -> bytes | None:
        """The payload of the frame at `offset`; None at the end, torn or not."""
        self._file.seek(self.offset)
        head = self._file.read(FRAME.size)
        if len(head) < FRAME.size:
            self.torn_bytes = len(head)
            return None
        length, checksum = FRAME.unpack(head)
        believable = 0 < length <= MAX_PAYLOAD_BYTES
        payload = self._file.read(length) if believable else b""
        if believable and len(payload) == length and zlib.crc32(payload) == checksum:
            return payload
        self._stop_at_damage(head + payload, believable=believable)
        return None

    def _stop_at_damage(self, frame: bytes, *, believable: bool) -> None:
        """The frame at `offset` is bad: return if it is the torn tail, raise if it is not."""
        rest_bytes, rest_is_zeros = 0, True
        self._file.seek(self.offset + len(frame))
        while rest_is_zeros and (chunk := self._file.read(_CHUNK_BYTES)):
            rest_bytes += len(chunk)
            rest_is_zeros = not any(chunk)
        torn = rest_is_zeros and (believable or not any(frame)) and not _holds_frame(frame)
        if not torn:
            remedy = "restore the file from a copy; the records before this offset are sound"
            raise PeerError("journal-corrupt", remedy, path=self.path, offset=self.offset)
        self.torn_bytes = len(frame) + rest_bytes

    def _decode(self, payload: bytes) -> list[Record]:
        try:
            return unpack(payload) if payload.startswith(START) else [parse_record(payload)]
        except (ValueError, RecursionError) as error:
            remedy = "read it with the release of LLFT that wrote it"
            raise PeerError(
                "journal-record-malformed", remedy, path=self.path, offset=self.offset, why=str(error)
            ) from None


def _holds_frame(damaged: bytes) -> bool:
    """Whether a sound frame lies inside: then a length was corrupted, and this is not the tail."""
    for found in PAYLOAD_START.finditer(damaged, 2 * FRAME.size):
        start = found.start()
        length, checksum = FRAME.unpack_from(damaged, start - FRAME.size)
        if length <= len(damaged) - start and zlib.crc32(damaged[start : start + length]) == checksum:
            return True
    return False


def parse_record(payload: bytes) -> Record:
    """Of JSON; ValueError for what is no record of this schema."""
    value = json.loads(payload)
    if type(value) is not list or not value or type(value[0]) is not str:
        raise ValueError("not a list that begins with a name")
    return build_record(value)


def build_record(value: list[Any]) -> Record:
    build = _BUILDERS.get(value[0])
    if build is None:
        raise ValueError(f"unknown record type {value[0]!r}")
    return typing.cast(Record, build(value[1:]))


def _builder(hint: Any) -> Build:
    """A function that makes a value of the hinted type from JSON, or raises ValueError."""
    if hint in (int, str, bool, float):
        return _scalar(hint)
    if hint is None or hint is type(None):
        return _scalar(type(None))
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        return _tuple_builder(arguments)
    if origin in (types.UnionType, typing.Union):
        return _alternatives([_builder(argument) for argument in arguments])
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint
    if isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_make"):
        fields = [_builder(field) for field in typing.get_type_hints(hint).values()]
        return _sequence(fields, make=hint._make)
    raise TypeError(f"a journal record cannot hold a {hint!r}")


def _scalar(expected: type) -> Build:
    def build(value: Any) -> Any:
        if type(value) is not expected:
            raise ValueError(f"{expected.__name__} expected, found {type(value).__name__}")
        return value

    return build


def _tuple_builder(arguments: tuple[Any, ...]) -> Build:
    if len(arguments) != 2 or arguments[1] is not Ellipsis:
        return _sequence([_builder(argument) for argument in arguments], make=tuple)
    item = _builder(arguments[0])

    def build(value: Any) -> Any:
        if type(value) is not list:
            raise ValueError(f"list expected, found {type(value).__name__}")
        return tuple(item(part) for part in value)

    return build


def _sequence(fields: list[Build], *, make: Callable[[list[Any]], Any]) -> Build:
    def build(value: Any) -> Any:
        if type(value) is not list or len(value) != len(fields):
            raise ValueError(f"list of {len(fields)} expected")
        return make([field(part) for field, part in zip(fields, value, strict=True)])

    return build


def _alternatives(builds: list[Build]) -> Build:
    def build(value: Any) -> Any:
        for attempt in builds:
            try:
                return attempt(value)
            except ValueError:
                continue
        raise ValueError("no alternative fits")

    return build


_BUILDERS: dict[str, Build] = {kind.__name__: _builder(kind) for kind in RECORD_TYPES}
