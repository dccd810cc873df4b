"""The generic algorithm at a backup (paper, determinizer figure, lines 29-41), for ordered mode.

There is one queue O.OrderInfo per operation identifier O. A thread that intercepts a call on O
is suspended until the first entry of the queue is its own. Laws:

* Entries of one O are consumed in the order in which the primary made them (lines 37-40); entries
  of different O's are not ordered with each other, which is where the concurrency comes from.
* Whenever an entry becomes the first of its queue (by arrival, line 32, or because the one before
  it was consumed), its thread is told, if it waits (line 33).
* N counts the counted entries (MUTEX, SOCKET, GENERAL) of O for any thread (line 36). READ, SEND and
  TIME carry no N: the queue's order says the same.
* A thread's entries are in its program order in the log. So if the first entry of a thread T that is
  not consumed names another O than T's call, or the N is wrong, no later entry can
  resolve it: the replica has diverged, and is told at once instead of waiting for ever.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from llft.errors import DivergenceError, InvariantError
from llft.identifiers import ThreadId
from llft.wire.order import GENERAL, MUTEX, READ, SEND, SOCKET, TIME, Entry

OperationId = tuple[int, int]
"""(SOCKET, fd) for READ, SEND and SOCKET; (MUTEX, mutex); (TIME, clock id); (GENERAL, operation)."""

COUNTED: Final = frozenset((MUTEX, SOCKET, GENERAL))

_CLASS: Final = {READ: SOCKET, SEND: SOCKET, SOCKET: SOCKET, MUTEX: MUTEX, TIME: TIME, GENERAL: GENERAL}


def operation_id_of(entry: Entry) -> OperationId:
    """O of an entry."""
    return _CLASS[entry[0]], entry[3]


class ReplayGate:
    __slots__ = ("_order_info", "_program_order", "outstanding")

    def __init__(self) -> None:
        self._order_info: dict[OperationId, deque[Entry]] = {}
        self._program_order: dict[ThreadId, deque[tuple[int, Entry, OperationId]]] = {}
        self.outstanding = 0
        """Entries appended and not consumed."""

    def append(self, entry: Entry, number: int = 0) -> ThreadId:
        """Lines 29-33. Returns T1, the thread of the first entry of O.OrderInfo. `number` is the
        entry's place in the log, for whoever keeps a journal."""
        if entry[0] not in _CLASS:
            raise InvariantError("entry_not_for_the_gate", entry=entry)
        operation_id = operation_id_of(entry)
        queue = self._order_info.get(operation_id)
        if queue is None:
            queue = self._order_info[operation_id] = deque()
        queue.append(entry)
        own = self._program_order.get(entry[2])
        if own is None:
            own = self._program_order[entry[2]] = deque()
        own.append((number, entry, operation_id))
        self.outstanding += 1
        first: ThreadId = queue[0][2]
        return first

    def intercept(self, thread: ThreadId, operation_id: OperationId, count: int) -> tuple[int, Entry] | None:
        """Lines 34-41. The entry (with its number), consumed; None: suspend the thread. `count` is N1."""
        own = self._program_order.get(thread)
        if own is None:
            return None
        number, entry, expected_id = own[0]
        if expected_id != operation_id:
            raise self._diverged(thread, operation_id, count, entry)
        queue = self._order_info[operation_id]
        if queue[0] is not entry:
            return None
        if entry[0] in COUNTED and entry[4] != count:
            raise self._diverged(thread, operation_id, count, entry)
        self._remove_first(thread, operation_id)
        return number, entry

    def first(self, operation_id: OperationId) -> ThreadId | None:
        """The thread whose turn it is on O, as far as is known."""
        queue = self._order_info.get(operation_id)
        return queue[0][2] if queue else None

    def expects(self, thread: ThreadId) -> Entry | None:
        """The thread's next entry, if one is known."""
        own = self._program_order.get(thread)
        return own[0][1] if own else None

    def turns(self, thread: ThreadId, most: int) -> list[Entry]:
        """The thread's next entries, as far as nobody else's come first on the same operation, or next."""
        found: list[Entry] = []
        passed: dict[OperationId, int] = {}
        own = self._program_order.get(thread)
        if own is None:
            return found
        for _, entry, operation_id in own:
            at, queue = passed.get(operation_id, 0), self._order_info[operation_id]
            if len(found) >= most or queue[at] is not entry:
                break
            if at + 1 < len(queue) and queue[at + 1][2] != thread:
                break
            passed[operation_id] = at + 1
            found.append(entry)
        return found

    def take_turns(self, thread: ThreadId, count: int) -> list[tuple[int, Entry]]:
        """So many of them, consumed."""
        taken: list[tuple[int, Entry]] = []
        for _ in range(count):
            number, entry, operation_id = self._program_order[thread][0]
            taken.append((number, entry))
            self._remove_first(thread, operation_id)
        return taken

    def _remove_first(self, thread: ThreadId, operation_id: OperationId) -> None:
        queue, own = self._order_info[operation_id], self._program_order[thread]
        queue.popleft()
        own.popleft()
        # Empty queues go, so that closed descriptors and ended threads leave nothing behind.
        if not queue:
            del self._order_info[operation_id]
        if not own:
            del self._program_order[thread]
        self.outstanding -= 1

    @staticmethod
    def _diverged(thread: ThreadId, operation_id: OperationId, count: int, entry: Entry) -> DivergenceError:
        return DivergenceError(
            "replica_left_the_order",
            "this replica resets and rejoins; is all shared data under a mutex?",
            operation_id=operation_id,
            thread=thread,
            count=count,
            expected=entry,
            found=operation_id,
        )
