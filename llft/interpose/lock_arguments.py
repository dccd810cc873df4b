"""What a lock's acquire may be given, as the genuine one checks it."""

from __future__ import annotations

import _thread

TIMEOUT_MAX = _thread.TIMEOUT_MAX


def check(blocking: bool, timeout: float) -> None:
    """Of a timeout that was given."""
    if not blocking:
        raise ValueError("can't specify a timeout for a non-blocking call")
    if timeout < 0:
        raise ValueError("timeout value must be a non-negative number")
    if timeout > TIMEOUT_MAX:
        raise OverflowError("timeout value is too large")
