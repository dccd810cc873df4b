"""Rows -> packed frames (`journal.frame` has the format). The bytes are those of `packing.c`.

What has no place in a packed frame (a number beyond 64 bits, a long or strange word) becomes a record again,
with a frame of its own, in its place among the others.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

from llft.journal import packed
from llft.journal.batch import Batch, Readings, Row, Who, one_by_one_of
from llft.journal.packed import (
    CLOCK_READ,
    COLLECTED,
    CONNECTION,
    DELIVERED,
    FULL_BYTES,
    HEARTBEAT_ARRIVED,
    OPERATED,
    PLACES_MAX,
    READINGS,
    ROWS_MAX,
    SENT,
    START,
    TIME,
    VALUES_MAX,
    WORD,
    WORD_BYTES_MAX,
    WORDS,
    Packed,
    Strip,
)
from llft.journal.record import (
    ClockRead,
    Collected,
    Delivered,
    HeartbeatArrived,
    Operated,
    Record,
    Sent,
)

_LOWEST: Final = -(1 << 63)
_HIGHEST: Final = (1 << 63) - 1
_ALL: Final = (1 << 64) - 1
_KNOWN_WORDS: Final = {word: number for number, word in enumerate(WORDS)}


class _Odd(Exception):
    """Not for a packed frame."""


def pack(strip: Strip) -> Sequence[Packed | Record]:
    """Frames, and records that have to have their own, in order."""
    made = packed.pack_in_c(strip) if packed.pack_in_c is not None else None
    return list(pack_in_python(strip)) if made is None else made


def pack_in_python(strip: Strip) -> Iterator[Packed | Record]:
    who: Who | None = None
    time_ns = 0
    frame: _Frame | None = None
    for item in strip:
        if isinstance(item, int):
            time_ns = item
            continue
        if not isinstance(item[0], type):
            if frame is not None and item != who:
                yield from frame.end()
                frame = None
            who = item
            continue
        assert who is not None
        for row in one_by_one_of(_cut(item)):
            if frame is not None and frame.is_full():
                yield from frame.end()
                frame = None
            try:
                frame = frame or _Frame(time_ns, who)
                frame.add(time_ns, row)
            except _Odd:
                if frame is not None:
                    yield from frame.end()
                    frame = None
                yield from Batch(time_ns, who, [row]).records()
    if frame is not None:
        yield from frame.end()


def _cut(row: Row) -> list[Row]:
    """Readings by as many as go into one row."""
    if row[0] is not Readings or len(row[5]) <= VALUES_MAX:
        return [row]
    _, number, *place, values = row
    starts = range(0, len(values), VALUES_MAX)
    return [(Readings, number + start, *place, values[start : start + VALUES_MAX]) for start in starts]


class _Frame:
    """One that is being packed. A row is looked at whole before anything of it is taken."""

    def __init__(self, time_ns: int, who: Who) -> None:
        group_id, birth_id, (precedence, number, primary) = who
        numbers = _integers((group_id, *birth_id, precedence, number, *primary, time_ns))
        self._first_ns, self._who = time_ns, who
        self._time_ns = time_ns
        self._data = bytearray(START)
        self._rows = self._records = 0
        self._order = 0
        """The last order number of an operation."""
        self._value = 0
        """Of the last reading."""
        self._words = dict(_KNOWN_WORDS)
        self._connections: dict[Any, int] = {}
        self._last: dict[tuple[int, int], list[int]] = {}
        """The numbers of the last row, by kind and word or connection."""
        for one in numbers:
            self._number(one)

    def is_full(self) -> bool:
        return self._rows >= ROWS_MAX or len(self._data) >= FULL_BYTES

    def end(self) -> Iterator[Packed]:
        if self._rows:
            head = len(self._data).to_bytes(4, "little") + zlib.crc32(self._data).to_bytes(4, "little")
            yield head + bytes(self._data), self._records, self._first_ns, self._who

    def add(self, time_ns: int, row: Row) -> None:
        if time_ns != self._time_ns:
            _integers((time_ns,))
        kind = row[0]
        if kind is Operated:
            self._operated(time_ns, row)
        elif kind in (Delivered, Sent):
            _, connection, *fields = row
            self._on_connection(time_ns, DELIVERED if kind is Delivered else SENT, connection, fields)
        elif kind is ClockRead:
            _, *fields, number = row
            numbers, (number,) = _integers(fields), _integers((number,))
            self._begin(time_ns, CLOCK_READ)
            self._differences(CLOCK_READ, 0, numbers)
            self._number(number - self._order)
        elif kind is Collected:
            _, connection, word, up_to = row
            self._collected(time_ns, _integers(connection), _word(word), _integers((up_to,)))
        elif kind is HeartbeatArrived:
            _, sender, interval_ns = row
            numbers = _integers((*sender, interval_ns))
            self._begin(time_ns, HEARTBEAT_ARRIVED)
            self._differences(HEARTBEAT_ARRIVED, 0, numbers)
        elif kind is Readings:
            self._readings(time_ns, row)
        else:
            raise _Odd
        self._rows += 1

    def _operated(self, time_ns: int, row: Row) -> None:
        _, number, text, *entry = row
        word = _word(text)
        places = word.count("%d")
        if word.count("%") != places or places > PLACES_MAX or (places and not entry):
            raise _Odd
        numbers = _integers([int(one) for one in entry[0][1 : 1 + places]] if entry else [])
        (number,) = _integers((number,))
        if len(numbers) != places:
            raise _Odd
        index = self._word_index(time_ns, word)
        self._begin(time_ns, OPERATED)
        self._count(index)
        self._order_number(number)
        self._differences(OPERATED, index, numbers)

    def _on_connection(self, time_ns: int, kind: int, connection: Any, fields: Sequence[int]) -> None:
        numbers, whose = _integers(fields), _integers(connection)
        index = self._connection_index(time_ns, whose)
        self._begin(time_ns, kind)
        self._count(index)
        if kind == SENT:
            *numbers, number = numbers
            self._differences(kind, index, numbers)
            self._number(number - self._order)
        else:
            self._differences(kind, index, numbers)

    def _collected(self, time_ns: int, connection: list[int], word: str, numbers: list[int]) -> None:
        if "%" in word:
            raise _Odd
        index = self._connection_index(time_ns, connection)
        which = self._word_index(time_ns, word)
        self._begin(time_ns, COLLECTED)
        self._count(index)
        self._count(which)
        self._differences(COLLECTED, index, numbers)

    def _readings(self, time_ns: int, row: Row) -> None:
        _, number, pick, thread, clock_id, given = row
        number, *place = _integers((number, pick, thread, clock_id))
        values = _integers(given)
        if number > _HIGHEST - len(values):
            raise _Odd
        self._begin(time_ns, READINGS)
        self._order_number(number)
        self._differences(READINGS, 0, place)
        self._count(len(values))
        for value in values:
            difference = _zigzag(value - self._value)
            self._value = value
            # Two bytes at least, for a reading is two records: a frame has a byte for every record.
            self._data.append(difference & 0x7F | 0x80)
            self._count(difference >> 7)
        self._order = number + len(values) - 1
        self._records += 2 * len(values) - 1

    def _begin(self, time_ns: int, kind: int) -> None:
        if time_ns != self._time_ns:
            self._data.append(TIME)
            self._number(time_ns - self._time_ns)
            self._time_ns = time_ns
        self._data.append(kind)
        if kind > CONNECTION:
            self._records += 1

    def _word_index(self, time_ns: int, word: str) -> int:
        index = self._words.get(word)
        if index is None:
            index = self._words[word] = len(self._words)
            self._begin(time_ns, WORD)
            self._count(len(word))
            self._data += word.encode("ascii")
        return index

    def _connection_index(self, time_ns: int, connection: list[int]) -> int:
        key = tuple(connection)
        index = self._connections.get(key)
        if index is None:
            if len(key) != 3:
                raise _Odd
            index = self._connections[key] = len(self._connections)
            self._begin(time_ns, CONNECTION)
            for one in key:
                self._number(one)
        return index

    def _order_number(self, number: int) -> None:
        self._number(number - self._order - 1)
        self._order = number

    def _differences(self, kind: int, index: int, numbers: list[int]) -> None:
        last = self._last.get((kind, index)) or [0] * len(numbers)
        for before, number in zip(last, numbers, strict=True):
            self._number(number - before)
        self._last[kind, index] = numbers

    def _number(self, number: int) -> None:
        self._count(_zigzag(number))

    def _count(self, count: int) -> None:
        data = self._data
        while count > 0x7F:
            data.append(count & 0x7F | 0x80)
            count >>= 7
        data.append(count)


def _zigzag(number: int) -> int:
    """Of 64 bits: a difference of two numbers may have one more, and wraps."""
    number &= _ALL
    return number << 1 if number <= _HIGHEST else (_ALL - number << 1) + 1


def _integers(values: Any) -> list[int]:
    found = list(values)
    for one in found:
        if type(one) is not int or not _LOWEST <= one <= _HIGHEST:
            raise _Odd
    return found


def _word(value: Any) -> str:
    if type(value) is not str or len(value) > WORD_BYTES_MAX:
        raise _Odd
    if not (value.isascii() and value.isprintable()):
        raise _Odd
    return value
