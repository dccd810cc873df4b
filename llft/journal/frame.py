"""The file format of a journal, shared by its writer and its reader (D-22).

    file    magic "LLFTJRNL", schema version u32, segment number u32, CRC-32 of these u32, then frames
    frame   payload length u32, CRC-32 of the payload u32, payload        (all little endian)
    payload of one record: JSON in ASCII, [type name, field, ...], tuples as lists; or
            of many: the bytes F7 9C, who and when, then rows up to the payload's end

Types and their fields are those of `journal.record`. JSON, because a journal outlives the program that wrote
it and must be readable with nothing but this docstring; a length and a checksum, because a process that is
killed leaves half a frame. The journal of a process is one or more files, its segments, numbered from 0.
Version 1 had one, and no segment number and checksum in its header; versions 1 and 2 had JSON alone.

**Packed payloads** are for the kinds that nearly all records are of: a tenth of the bytes, and of the time.
Each can be read alone. They are made of

    count   seven bits to a byte, the lowest first; all bytes but the last have their highest bit set
    number  a count, of 0, -1, 1, -2, 2 .. as 0, 1, 2, 3, 4 ..: 64 bits with a sign
    change  a number: what is to be added to the same field of the last row of the same kind and, where a row
            names one, of the same connection or word; 0 at first. Sums wrap at 64 bits

Who and when are ten numbers: group id; host id, pid and start of the birth id; precedence and number of the
view, host id, pid and start of its primary; time. The stamp of a record is who, and the time as of its row.
A row is a byte for its kind, and what follows:

    0 time              number: so much later it is from here on
    1 word              count of bytes, printable ASCII: the next word, from 8: the first are known
    2 connection        three numbers, the fields of its id: the next connection, from 0
    3 Operated          count: a word; number: order number less the last operation's (0 at first) and 1;
                        a change for each %d of the word. The entry is the word, with them in their places
    4 Delivered         count: a connection; changes: fd, size, stream offset, digest
    5 Sent              count: a connection; changes: fd, position, timestamp, size, digest; number: order
                        number less the last operation's
    6 ClockRead         changes: clock id, value; number: order number less the last operation's
    7 Collected         count: a connection; count: a word; change (whatever the word is): timestamp
    8 HeartbeatArrived  changes: host id, pid and start of the sender, interval
    9 readings          number: order number of the first less the last operation's and 1; changes: pick,
                        thread, clock id; count of values; for each a number, of at least two bytes: value
                        less the one before (of this row or the last such; 0 at first). Each is two records,
                        an Operated ("time pick=.. thread=.. clock=.. value=..") and a ClockRead, with the
                        next order number

    0 "sent"                                        4 "mutex pick=%d thread=%d mutex=%d count=%d result=%d"
    1 "delivered"                                   5 "time pick=%d thread=%d clock=%d value=%d"
    2 "read pick=%d thread=%d fd=%d size=%d"        6 "wake pick=%d thread=%d"
    3 "send pick=%d thread=%d fd=%d timestamp=%d"   7 "checkpoint pick=%d thread=%d"

are the words that are known. A packed payload has at most 65536 bytes, and a byte for every record; a word
has at most 256 bytes and 16 places. What does not fit is a record in JSON.
"""

from __future__ import annotations

import json
import os
import re
import struct
import zlib
from collections.abc import Callable
from functools import lru_cache
from json.encoder import c_make_encoder, encode_basestring_ascii  # type: ignore[attr-defined]
from typing import Any, Final

from llft.journal.packed import START
from llft.journal.record import (
    SCHEMA_VERSION,
    ClockRead,
    Collected,
    Delivered,
    HeartbeatArrived,
    Operated,
    Record,
    Sent,
    Stamp,
)

MAGIC: Final = b"LLFTJRNL"
HEADER: Final = struct.Struct("<8sIII")
"""Magic, version, the segment's number, and the checksum of these three."""
HEADER_V1: Final = struct.Struct("<8sI")
_HEADER_START: Final = struct.Struct("<8sII")
FRAME: Final = struct.Struct("<II")

