"""Order information of a remote group, held for it and reflected back to it (D-04).

Laws:
 - What is held is kept until the remote group's watermark shows that all its members have it.
 - Each piece is tagged with the view under which it came. Only pieces of the view that is
   believed now are reflected in ordinary messages; older ones are given in answer to a
   NewPrimaryView only, because part of them may lie beyond the virtual synchrony point of a
   newer view, where the newer primary's own bytes stand.
"""

from __future__ import annotations

from typing import Final

from llft.identifiers import NO_VIEW, ViewId
from llft.wire.messages import UNSETTLED, Header, MessageType, OrderRange

_RANGES_MAX: Final = 1000


class HeldOrder:
    """What one replica holds of one remote group's order stream."""

    __slots__ = (
        *("answer", "committed", "limit_bytes", "pieces", "unreflected"),
        *("view", "view_start", "waits", "watermark"),
    )

    def __init__(self, limit_bytes: int = 4 << 20) -> None:
        self.view: ViewId = NO_VIEW
        self.view_start = UNSETTLED
        self.pieces: list[OrderRange] = []
        """Of all views, in order of arrival; those of one view do not overlap."""
        self.unreflected: list[tuple[int, bytes]] = []
        self.watermark = 0
        self.committed = 0
        """What enough backups of the remote group hold, for output commit (D-10)."""
        self.answer = b""
        """The datagram in which a backup of it has said last what it holds (D-75), in the view that is
        believed now; empty: none has."""
        self.waits = True
        """Whether the remote group waits for the output commit of ours; until it has said no, it may."""
        self.limit_bytes = limit_bytes

    def adopt_view(self, view: ViewId, view_start: int) -> None:
        """The remote group has a new primary view; once its start is known, what older views
        said beyond it is void."""
        if self.view.supersedes(view):
            return  # a late message on another connection
        if view != self.view:
            self.view = view
            self.unreflected = []
            self.view_start = UNSETTLED
            self.watermark = 0
            self.committed = 0
            self.answer = b""
        if view_start == UNSETTLED or view_start == self.view_start:
            return
        self.view_start = view_start
        kept = []
        for piece in self.pieces:
            if piece.view == view or piece.end <= view_start:
                kept.append(piece)
            elif piece.start < view_start:
                data = piece.data[: view_start - piece.start]
                kept.append(OrderRange(piece.view, piece.view_start, piece.start, data))
        self.pieces = kept

    def note_waiting(self, header: Header) -> bool:
        """True: it waits, and did not when it was sent to last, so that nobody was asked. A SecondAck is a
        backup's, which may have joined with other settings than its group's."""
        if header.message_type == MessageType.SECOND_ACK:
            return False
        newly = header.waits_for_commit and not self.waits
        self.waits = header.waits_for_commit
        return newly

    def hold(self, start: int, data: bytes) -> None:
        """Take what a message of the believed view carried; remember what is new. What all members of that
        group have need not be held."""
        end = start + len(data)
        if start < self.watermark:
            if end <= self.watermark:
                return
            data, start = data[self.watermark - start :], self.watermark
        last = self.pieces[-1] if self.pieces else None
        if last is not None and last.view == self.view and last.start <= start <= last.end:
            if end <= last.end:
                return
            data = data[last.end - start :]
            start = last.end
        else:
            for piece in self.pieces:
                if piece.view == self.view and piece.start <= start and end <= piece.end:
                    return
        self._add(start, data)

    def _add(self, start: int, data: bytes) -> None:
        if sum(len(piece.data) for piece in self.pieces) + len(data) > self.limit_bytes:
            return
        last = self.pieces[-1] if self.pieces else None
        if last is not None and last.view == self.view and last.end == start and len(last.data) < 8192:
            self.pieces[-1] = OrderRange(last.view, self.view_start, last.start, last.data + data)
        else:
            self.pieces.append(OrderRange(self.view, self.view_start, start, data))
        if self.unreflected and self.unreflected[-1][0] + len(self.unreflected[-1][1]) == start:
            first, held = self.unreflected[-1]
            self.unreflected[-1] = (first, held + data)
        else:
            self.unreflected.append((start, data))

    def next_reflection(self, limit_bytes: int) -> tuple[int, bytes]:
        """The piece that the next message to the group reflects; empty if there is none."""
        if not self.unreflected:
            return 0, b""
        start, data = self.unreflected[0]
        if len(data) <= limit_bytes:
            del self.unreflected[0]
            return start, data
        self.unreflected[0] = (start + limit_bytes, data[limit_bytes:])
        return start, data[:limit_bytes]

    def next_reflected(self, limit_bytes: int) -> int:
        """How many bytes that piece has."""
        return min(len(self.unreflected[0][1]), limit_bytes) if self.unreflected else 0

    def reflect_again(self) -> None:
        """When traffic pauses, everything that is still held goes out once more."""
        self.unreflected = [(piece.start, piece.data) for piece in self.pieces if piece.view == self.view]

    def on_watermark(self, watermark: int) -> None:
        if watermark <= self.watermark:
            return
        self.watermark = watermark
        self.pieces = [_beyond(piece, watermark) for piece in self.pieces if piece.end > watermark]
        if self.unreflected:
            # What all have would only keep back what follows it.
            self.unreflected = [
                (max(start, watermark), data[max(0, watermark - start) :])
                for start, data in self.unreflected
                if start + len(data) > watermark
            ]

    def export(self) -> tuple[OrderRange, ...]:
        """All that is held, for an answer to a NewPrimaryView: what touches is joined."""
        joined: list[OrderRange] = []
        for piece in sorted(self.pieces, key=lambda p: (p.view, p.start)):
            last = joined[-1] if joined else None
            if last is not None and last.view == piece.view and piece.start <= last.end:
                data = last.data + piece.data[last.end - piece.start :]
                joined[-1] = OrderRange(piece.view, piece.view_start, last.start, data)
            else:
                joined.append(piece)
        return tuple(joined[-_RANGES_MAX:])

    def clear(self) -> None:
        """The last connection with that group is over: all of its members have all of this."""
        self.pieces = []
        self.unreflected = []
        self.waits = True

    @property
    def end(self) -> int:
        return max((piece.end for piece in self.pieces), default=0)

    @property
    def held_bytes(self) -> int:
        return sum(len(piece.data) for piece in self.pieces)


def _beyond(piece: OrderRange, watermark: int) -> OrderRange:
    if piece.start >= watermark:
        return piece
    return OrderRange(piece.view, piece.view_start, watermark, piece.data[watermark - piece.start :])
