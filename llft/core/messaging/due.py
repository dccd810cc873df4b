"""When each connection is to be looked at because of time: a heap, for there may be thousands.

Timers of connections are moved with every message, mostly to a later time. That is not told here: a
connection may be in the heap too early, never too late, and is put where it belongs when its time
comes. Of several entries of a connection only the earliest, `Connection.due_ns`, counts.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final

from llft.core.messaging.connection import Connection
from llft.instant import NEVER

_OVER_NS: Final = -1


class Due:
    __slots__ = ("_heap",)

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Connection]] = []

    def arm(self, connection: Connection, at_ns: int) -> None:
        if at_ns < connection.due_ns:
            connection.due_ns = at_ns
            heappush(self._heap, (at_ns, connection.number, connection))

    def forget(self, connection: Connection) -> None:
        """It is over: no entry counts any more, and none is made."""
        connection.due_ns = _OVER_NS

    def take(self, now_ns: int) -> list[Connection]:
        """Those whose time may have come. Whoever takes them arms them again."""
        heap = self._heap
        taken = []
        while heap and heap[0][0] <= now_ns:
            at_ns, _, connection = heappop(heap)
            if connection.due_ns == at_ns:
                connection.due_ns = NEVER
                taken.append(connection)
        return taken

    def soonest(self, when: Callable[[Connection], int]) -> int:
        """The earliest time, exactly: `when` says what is true of a connection."""
        heap = self._heap
        while heap:
            at_ns, _, connection = heap[0]
            if connection.due_ns == at_ns and when(connection) <= at_ns:
                return at_ns
            heappop(heap)
            if connection.due_ns == at_ns:
                connection.due_ns = NEVER
                self.arm(connection, when(connection))
        return NEVER
