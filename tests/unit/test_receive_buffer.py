"""What a sender may say before its hearers tell that they have it waits in their sockets."""

from __future__ import annotations

from llft.runtime.settings import LIVE_LIMITS
from llft.runtime.transport.sockets import RECEIVE_BUFFER_BYTES


def test_a_receive_buffer_holds_a_whole_window() -> None:
    """A backup may be so far behind. Where the buffer was smaller, what it lacked was said again, and there
    was no room for that either."""
    assert LIVE_LIMITS.window_bytes <= RECEIVE_BUFFER_BYTES
