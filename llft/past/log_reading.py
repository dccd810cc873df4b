"""The events of a birth log (`birth_log`, where its format is), read again."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from llft.core.determinizer.operations import Failure, Result
from llft.errors import PeerError
from llft.identifiers import ThreadId
from llft.past.birth_log import (
    BYTES,
    CALLED,
    COMPLETED,
    FAILURE,
    FALSE,
    INT,
    NONE,
    START,
    TRUE,
    TUPLE,
    BirthLog,
)
from llft.wire.varint import get_uvarint, unzigzag

PIECE_BYTES: Final = 1 << 18
"""So much of a long log is copied at a time to be read."""


class Event(NamedTuple):
    """`what` is START, CALLED, or COMPLETED; RESTORED is in no log: between a head and what follows a state
    (`application.Restart`)."""

    what: int
    thread: ThreadId
    kind: int
    result: Result
    key: str = ""


class Past(NamedTuple):
    """What a program is to go through."""

    log: BirthLog
    """It goes on where the program is: at birth, or at the position of its image, or of its restart."""
    briefs: dict[ThreadId, deque[int]]
    """Ordered mode: of the calls that are to be made again."""


def events(data: bytes) -> Iterator[Event]:
    """The events of a whole log. What is not one is a PeerError: it came from another process."""
    position = 0
    while position < len(data):
        try:
            event, position = _decode(data, position)
        except IndexError:
            raise _truncated() from None
        yield event


def events_of(log: BirthLog, end: int, piece_bytes: int = PIECE_BYTES) -> Iterator[Event]:
    """The same of what a log keeps up to there. It may be long, so it is not copied as a whole."""
    start, wanted = log.start, piece_bytes
    while start < end:
        data = log.piece(start, min(start + wanted, end))
        position = 0
        while position < len(data):
            try:
                event, position = _decode(data, position)
            except IndexError:
                break  # the piece ends amidst it
            yield event
        if not position and start + len(data) == end:
            raise _truncated()
        wanted = piece_bytes if position else 2 * wanted
        start += position


def _truncated() -> PeerError:
    return PeerError("birth_log_truncated", "fetch it again")


def _decode(data: bytes, position: int) -> tuple[Event, int]:
    """The event that begins there, and where it ends. IndexError: not in this data."""
    thread, position = get_uvarint(data, position)
    tag = data[position]
    if tag == CALLED:
        after = position + 5
        _check_room(data, after)
        return Event(CALLED, thread, 0, int.from_bytes(data[position + 1 : after], "little")), after
    if tag == START:
        after = position + 2 + data[position + 1]
        _check_room(data, after)
        return Event(START, thread, 0, None, data[position + 2 : after].decode()), after
    kind = data[position + 1]
    result, after = _decode_result(tag, data, position + 2)
    return Event(COMPLETED, thread, kind, result), after


def _check_room(data: bytes, after: int) -> None:
    if after > len(data):
        raise IndexError


def _decode_result(tag: int, data: bytes, position: int) -> tuple[Result, int]:
    if tag == NONE:
        return None, position
    if tag in (TRUE, FALSE):
        return tag == TRUE, position
    if tag == INT:
        number, position = get_uvarint(data, position)
        return unzigzag(number), position
    if tag == BYTES:
        size, position = get_uvarint(data, position)
        _check_room(data, position + size)
        return data[position : position + size], position + size
    if tag == FAILURE:
        after = position + 2 + data[position + 1]
        _check_room(data, after)
        name = data[position + 2 : after].decode("utf-8", "replace")
        return Failure(name, bool(data[position])), after
    if tag == TUPLE:
        size, position = get_uvarint(data, position)
        numbers = []
        for _ in range(size):
            number, position = get_uvarint(data, position)
            numbers.append(unzigzag(number))
        return tuple(numbers), position
    raise PeerError("birth_log_event_unknown", "run the same version of LLFT at all replicas", tag=tag)


def briefs(log: BirthLog) -> dict[ThreadId, deque[int]]:
    """Of the calls in a log, by thread."""
    found: dict[ThreadId, deque[int]] = {}
    for event in events_of(log, log.length):
        if event.what == CALLED:
            assert isinstance(event.result, int)
            found.setdefault(event.thread, deque()).append(event.result)
    return found


def past_of(log: BirthLog, *, ordered: bool) -> Past:
    """Of a long one this takes long: without the driver's lock."""
    return Past(log, briefs(log) if ordered else {})
