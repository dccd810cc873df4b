"""Many bytes that grow at their end and are forgotten at their beginning, in blocks.

One array of hundreds of megabytes is moved when it grows, and all of it again when something is forgotten.
Blocks stay where they are. (Rejected: huge pages for them. A virtual machine may have given free ones back to
its host, and then each costs milliseconds.)
"""

from __future__ import annotations

from typing import Final

from llft.wire.checksum import crc32

SMALLEST_BYTES: Final = 1 << 12
LARGEST_BYTES: Final = 1 << 23


class LongBytes:
    __slots__ = ("_blocks", "_dropped", "_room", "_sizes", "length")

    def __init__(self, data: bytes = b"") -> None:
        self._blocks: list[memoryview] = []
        self._sizes: list[int] = []
        """So many bytes of each block are in use; all of it, but of the last one."""
        self._dropped = 0
        """At the beginning of the first block."""
        self._room = 0
        """At the end of the last one."""
        self.length = 0
        self.append(data)

    def append(self, data: bytes | bytearray) -> None:
        size = len(data)
        if size > self._room:
            self._append_in_parts(memoryview(data))
        elif size:
            self._put(data, size)

    def append_all(self, pieces: list[bytes]) -> None:
        for piece in pieces:
            self.append(piece)

    def _append_in_parts(self, data: memoryview) -> None:
        start = 0
        while start < len(data):
            if not self._room:
                self._add_block(len(data) - start)
            part = min(self._room, len(data) - start)
            self._put(data[start : start + part], part)
            start += part

    def _put(self, data: bytes | bytearray | memoryview, size: int) -> None:
        used = self._sizes[-1]
        self._blocks[-1][used : used + size] = data
        self._sizes[-1] = used + size
        self._room -= size
        self.length += size

    def _add_block(self, wanted: int) -> None:
        """As large as all before, so that there are few, and what is not in use is not much."""
        size = SMALLEST_BYTES
        while size < LARGEST_BYTES and size < max(wanted, self.length):
            size *= 2
        self._blocks.append(memoryview(bytearray(size)))
        self._sizes.append(0)
        self._room = size

    def piece(self, start: int, end: int) -> bytes:
        return b"".join(self._parts(start, end))

    def digest(self, end: int, before: int) -> int:
        """Of the bytes up to `end`, behind something that had this one."""
        for part in self._parts(0, end):
            before = crc32(part, before)
        return before

    def _parts(self, start: int, end: int) -> list[memoryview]:
        found: list[memoryview] = []
        at = -self._dropped
        for block, size in zip(self._blocks, self._sizes, strict=True):
            first, beyond = max(start - at, 0 if at >= 0 else -at), min(end - at, size)
            if first < beyond:
                found.append(block[first:beyond])
            at += size
        return found

    def put(self, place: int, byte: int) -> None:
        at = -self._dropped
        for block, size in zip(self._blocks, self._sizes, strict=True):
            if place < at + size:
                block[place - at] = byte
                return
            at += size
        raise IndexError(place)

    def drop_before(self, place: int) -> None:
        self.length -= place
        self._dropped += place
        while self._sizes and self._dropped >= self._sizes[0]:
            self._dropped -= self._sizes.pop(0)
            del self._blocks[0]
        if not self._blocks:
            self._room = 0

    def drop_from(self, place: int) -> None:
        while self.length > place:
            size = self._sizes[-1]
            first = self._dropped if len(self._sizes) == 1 else 0
            unwanted = min(self.length - place, size - first)
            self._sizes[-1] = size - unwanted
            self.length -= unwanted
            self._room += unwanted
            if unwanted == size - first:
                self._forget_last()

    def _forget_last(self) -> None:
        del self._blocks[-1], self._sizes[-1]
        self._room = 0
        if not self._blocks:
            self._dropped = 0
