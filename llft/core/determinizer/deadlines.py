"""Until when threads wait: a dictionary that knows its least value.

Thousands of threads may wait with a time limit, and the least of them is asked for after every event. So
deadlines are in a heap too, from which what is no longer true is removed when it comes to the top, or when
it is most of the heap.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Final

from llft.identifiers import ThreadId
from llft.instant import NEVER

_STALE_MIN: Final = 64


class Deadlines(dict[ThreadId, int]):
    """NEVER is a deadline, too: it says that the thread waits."""

    def __init__(self) -> None:
        super().__init__()
        self.heap: list[tuple[int, ThreadId]] = []

    def __setitem__(self, thread: ThreadId, at_ns: int) -> None:
        super().__setitem__(thread, at_ns)
        if at_ns == NEVER:
            return
        heappush(self.heap, (at_ns, thread))
        if len(self.heap) > 2 * len(self) + _STALE_MIN:
            self.heap = [(at_ns, thread) for thread, at_ns in self.items() if at_ns != NEVER]
            heapify(self.heap)

    def earliest(self) -> int:
        heap = self.heap
        while heap:
            at_ns, thread = heap[0]
            if self.get(thread) == at_ns:
                return at_ns
            heappop(heap)
        return NEVER

    def passed(self, now_ns: int) -> list[ThreadId]:
        """Whose time has come; they stay here until somebody removes them."""
        if self.earliest() > now_ns:
            return []
        due = []
        while self.earliest() <= now_ns:
            due.append(heappop(self.heap))
        for entry in due:
            heappush(self.heap, entry)
        return [thread for _, thread in due]
