"""Many bytes that grow at their end and are forgotten at their beginning.

One array of hundreds of megabytes is moved when it grows, and all of it again when something is forgotten.
Here all is copied into blocks, which stay where they are; of the large ones some that were forgotten are used
again, for new memory costs more than the copying. Messages' own memory is free when they are over, and the
next ones have it. (Rejected: to keep what is large as it is, which took new
memory for every message. Huge pages for the blocks: a virtual machine may have given free ones back to its
host, and then each costs milliseconds.)
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import Final

from llft.wire.checksum import crc32

SMALLEST_BYTES: Final = 1 << 12
LARGEST_BYTES: Final = 1 << 21
SPARE_BLOCKS: Final = 16
"""Of the largest, so many that were forgotten are kept for what is to come,"""
SPARE_BLOCKS_MAX: Final = 256
"""and so many at most for a while: what was needed once is needed again as soon as the next state counts."""
LENT_BLOCKS: Final = 16
"""Of the largest, so many are lent to whoever has much to put there."""


def _plain(size: int) -> memoryview:
    return memoryview(bytearray(size))


_large: list[Callable[[int], memoryview]] = [_plain]
"""What makes the largest blocks."""


def have_large_blocks_of(make: Callable[[int], memoryview]) -> None:
    """Of cleared memory. A process knows better ones than this module, which knows of no system."""
    _large[0] = make


def _new_block(size: int) -> memoryview:
    return _large[0](size) if size == LARGEST_BYTES else _plain(size)


class LongBytes:
    __slots__ = (
        *("_begin", "_block", "_block_ends", "_blocks", "_ends", "_parts", "_spare", "_start", "_used"),
        "length",
    )

    def __init__(self, data: bytes = b"") -> None:
        self._parts: list[memoryview] = []
        self._ends: list[int] = []
        """Where each part ends, counted from the first byte of all; `_start` is where the first begins."""
        self._start = 0
        self._block = memoryview(bytearray())
        self._begin = self._used = 0
        """Of the block what is behind the last part, and how much of it is in use."""
        self._blocks: list[memoryview] = []
        self._block_ends: list[int] = []
        """Full ones of the largest, and where in all that ever was each ends."""
        self._spare: list[memoryview] = []
        self.length = 0
        self.append(data)

    def append(self, data: bytes | bytearray) -> None:
        size = len(data)
        if size <= len(self._block) - self._used:
            self._put(data, size)
        else:
            self._append_in_parts(memoryview(data))

    def append_all(self, pieces: list[bytes]) -> None:
        for piece in pieces:
            self.append(piece)

    def room(self) -> list[memoryview]:
        """Where what follows can be put, piece after piece: `take` says how much was. Where there is not much
        yet, that is what is left of the last block."""
        lent = [self._block[self._used :]] if self._used < len(self._block) else []
        if len(self._block) == LARGEST_BYTES:
            while len(self._spare) < LENT_BLOCKS:
                self._spare.insert(0, _new_block(LARGEST_BYTES))  # those that were in use come first
            lent += self._spare[: -LENT_BLOCKS - 1 : -1]
        return lent

    def take(self, size: int) -> None:
        """So much was put into the room that there is."""
        while size > 0:
            if self._used == len(self._block):
                self._add_block(size)
            part = min(len(self._block) - self._used, size)
            self._used += part
            self.length += part
            size -= part

    def _append_in_parts(self, data: memoryview) -> None:
        start = 0
        while start < len(data):
            if self._used == len(self._block):
                self._add_block(len(data) - start)
            part = min(len(self._block) - self._used, len(data) - start)
            self._put(data[start : start + part], part)
            start += part

    def _put(self, data: bytes | bytearray | memoryview, size: int) -> None:
        self._block[self._used : self._used + size] = data
        self._used += size
        self.length += size

    def _add_block(self, wanted: int) -> None:
        """As large as all before, so that there are few, and what is not in use is not much."""
        self._seal()
        if len(self._block) == LARGEST_BYTES:
            self._blocks.append(self._block)
            self._block_ends.append(self._start + self.length)
        size = SMALLEST_BYTES
        while size < LARGEST_BYTES and size < max(wanted, self.length):
            size *= 2
        self._block = self._spare.pop() if self._spare else _new_block(size)
        self._begin = self._used = 0

    def _seal(self) -> None:
        """What is in use of the block is a part from now on."""
        if self._used > self._begin:
            self._add_part(self._block[self._begin : self._used])
            self._begin = self._used

    def _add_part(self, part: memoryview) -> None:
        self._ends.append((self._ends[-1] if self._ends else self._start) + len(part))
        self._parts.append(part)

    def piece(self, start: int, end: int) -> bytes:
        return b"".join(self._between(start, end))

    def digest(self, end: int, before: int) -> int:
        """Of the bytes up to `end`, behind something that had this one."""
        for part in self._between(0, end):
            before = crc32(part, before)
        return before

    def _between(self, start: int, end: int) -> list[memoryview]:
        self._seal()
        found: list[memoryview] = []
        first, beyond = self._start + start, self._start + end
        at = bisect_right(self._ends, first)
        while first < beyond:
            part, part_end = self._parts[at], self._ends[at]
            begin = len(part) - (part_end - first)
            found.append(part[begin : begin + beyond - first])
            first, at = part_end, at + 1
        return found

    def put(self, place: int, byte: int) -> None:
        if not 0 <= place < self.length:
            raise IndexError(place)
        self._seal()
        at = bisect_right(self._ends, self._start + place)
        part = self._parts[at]
        part[len(part) - (self._ends[at] - self._start - place)] = byte

    def drop_before(self, place: int) -> None:
        self._seal()
        self._start += place
        self.length -= place
        gone = bisect_right(self._ends, self._start)
        del self._parts[:gone], self._ends[:gone]
        if self._parts:
            self._parts[0] = self._parts[0][len(self._parts[0]) - (self._ends[0] - self._start) :]
        else:
            self._forget_block()
        self._spare_blocks()

    def _spare_blocks(self) -> None:
        """Those of which nothing is left."""
        gone = bisect_right(self._block_ends, self._start)
        self._spare += self._blocks[: min(gone, max(0, SPARE_BLOCKS_MAX - len(self._spare)))]
        del self._blocks[:gone], self._block_ends[:gone]

    def give_back(self) -> None:
        """Now and then, while nobody has room that was lent: one of those that are spare, if they are many.
        To give all back at once takes a tenth of a millisecond for each, in which nobody is answered."""
        if len(self._spare) > SPARE_BLOCKS:
            del self._spare[0]

    def drop_from(self, place: int) -> None:
        self._seal()
        end = self._start + place
        while self._ends and self._ends[-1] - len(self._parts[-1]) >= end:
            del self._parts[-1], self._ends[-1]
        if self._ends and self._ends[-1] > end:
            part = self._parts[-1]
            self._parts[-1] = part[: len(part) - (self._ends[-1] - end)]
            self._ends[-1] = end
        self._block_ends = [min(each, end) for each in self._block_ends]
        self.length = place

    def _forget_block(self) -> None:
        if len(self._block) == LARGEST_BYTES and len(self._spare) < SPARE_BLOCKS:
            self._spare.append(self._block)
        self._block = memoryview(bytearray())
        self._begin = self._used = 0