MAX_PAYLOAD_BYTES: Final = 1 << 20
"""Larger ones are neither written nor believed: a reader takes no memory on a length's word."""

PAYLOAD_START: Final = re.compile(rb'\["|' + re.escape(START))
"""How every payload begins, which lets a reader look for frames after damage."""

_encode: Final = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
_C_ENCODER: Final = c_make_encoder and c_make_encoder(
    None, None, encode_basestring_ascii, None, ":", ",", False, False, True
)
"""What `_encode` makes anew for every call, which takes longer than the call. Not every Python has it."""


def _encode_json(value: Any) -> str:
    return "".join(_C_ENCODER(value, 0)) if _C_ENCODER is not None else _encode(value)


def file_header(segment: int = 0) -> bytes:
    start = _HEADER_START.pack(MAGIC, SCHEMA_VERSION, segment)
    return start + zlib.crc32(start).to_bytes(4, "little")


def segment_of(header: bytes) -> int | None:
    """The number of the segment that begins with this whole header; None: the header is damaged."""
    _, _, segment, checksum = HEADER.unpack_from(header)
    return segment if zlib.crc32(header[: _HEADER_START.size]) == checksum else None


def segment_path(path: str, segment: int) -> str:
    """Where a segment lies, if the first one lies at `path`."""
    root, extension = os.path.splitext(path)
    return f"{root}.{segment}{extension}" if segment else path


def encode_record(record: Record) -> bytes:
    """The whole frame of a record. Named tuples are JSON arrays, nested ones too."""
    kind = type(record)
    fields = FREQUENT.get(kind, _fields)(record)
    data = f'["{kind.__name__}",{_stamp(record.stamp)}{fields}]'.encode("ascii")
    return FRAME.pack(len(data), zlib.crc32(data)) + data


@lru_cache(maxsize=16)
def _stamp(stamp: Stamp) -> str:
    """All records of one step of the core have the same."""
    return f"[{stamp.time_ns},{_who(stamp[1:])}]"


@lru_cache(maxsize=64)
def _who(stamp: tuple[Any, ...]) -> str:
    """A stamp without its time, which says the same in a million records of one view."""
    return _encode_json(stamp)[1:-1]


def _fields(record: Any) -> str:
    fields = record[1:]
    return f",{_encode_json(fields)[1:-1]}" if fields else ""


def _operated(record: Any) -> str:
    _, number, entry = record
    return f",{number},{encode_basestring_ascii(entry)}"


def _delivered(record: Any) -> str:
    _, (client, server, conn), fd, size, offset, digest = record
    return f",[{client},{server},{conn}],{fd},{size},{offset},{digest}"


def _sent(record: Any) -> str:
    _, (client, server, conn), fd, position, timestamp, size, digest, number = record
    return f",[{client},{server},{conn}],{fd},{position},{timestamp},{size},{digest},{number}"


def _clock_read(record: Any) -> str:
    _, clock_id, value_ns, number = record
    return f",{clock_id},{value_ns},{number}"


def _heartbeat_arrived(record: Any) -> str:
    _, (host_id, pid, start_ns), interval_ns = record
    return f",[{host_id},{pid},{start_ns}],{interval_ns}"


def _collected(record: Any) -> str:
    _, (client, server, conn), which, up_to = record
    return f",[{client},{server},{conn}],{encode_basestring_ascii(which)},{up_to}"


FREQUENT: Final[dict[type, Callable[[Any], str]]] = {
    Operated: _operated,
    Delivered: _delivered,
    Sent: _sent,
    ClockRead: _clock_read,
    Collected: _collected,
    HeartbeatArrived: _heartbeat_arrived,
}
"""The kinds that nearly all records are of, written out: half the time of `_fields`, which says the same."""
