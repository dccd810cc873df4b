"""What is held of a remote group's order information, and in which order it goes back."""

from __future__ import annotations

from llft.core.messaging.reflection import HeldOrder
from llft.identifiers import BirthId, ViewId

VIEW = ViewId(1, 1, BirthId(1, 1, 1))


def holding(*pieces: tuple[int, bytes]) -> HeldOrder:
    held = HeldOrder()
    held.adopt_view(VIEW, 0)
    for start, data in pieces:
        held.hold(start, data)
    return held


def test_what_all_members_have_does_not_keep_back_what_they_lack() -> None:
    """It is one piece by then: what came later was joined to it."""
    held = holding((0, b"a" * 600), (600, b"b" * 10))
    held.on_watermark(600)
    held.reflect_again()
    assert held.next_reflection(200) == (600, b"b" * 10)
    assert held.held_bytes == 10


def test_a_watermark_cuts_what_waits_to_be_reflected() -> None:
    held = holding((0, b"abcdef"))
    held.on_watermark(4)
    held.hold(4, b"efgh")
    assert held.next_reflection(100) == (4, b"efgh")
    assert held.next_reflection(100) == (0, b"")


def test_an_answer_begins_where_the_members_may_differ() -> None:
    held = holding((0, b"abcdef"), (9, b"xyz"))
    held.on_watermark(4)
    assert [(piece.start, piece.data) for piece in held.export()] == [(4, b"ef"), (9, b"xyz")]
    held.on_watermark(12)
    assert held.export() == ()
