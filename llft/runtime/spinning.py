"""Waiting for the network by looking again and again for a while, before going to sleep.

To be woken on another core takes tens of microseconds; a reply is often there sooner. Looking costs a core,
so it is done only where it pays: where what is waited for is found before a sleep and its wake-up would be
over (`PAYS_NS`), and sooner than it comes to one that sleeps. Who does not find it so (it needs this very
core, or takes long) sleeps at once, and tries again only now and then, and each time in vain only half as
often. So what looking costs is bounded by what sleeping would.

States: it sleeps; it tries; it pays. Events: something was found, after so long; nothing was, for as long
as one may look (`transport.spin_us`); one has slept for so long. `llft/dialogue/looking.c` is the same for
dialogues.
"""

from __future__ import annotations

from typing import Final

from llft import originals
from llft.runtime.poller import Poller

TRIES: Final = 8
PAYS_NS: Final = 40_000
IN_VAIN_NS: Final = 60_000
LONG_NS: Final = 3 * PAYS_NS
SLEEPS_AT_LEAST: Final = 64
SLEEPS_AT_MOST: Final = 4096
WEIGHT: Final = 8
SLEPT_NS: Final = 3_000


class Spinning:
    __slots__ = ("_between", "_found_ns", "_pays", "_sleeps", "_slept_ns", "_tried", "limit_ns")

    def __init__(self, limit_ns: int = 0) -> None:
        self.limit_ns = limit_ns
        self._pays = False
        self._tried = self._sleeps = self._found_ns = self._slept_ns = 0
        self._between = SLEEPS_AT_LEAST

    def poll(self, poller: Poller, wait_ns: int) -> None:
        """As `Poller.poll`."""
        if not self.limit_ns:
            poller.poll(wait_ns)
        elif not self._is_promising():
            began_ns = originals.monotonic_ns()
            poller.poll(wait_ns)
            if (took_ns := originals.monotonic_ns() - began_ns) >= SLEPT_NS:
                self._slept_ns = _weighed(self._slept_ns, took_ns)
        elif not self._look(poller, min(self.limit_ns, wait_ns)):
            poller.poll(max(0, wait_ns - self.limit_ns))

    def _is_promising(self) -> bool:
        if self._pays:
            return True
        self._sleeps += 1
        if self._sleeps < self._between:
            return False
        self._sleeps = 0
        return True

    def _look(self, poller: Poller, limit_ns: int) -> bool:
        """What is there already, one's own beat for example, says nothing of how long others take."""
        if poller.poll(0):
            return True
        began_ns = now_ns = originals.monotonic_ns()
        while not (found := poller.poll(0)) and now_ns < began_ns + limit_ns:
            now_ns = originals.monotonic_ns()
        self._has_looked(found=found, took_ns=originals.monotonic_ns() - began_ns)
        return found

    def _has_looked(self, *, found: bool, took_ns: int) -> None:
        if not self._pays and not found:
            self._sleep_longer()
            return
        if not self._pays:
            self._pays, self._tried, self._found_ns = True, 0, took_ns
        self._found_ns = _weighed(self._found_ns, took_ns if found else IN_VAIN_NS)
        self._tried = min(self._tried + 1, TRIES)
        if self._tried < TRIES:
            return
        if self._found_ns <= PAYS_NS and self._found_ns <= self._slept_ns:
            self._between = SLEEPS_AT_LEAST // 2
        else:
            self._sleep_longer()

    def _sleep_longer(self) -> None:
        self._between = min(2 * self._between, SLEEPS_AT_MOST)
        self._pays, self._sleeps = False, 0


def _weighed(mean_ns: int, took_ns: int) -> int:
    return mean_ns + (min(took_ns, LONG_NS) - mean_ns) // WEIGHT
