"""What a dialogue (`core.dialogue`) is lent of the group at the other end of its connections."""

from __future__ import annotations

from typing import Final, NamedTuple

from llft.core.messaging.reflection import HeldOrder
from llft.identifiers import NO_VIEW, BirthId, GroupId
from llft.wire.messages import OrderRange

NOTHING_HELD: Final = -1


class Remote(NamedTuple):
    """The group at the other end of some of the connections."""

    group_id: GroupId
    birth_id: BirthId
    """Of its primary."""
    numbers: tuple[int, ...]
    held: bytes


class MadeRemote(NamedTuple):
    place: int
    base: int
    unreflected: int
    watermark: int
    committed: int
    held: bytes
    taken: list[tuple[int, int]]
    """Datagrams, by the number of the first and how many there are with the next numbers."""


def remote_of(group_id: GroupId, held: HeldOrder) -> Remote:
    pieces = held.pieces[tail_of(held) :]
    data = b"".join([piece.data for piece in pieces])
    return Remote(group_id, held.view.birth_id, _of_held(held, pieces), data)


def tail_of(held: HeldOrder) -> int:
    """Which piece begins what is held without a gap up to the end: that is lent."""
    pieces = held.pieces
    at = len(pieces) - 1
    while at > 0 and pieces[at - 1].end == pieces[at].start and pieces[at - 1].view == pieces[at].view:
        at -= 1
    return max(at, 0)


def ends_in_one_piece(held: HeldOrder) -> bool:
    """What is not reflected is in what is lent, and its end, in as many parts as it may be; and all of that
    is of the view that is believed."""
    if held.view == NO_VIEW:
        return False
    if not held.pieces:
        return not held.unreflected
    first, end = held.pieces[tail_of(held)], held.pieces[-1].end
    reached = held.unreflected[0][0] if held.unreflected else end
    if first.view != held.view or reached < first.start:
        return False
    for start, data in held.unreflected:
        if start != reached:
            return False
        reached = start + len(data)
    return reached == end


def _of_held(held: HeldOrder, pieces: list[OrderRange]) -> tuple[int, ...]:
    if not pieces:
        return (NOTHING_HELD, NOTHING_HELD, held.watermark, held.committed, held.limit_bytes)
    start, end = pieces[0].start, pieces[-1].end
    unreflected = held.unreflected[0][0] if held.unreflected else end
    left_bytes = held.limit_bytes - (held.held_bytes - (end - start))
    return (start, unreflected, held.watermark, held.committed, left_bytes)


def take_held(held: HeldOrder, made: MadeRemote) -> None:
    base, unreflected = made.base, made.unreflected
    before = [piece for piece in held.pieces[: tail_of(held)] if piece.end > made.watermark]
    held.watermark, held.committed = made.watermark, made.committed
    if base == NOTHING_HELD:
        held.pieces, held.unreflected = before, []
        return
    lent = [OrderRange(held.view, held.view_start, base, made.held)] if made.held else []
    held.pieces = before + lent
    rest = made.held[unreflected - base :]
    held.unreflected = [(unreflected, rest)] if rest else []
