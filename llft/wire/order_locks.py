"""Entries of a mutex that follow one another and differ in counts alone: a thread's claims and releases.

They are written and read many at a time. The bytes are those that `order_writers` gives to each of them by
itself: a head, which is followed by the count where that is not the last one plus 1. The compiled lane reads
them in C (`locks.c`).
"""

from __future__ import annotations

from collections.abc import Callable

from llft.wire.order_entries import MUTEX, NEW_COUNT, U64_MAX
from llft.wire.varint import get_uvarint, put_uvarint

decode_locks: Callable[[bytearray, int, bytes, int], tuple[list[int], int]] | None
"""The same as `locks_at`."""
try:
    from llft.wire import locks
except ImportError:
    decode_locks = None
else:
    decode_locks = locks.decode


def mutex_head(mutex: int) -> bytes:
    """Of an entry whose count goes on."""
    head = bytearray((MUTEX,))
    put_uvarint(head, mutex)
    return bytes(head)


def locks_at(buffer: bytearray, position: int, head: bytes, count: int) -> tuple[list[int], int]:
    """Counts of entries from there on, the last one of which before was `count`; and where they end."""
    counts: list[int] = []
    anew = bytes((head[0] | NEW_COUNT,)) + head[1:]
    while True:
        if buffer.startswith(head, position):
            count, end = count + 1, position + len(head)
        elif buffer.startswith(anew, position):
            try:
                count, end = get_uvarint(buffer, position + len(anew))
            except IndexError:
                break  # not whole
        else:
            break
        if count > U64_MAX:
            break  # the reader of single entries says so
        counts.append(count)
        position = end
    return counts, position


def encode_locks(mutex: int, counts: list[int]) -> bytes:
    """All entries but the first. As a rule counts go on, or come in pairs that are alike."""
    head = mutex_head(mutex)
    size, first = len(counts), counts[0]
    if counts[-1] == first + size - 1 and counts == list(range(first, first + size)):
        return head * (size - 1)
    if size > 3 and counts[2:] == counts[:-2]:
        pair = _one_by_one(head, counts[:3])
        once = _one_by_one(head, counts[:2])
        return pair * ((size - 1) // 2) + (b"" if size % 2 else once)
    return _one_by_one(head, counts)


def _one_by_one(head: bytes, counts: list[int]) -> bytes:
    made, anew = bytearray(), bytes((head[0] | NEW_COUNT,)) + head[1:]
    last = counts[0]
    for count in counts[1:]:
        if count == last + 1:
            made += head
        else:
            made += anew
            put_uvarint(made, count)
        last = count
    return bytes(made)
