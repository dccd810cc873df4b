"""A packed frame's payload -> its records (`journal.frame` has the format).

Any bytes give records or a ValueError. Memory is bounded by the bytes: a payload is no longer than
`MAX_PACKED_BYTES`, and has at least as many bytes as records.
"""

from __future__ import annotations

from typing import Final

from llft.identifiers import BirthId, ConnectionId, ViewId
from llft.journal import packed
from llft.journal.packed import (
    CLOCK_READ,
    COLLECTED,
    CONNECTION,
    DELIVERED,
    HEARTBEAT_ARRIVED,
    MAX_PACKED_BYTES,
    OPERATED,
    PLACES_MAX,
    READINGS,
    SENT,
    START,
    TIME,
    WORD,
    WORD_BYTES_MAX,
    WORDS,
)
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

_HALF: Final = 1 << 63
_ALL: Final = (1 << 64) - 1


def unpack(payload: bytes) -> list[Record]:
    made = packed.unpack_in_c(payload) if packed.unpack_in_c is not None else None
    return unpack_in_python(payload) if made is None else made


def unpack_in_python(payload: bytes) -> list[Record]:
    if not payload.startswith(START) or len(payload) > MAX_PACKED_BYTES:
        raise ValueError("not a packed frame, or too long")
    try:
        records = _Unpacking(payload).records()
    except (IndexError, OverflowError):
        # Compiled, an index of more than 63 bits is an OverflowError: it too names what is not there.
        raise ValueError("a packed row is cut short, or names what is not there") from None
    if len(records) > len(payload):
        raise ValueError("more packed records than bytes")
    return records


class _Unpacking:
    def __init__(self, payload: bytes) -> None:
        self._data = payload
        self._at = len(START)
        group_id, host_id, pid, start_ns, precedence, view_num, *primary = [self._number() for _ in range(9)]
        view = ViewId(precedence, view_num, BirthId(*primary))
        self._stamp = Stamp(self._number(), group_id, BirthId(host_id, pid, start_ns), view)
        self._order = self._value = 0
        self._words = list(WORDS)
        self._connections: list[ConnectionId] = []
        self._last: dict[tuple[int, int], list[int]] = {}
        self._made: list[Record] = []

    def records(self) -> list[Record]:
        data, size = self._data, len(self._data)
        while self._at < size:
            kind = data[self._at]
            self._at += 1
            if kind == OPERATED:
                self._operated()
            elif kind == DELIVERED:
                index = self._count()
                self._made.append(
                    Delivered(self._stamp, self._connections[index], *self._numbers(kind, index, 4))
                )
            elif kind == SENT:
                index = self._count()
                whose, fields = self._connections[index], self._numbers(kind, index, 5)
                self._made.append(Sent(self._stamp, whose, *fields, *self._order_number()))
            elif kind == CLOCK_READ:
                fields = self._numbers(kind, 0, 2)
                self._made.append(ClockRead(self._stamp, *fields, *self._order_number()))
            elif kind == COLLECTED:
                index, which = self._count(), self._words[self._count()]
                whose, (up_to,) = self._connections[index], self._numbers(kind, index, 1)
                self._made.append(Collected(self._stamp, whose, which, up_to))
            else:
                self._other(kind)
        return self._made

    def _other(self, kind: int) -> None:
        """What few rows are."""
        if kind == TIME:
            time_ns = _wrapped(self._stamp.time_ns + self._number())
            self._stamp = self._stamp._replace(time_ns=time_ns)
        elif kind == WORD:
            self._words.append(self._word())
        elif kind == CONNECTION:
            self._connections.append(ConnectionId(self._number(), self._number(), self._number()))
        elif kind == HEARTBEAT_ARRIVED:
            *sender, interval_ns = self._numbers(kind, 0, 4)
            self._made.append(HeartbeatArrived(self._stamp, BirthId(*sender), interval_ns))
        elif kind == READINGS:
            self._readings()
        else:
            raise ValueError(f"no kind of a packed row is {kind}")

    def _operated(self) -> None:
        index = self._count()
        word = self._words[index]
        self._order = _wrapped(self._order + 1 + self._number())
        numbers = self._numbers(OPERATED, index, word.count("%d"))
        self._made.append(Operated(self._stamp, self._order, word % tuple(numbers) if numbers else word))

    def _readings(self) -> None:
        number = _wrapped(self._order + 1 + self._number())
        pick, thread, clock_id = self._numbers(READINGS, 0, 3)
        count = self._count()
        if count > len(self._data) or number > _HALF - 1 - count:
            raise ValueError("more readings than can be")
        for _ in range(count):
            value_ns = self._value = _wrapped(self._value + self._number())
            entry = f"time pick={pick} thread={thread} clock={clock_id} value={value_ns}"
            self._made.append(Operated(self._stamp, number, entry))
            self._made.append(ClockRead(self._stamp, clock_id, value_ns, number))
            number += 1
        self._order = number - 1

    def _word(self) -> str:
        size = self._count()
        word = self._data[self._at : self._at + size].decode("ascii", "replace")
        self._at += size
        places = word.count("%d")
        strange = not (word.isascii() and word.isprintable()) or word.count("%") != places
        if self._at > len(self._data) or size > WORD_BYTES_MAX or places > PLACES_MAX or strange:
            raise ValueError("not a word of a packed frame")
        return word

    def _numbers(self, kind: int, index: int, count: int) -> list[int]:
        last = self._last.get((kind, index)) or [0] * count
        numbers = self._last[kind, index] = [_wrapped(before + self._number()) for before in last]
        return numbers

    def _order_number(self) -> list[int]:
        return [_wrapped(self._order + self._number())]

    def _number(self) -> int:
        count = self._count()
        return -(count + 1 >> 1) if count & 1 else count >> 1

    def _count(self) -> int:
        data, at = self._data, self._at
        byte = data[at]
        found = byte & 0x7F
        shift = 0
        while byte > 0x7F:
            at += 1
            shift += 7
            byte = data[at]
            found |= (byte & 0x7F) << shift
            if found > _ALL or shift > 63:
                raise ValueError("a number of more than 64 bits")
        self._at = at + 1
        return found


def _wrapped(value: int) -> int:
    """64 bits with a sign."""
    return (value + _HALF & _ALL) - _HALF
