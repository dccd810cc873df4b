"""Frames of many records: what both ends of a journal know of them (`journal.frame` has the format).

Packing and unpacking are written twice, in Python (`pack_rows`, `unpack_rows`) and in C (`packing.c`), to the
same bytes and the same records. C is of the compiled lane, and leaves to Python whatever is not as usual.

    strip    who, a time, rows of that time, a time, rows of it, .. who, a time, .. as they come
    who      (group id, birth id, view)
    row      as in `journal.batch`
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from llft.identifiers import BirthId, ConnectionId, ViewId
from llft.journal.batch import Locks, Readings, Who
from llft.journal.record import (
    ClockRead,
    Collected,
    Delivered,
    HeartbeatArrived,
    Operated,
    Record,
    Sent,
    Stamp,
)

START: Final = b"\xf7\x9c"
"""How the payload of such a frame begins: no JSON does."""

TIME: Final = 0
WORD: Final = 1
CONNECTION: Final = 2
OPERATED: Final = 3
DELIVERED: Final = 4
SENT: Final = 5
CLOCK_READ: Final = 6
COLLECTED: Final = 7
HEARTBEAT_ARRIVED: Final = 8
READINGS: Final = 9

WORDS: Final = (
    "sent",
    "delivered",
    "read pick=%d thread=%d fd=%d size=%d",
    "send pick=%d thread=%d fd=%d timestamp=%d",
    "mutex pick=%d thread=%d mutex=%d count=%d result=%d",
    "time pick=%d thread=%d clock=%d value=%d",
    "wake pick=%d thread=%d",
    "checkpoint pick=%d thread=%d",
)
"""That every frame knows. They are a part of the format: another list is another version."""

WORD_BYTES_MAX: Final = 256
PLACES_MAX: Final = 16
"""Numbers in a word."""
ROWS_MAX: Final = 1024
"""Of a frame that is written: what is damaged is lost as a whole."""
FULL_BYTES: Final = 1 << 15
"""A frame that has so many takes no more rows."""
VALUES_MAX: Final = 1024
"""Of one row of readings; more of them are several rows."""
MAX_PACKED_BYTES: Final = 1 << 16
"""More are not believed: a record takes a byte, and memory hundreds."""

Strip = list[Any]
Packed = tuple[bytes, int, int, Who]
"""A frame, how many records it has, and time and who of the first one."""


KNOWN: Final = (
    Operated,
    Delivered,
    Sent,
    ClockRead,
    Collected,
    HeartbeatArrived,
    Readings,
    Locks,
    Stamp,
    BirthId,
    ViewId,
    ConnectionId,
)
"""The types that C has to do with, in its order."""

Pack = Callable[[Strip], list[Packed] | None]
Unpack = Callable[[bytes], list[Record] | None]


pack_in_c: Pack | None
unpack_in_c: Unpack | None
try:
    from llft.journal import packing
except ImportError:
    pack_in_c = unpack_in_c = None
else:
    packing.know(KNOWN, WORDS)
    pack_in_c, unpack_in_c = packing.pack, packing.unpack
