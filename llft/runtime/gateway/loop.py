"""Waiting: one epoll, and alarms for what only time can end.

A handler is called with the epoll mask. What is ready is reported in one batch, in which a handler may
unregister another descriptor; that one is then not called any more, even if its number was reused in the
same batch.
"""

from __future__ import annotations

import contextlib
import heapq
import select
import time
from collections.abc import Callable, Iterable
from typing import Final

from llft.instant import MS, NEVER

Handler = Callable[[int], None]

_BATCH: Final = 512
_LONGEST_WAIT_NS: Final = 1000 * MS


class Alarm:
    """Something to be done at an instant, unless it is cancelled before."""

    __slots__ = ("action", "at_ns")

    def __init__(self, at_ns: int, action: Callable[[], None]) -> None:
        self.at_ns = at_ns
        self.action: Callable[[], None] | None = action

    def cancel(self) -> None:
        self.action = None


class Loop:
    def __init__(self, *, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self.clock = clock
        self._epoll = select.epoll()
        self._handlers: dict[int, Handler] = {}
        self._watched: dict[Handler, tuple[int, ...]] = {}
        self._alarms: list[tuple[int, int, Alarm]] = []
        self._alarm_count = 0

    def register(self, fileno: int, mask: int, handler: Handler) -> None:
        self._handlers[fileno] = handler
        self._epoll.register(fileno, mask)

    def unregister(self, fileno: int) -> None:
        """Before the descriptor is closed."""
        if self._handlers.pop(fileno, None) is not None:
            self._epoll.unregister(fileno)

    def watch(self, filenos: Iterable[int], handler: Handler) -> None:
        """For whoever manages its own descriptors: this handler reads these, and no others. Those it has
        closed have left the epoll by that."""
        handlers, wanted = self._handlers, dict.fromkeys(filenos)
        for fileno in [fileno for fileno in self._watched.get(handler, ()) if fileno not in wanted]:
            if handlers.get(fileno) == handler:
                del handlers[fileno]
                with contextlib.suppress(OSError):
                    self._epoll.unregister(fileno)
        for fileno in wanted:
            if handlers.get(fileno) != handler:
                self.register(fileno, select.EPOLLIN, handler)
        self._watched[handler] = tuple(wanted)

    def alarm(self, delay_ns: int, action: Callable[[], None]) -> Alarm:
        alarm = Alarm(self.clock() + delay_ns, action)
        self._alarm_count += 1
        heapq.heappush(self._alarms, (alarm.at_ns, self._alarm_count, alarm))
        return alarm

    def turn(self, until_ns: int) -> None:
        """Wait for something, at most until this instant, and call whom it concerns."""
        now_ns = self.clock()
        until_ns = min(until_ns, self.next_alarm(), now_ns + _LONGEST_WAIT_NS)
        self.dispatch(self._epoll.poll(max(until_ns - now_ns, 0) / 1e9, _BATCH))

    @property
    def fileno(self) -> int:
        """For whoever waits elsewhere, and has what is ready dispatched."""
        return self._epoll.fileno()

    def next_alarm(self) -> int:
        alarms = self._alarms
        while alarms and alarms[0][2].action is None:
            heapq.heappop(alarms)
        return alarms[0][0] if alarms else NEVER

    def dispatch(self, ready: list[tuple[int, int]]) -> None:
        """Call whom it concerns: descriptors, and what has happened to them."""
        handlers = self._handlers
        called = [(fileno, mask, handlers.get(fileno)) for fileno, mask in ready]
        for fileno, mask, handler in called:
            if handler is not None and handlers.get(fileno) is handler:
                handler(mask)
        self._ring()

    def close(self) -> None:
        self._handlers.clear()
        self._alarms.clear()
        self._epoll.close()

    def _ring(self) -> None:
        while self.next_alarm() <= self.clock():
            action = heapq.heappop(self._alarms)[2].action
            assert action is not None
            action()
