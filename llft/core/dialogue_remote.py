"""What a dialogue (`core.dialogue`) is lent of the group at the other end of its connections."""

from __future__ import annotations

from typing import Final, NamedTuple

from llft.core.messaging.reflection import HeldOrder
from llft.identifiers import NO_VIEW, BirthId, GroupId

NOTHING_HELD: Final = -1


class Remote(NamedTuple):
    """The group at the other end of some of the connections."""

    group_id: GroupId
    birth_id: BirthId
    """Of its primary."""
    numbers: tuple[int, ...]
    held: bytes


def remote_of(group_id: GroupId, held: HeldOrder) -> Remote:
    pieces = b"".join([piece.data for piece in held.pieces])
    return Remote(group_id, held.view.birth_id, _of_held(held), pieces)


def is_in_one_piece(held: HeldOrder) -> bool:
    """What is held is of the view that is believed, without a gap; what is not reflected is its end."""
    if held.view == NO_VIEW:
        return False
    end = held.pieces[0].start if held.pieces else 0
    for piece in held.pieces:
        if piece.view != held.view or piece.start != end:
            return False
        end = piece.end
    if not held.unreflected:
        return True
    start, data = held.unreflected[0]
    return len(held.unreflected) == 1 and bool(held.pieces) and start + len(data) == end


def _of_held(held: HeldOrder) -> tuple[int, ...]:
    if not held.pieces:
        return (NOTHING_HELD, NOTHING_HELD, held.watermark, held.committed, held.limit_bytes)
    end = held.pieces[-1].end
    unreflected = held.unreflected[0][0] if held.unreflected else end
    return (held.pieces[0].start, unreflected, held.watermark, held.committed, held.limit_bytes)
