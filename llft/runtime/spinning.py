"""Waiting for the network by looking again and again for a while, before going to sleep.

To be woken on another core takes tens of microseconds; a reply is often there sooner. Looking costs a core
that has nothing else to do, so it is an option (`transport.spin_us`), and it adapts: where the last few looks
were all in vain (what is waited for needs this very core, or takes long), it sleeps at once, and tries again
only now and then.
"""

from __future__ import annotations

from typing import Final

from llft import originals
from llft.runtime.poller import Poller

IN_VAIN_AT_MOST: Final = 4
SLEEPS_BETWEEN: Final = 64


class Spinning:
    __slots__ = ("_in_vain", "_sleeps", "limit_ns")

    def __init__(self, limit_ns: int = 0) -> None:
        self.limit_ns = limit_ns
        self._in_vain = 0
        self._sleeps = 0

    def poll(self, poller: Poller, wait_ns: int) -> None:
        """As `Poller.poll`."""
        if self.limit_ns and self._is_promising():
            if self._look(poller, min(self.limit_ns, wait_ns)):
                self._in_vain = 0
                return
            self._in_vain += 1
            wait_ns = max(0, wait_ns - self.limit_ns)
        poller.poll(wait_ns)

    def _is_promising(self) -> bool:
        if self._in_vain < IN_VAIN_AT_MOST:
            return True
        self._sleeps += 1
        if self._sleeps < SLEEPS_BETWEEN:
            return False
        self._sleeps = 0
        return True

    def _look(self, poller: Poller, limit_ns: int) -> bool:
        until_ns = originals.monotonic_ns() + limit_ns
        while not poller.poll(0):
            if originals.monotonic_ns() >= until_ns:
                return False
        return True
