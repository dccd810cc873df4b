"""A group's order information as one byte stream with offsets (D-04).

Law: bytes once sealed never change, and every member's stream is a prefix of the primary's.
The primary appends; a backup inserts what was reflected to it, in whatever order it comes.
What has been reflected is known as ranges, because what one remote group reflects is
not contiguous with what another did.
"""

from __future__ import annotations


class OrderStream:
    __slots__ = (
        "data",
        "early",
        "early_bytes",
        "early_limit_bytes",
        "end",
        "reflected",
        "start",
        "unreflected",
    )

    def __init__(self, offset: int = 0, *, early_limit_bytes: int = 1 << 20) -> None:
        self.data = bytearray()
        self.start = offset
        self.end = offset
        self.unreflected = offset
        """Primary: everything before this offset is known to be held elsewhere."""
        self.reflected: list[tuple[int, int]] = []
        self.early: list[tuple[int, bytes]] = []
        self.early_bytes = 0
        self.early_limit_bytes = early_limit_bytes

    def append(self, chunk: bytes) -> None:
        self.data += chunk
        self.end += len(chunk)

    def insert(self, start: int, chunk: bytes) -> bool:
        """Take a piece that starts anywhere; true if the contiguous stream grew."""
        before = self.end
        self._extend(start, chunk)
        if start > self.end:
            self._keep_early(start, chunk)
        elif self.early and self.end > before:
            self._use_early()
        return self.end > before

    def _extend(self, start: int, chunk: bytes) -> None:
        if start <= self.end < start + len(chunk):
            self.append(chunk[self.end - start :])

    def _keep_early(self, start: int, chunk: bytes) -> None:
        if self.early_bytes + len(chunk) > self.early_limit_bytes or (start, chunk) in self.early:
            return
        self.early.append((start, chunk))
        self.early.sort(key=lambda piece: piece[0])
        self.early_bytes += len(chunk)

    def _use_early(self) -> None:
        for start, chunk in self.early:
            self._extend(start, chunk)
        self.early = [(start, chunk) for start, chunk in self.early if start > self.end]
        self.early_bytes = sum(len(chunk) for _, chunk in self.early)

    def forget_early(self) -> None:
        """A new view: pieces of the old one that were never joined up are void."""
        self.early = []
        self.early_bytes = 0

    def truncate(self, offset: int) -> None:
        """What lay beyond this offset belongs to a history that was given up."""
        self.forget_early()
        if offset < self.end:
            del self.data[max(offset - self.start, 0) :]
            self.end = max(offset, self.start)
            self.unreflected = min(self.unreflected, self.end)

    def slice(self, start: int, end: int) -> bytes:
        """The retained bytes of [start, end); what was discarded is left out."""
        start = max(start, self.start)
        return bytes(self.data[start - self.start : max(end - self.start, 0)])

    def suffix(self) -> bytes:
        """What every message must carry: not yet known to be reflected."""
        return bytes(self.data[self.unreflected - self.start :])

    def mark_reflected(self, start: int, end: int) -> None:
        """Somebody else holds [start, end) and has shown it to all members of the group."""
        if end > self.end:
            end = self.end
        if end <= self.unreflected:
            return
        if start > self.unreflected:
            if len(self.reflected) < 64 and (start, end) not in self.reflected:
                self.reflected.append((start, end))
                self.reflected.sort()
            return
        self.unreflected = end
        while self.reflected and self.reflected[0][0] <= self.unreflected:
            self.unreflected = max(self.unreflected, self.reflected.pop(0)[1])

    def reset_reflected(self, offset: int) -> None:
        """A new primary knows nothing of what was reflected to the old one, but that every member had what is
        before `offset`; which may lie beyond the end, of a history that was cut off since."""
        self.reflected = []
        self.unreflected = min(max(offset, self.start), self.end)

    def discard(self, up_to: int) -> None:
        """Every member has it: nobody will ask again."""
        up_to = min(up_to, self.end)
        if up_to == self.end > self.start:
            self.data = bytearray()
            self.start = up_to
        elif up_to > self.start:
            del self.data[: up_to - self.start]
            self.start = up_to
        if up_to > self.unreflected:
            self.mark_reflected(self.unreflected, up_to)
