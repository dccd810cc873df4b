"""A program that catches up beside others that serve clients rests now and then.

Its threads hand over to each other all the time, and a thread of a primary that is woken up on the same
processor may wait behind them, however far back they are (`priority`): the kernel has no such thing as
"whenever nobody else wants". So whoever catches up leaves the processor by itself, after every RUN_NS, for as
long again. It rests between two calls, when it has no lock; the pacemaker, which answers the group, does not.
"""

from __future__ import annotations

from typing import Final

from llft import originals
from llft.instant import MS

RUN_NS: Final = 2 * MS
REST_S: Final = 0.002


class Resting:
    __slots__ = ("_began_ns", "over")

    def __init__(self, *, over: bool) -> None:
        self.over = over
        self._began_ns = 0

    def rest(self) -> None:
        """If it is time to."""
        if originals.monotonic_ns() - self._began_ns > RUN_NS:
            originals.sleep(REST_S)
            self._began_ns = originals.monotonic_ns()
