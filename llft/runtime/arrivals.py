"""Datagrams between the network and the core: taken as they come, looked at when there is time for them.

At a primary a thread that gets something to do gets it at once; the rest waits for whoever serves the network
next, as a rule that thread. Heartbeats and Helds overtake: by them a backup is known to live, and to have the
order information that replies wait for (D-10). All of it under the driver's lock.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from llft import originals
from llft.instant import MS
from llft.wire.messages import MessageType

if TYPE_CHECKING:
    from llft.runtime.driver import Driver

WAITING_AT_MOST: Final = 64  # the next ones wait in the socket, which is bounded
HEAR_INTERVAL_NS: Final = MS // 2
_OF_BACKUPS: Final = (bytes((MessageType.HEARTBEAT,)), bytes((MessageType.HELD,)))


class Arrivals:
    __slots__ = ("_driver", "_taken_ns", "waiting")

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._taken_ns = 0
        self.waiting: deque[bytes] = deque()
        """Received, and not looked at yet."""

    def clear(self) -> None:
        self.waiting.clear()

    def put(self, datagrams: list[bytes]) -> None:
        """They were taken elsewhere, before all that is taken from now on."""
        self.waiting.extend(datagrams)

    def look_at(self, *, computing: bool) -> None:
        """`computing`: a thread of the program is out, so that looking holds nobody up."""
        driver, waiting = self._driver, self.waiting
        if computing or len(waiting) < WAITING_AT_MOST:
            self._take()
        while waiting:
            if driver.application.out_count and driver.token and driver.core.live and not computing:
                return
            driver.receive(waiting.popleft())

    def look_at_waiting(self) -> None:
        """All that was taken, though a thread is out."""
        while self.waiting:
            self._driver.receive(self.waiting.popleft())

    def hear_backups(self) -> None:
        """A thread goes on, and after it maybe others that have something to do: meanwhile nobody serves the
        network. What replies wait for is looked for all the same, now and then."""
        if self._driver.core.asking.under_way and len(self.waiting) < WAITING_AT_MOST:
            if originals.monotonic_ns() - self._taken_ns > HEAR_INTERVAL_NS:
                self._take()

    def _take(self) -> None:
        self._taken_ns = originals.monotonic_ns()
        driver = self._driver
        for data in driver.network.receive():
            if data[1:2] in _OF_BACKUPS and driver.core.live:
                driver.receive(data)
            else:
                self.waiting.append(data)
