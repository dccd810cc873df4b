"""What a sender may say before its hearers tell that they have it waits in their sockets."""

from __future__ import annotations

from llft.runtime.settings import LIVE_LIMITS
from llft.runtime.transport.sockets import RECEIVE_BUFFER_BYTES


def test_a_receive_buffer_holds_a_whole_window() -> None:
    """A backup may be so far behind. Where the buffer was smaller, what it lacked was said again, and again it
    had no room for it."""
    assert RECEIVE_BUFFER_BYTES >= LIVE_LIMITS.window_bytes
