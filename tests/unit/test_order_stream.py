"""What a primary's messages carry of its order stream."""

from __future__ import annotations

from llft.core.messaging.order_stream import OrderStream


def test_a_new_primary_carries_what_members_may_lack() -> None:
    stream = OrderStream()
    stream.append(b"0123456789")
    stream.mark_reflected(0, 8)
    stream.reset_reflected(4)
    assert stream.suffix() == b"456789"


def test_what_members_had_of_a_history_cut_short_counts_for_nothing_beyond_its_end() -> None:
    """They had ten, and nobody could repeat more than six: what is recorded next is carried all the same, or
    a reply would go out without what it depends on, and wait for a commit that does not come."""
    stream = OrderStream()
    stream.append(b"0123456789")
    stream.truncate(6)
    stream.reset_reflected(10)
    assert stream.unreflected == 6
    stream.append(b"abc")
    assert stream.suffix() == b"abc"
