"""Frames of a live segment, sound or not: nothing is dropped in silence, and one bad byte costs one frame.

Unlike `journal.reader`, which stops at damage because its callers want the whole truth or none, this goes on
behind it: it looks for the next frame whose checksum holds. A frame that is torn at the end of the
file is no damage, the writer may still be at it; it is told as a Tail, and reading resumes there.
"""

from __future__ import annotations

import mmap
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from llft.journal.frame import FRAME, MAX_PAYLOAD_BYTES, PAYLOAD_START

Data = bytes | mmap.mmap


class Frame(NamedTuple):
    offset: int
    payload: bytes


class Damage(NamedTuple):
    """Bytes that are no frame, with sound ones behind them, or too wrong to be a torn end."""

    offset: int
    size: int


class Tail(NamedTuple):
    """Where reading stopped, and the bytes left there: half a frame, or none."""

    offset: int
    size: int


def scan(data: Data, start: int) -> Iterator[Frame | Damage | Tail]:
    """From the frame at `start` to the end; the last one yielded is a Tail."""
    offset, end = start, len(data)
    while True:
        payload = sound_payload(data, offset)
        if payload is not None:
            yield Frame(offset, payload)
            offset += FRAME.size + len(payload)
            continue
        following = _next_sound(data, offset + 1) if offset < end else None
        if following is not None:
            yield Damage(offset, following - offset)
            offset = following
            continue
        if not _is_torn(data, offset):
            yield Damage(offset, end - offset)
            offset = end
        yield Tail(offset, end - offset)
        return


def sound_payload(data: Data, offset: int) -> bytes | None:
    """Of the frame at `offset`, if its length is believable and its checksum holds."""
    body = offset + FRAME.size
    if body > len(data):
        return None
    length, checksum = FRAME.unpack_from(data, offset)
    if not 0 < length <= MAX_PAYLOAD_BYTES or body + length > len(data):
        return None
    payload = data[body : body + length]
    return payload if zlib.crc32(payload) == checksum else None


def _next_sound(data: Data, start: int) -> int | None:
    for found in PAYLOAD_START.finditer(data, start + FRAME.size):
        offset = found.start() - FRAME.size
        if sound_payload(data, offset) is not None:
            return offset
    return None


def _is_torn(data: Data, offset: int) -> bool:
    """Whether the bad frame at `offset`, behind which no sound one lies, can be half of one that was being
    written: it goes up to the end or beyond, or zeros follow it (a file system may extend a file before it
    has the data)."""
    body = offset + FRAME.size
    if body > len(data):
        return True
    length, _ = FRAME.unpack_from(data, offset)
    if length > MAX_PAYLOAD_BYTES:
        return False
    return not any(data[body + length :]) and (length > 0 or not any(data[offset:]))


def payloads(data: Data, start: int, end: int) -> Iterator[bytes]:
    """Of the sound frames that begin from `start` on and before `end`."""
    for found in scan(data, start):
        if found.offset >= end:
            return
        if isinstance(found, Frame):
            yield found.payload
