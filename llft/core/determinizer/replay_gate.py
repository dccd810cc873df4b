"""The generic algorithm at a backup (paper, determinizer figure, lines 29-41), for ordered mode.

There is one queue O.OrderInfo per operation identifier O. A thread that intercepts a call on O
is suspended until the first entry of the queue is its own. Laws:

* Entries of one O are consumed in the order in which the primary made them (lines 37-40); entries
  of different O's are not ordered with each other, which is where the concurrency comes from.
* Whenever an entry becomes the first of its queue (by arrival, line 32, or because the one before
  it was consumed), its thread is told, if it waits (line 33).
* N counts the counted entries (MUTEX, SOCKET, GENERAL) of O for any thread (line 36). READ, SEND and
  TIME carry no N: the queue's order says the same.
* Claims and releases of one mutex that one thread has made one after the other come as one *turn*, and are
  in the queues as one: all is as if they were as many entries.
* A thread's entries are in its program order in the log. So if the first entry of a thread T that is
  not consumed names another O than T's call, or the N is wrong, no later entry can
  resolve it: the replica has diverged, and is told at once instead of waiting for ever.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from llft.errors import DivergenceError, InvariantError
from llft.identifiers import ThreadId
from llft.wire.order import GENERAL, MUTEX, READ, SEND, SOCKET, TIME, Entry

ONE: Final[list[int]] = []
"""In the place of counts: of an entry that stands for itself."""

OperationId = tuple[int, int]
"""(SOCKET, fd) for READ, SEND and SOCKET; (MUTEX, mutex); (TIME, clock id); (GENERAL, operation)."""

COUNTED: Final = frozenset((MUTEX, SOCKET, GENERAL))

_CLASS: Final = {READ: SOCKET, SEND: SOCKET, SOCKET: SOCKET, MUTEX: MUTEX, TIME: TIME, GENERAL: GENERAL}


def operation_id_of(entry: Entry) -> OperationId:
    """O of an entry."""
    return _CLASS[entry[0]], entry[3]


class Turn:
    """An entry, or claims and releases of one mutex (MUTEX entries that differ in N alone) that stand behind
    one another in the log. `entry`, `number` and `at` are of the first that is not consumed."""

    __slots__ = ("at", "counts", "entry", "number", "operation_id")

    def __init__(self, number: int, entry: Entry, counts: list[int]) -> None:
        """`counts`: N of them all, or ONE."""
        self.number = number
        self.entry = entry
        self.counts = counts
        self.at = 0
        self.operation_id: OperationId = operation_id_of(entry)

    @property
    def size(self) -> int:
        return (len(self.counts) or 1) - self.at

    def pass_on(self, count: int) -> None:
        """So many are consumed, and not all."""
        self.at += count
        self.number += count
        entry = self.entry
        self.entry = (*entry[:4], self.counts[self.at], entry[5])


class ReplayGate:
    __slots__ = ("_order_info", "_program_order", "outstanding")

    def __init__(self) -> None:
        self._order_info: dict[OperationId, deque[Turn]] = {}
        self._program_order: dict[ThreadId, deque[Turn]] = {}
        self.outstanding = 0
        """Entries appended and not consumed."""

    def append(self, entry: Entry, number: int = 0, counts: list[int] = ONE) -> ThreadId:
        """Lines 29-33. Returns T1, the thread of the first entry of O.OrderInfo. `number` is the
        entry's place in the log, for whoever keeps a journal; `counts` are of all entries of a turn."""
        if entry[0] not in _CLASS:
            raise InvariantError("entry_not_for_the_gate", entry=entry)
        turn = Turn(number, entry, counts)
        operation_id = turn.operation_id
        queue = self._order_info.get(operation_id)
        if queue is None:
            queue = self._order_info[operation_id] = deque()
        queue.append(turn)
        own = self._program_order.get(entry[2])
        if own is None:
            own = self._program_order[entry[2]] = deque()
        own.append(turn)
        self.outstanding += turn.size
        first: ThreadId = queue[0].entry[2]
        return first

    def intercept(self, thread: ThreadId, operation_id: OperationId, count: int) -> tuple[int, Entry] | None:
        """Lines 34-41. The entry (with its number), consumed; None: suspend the thread. `count` is N1."""
        own = self._program_order.get(thread)
        if own is None:
            return None
        turn = own[0]
        number, entry = turn.number, turn.entry
        if turn.operation_id != operation_id:
            raise self._diverged(thread, operation_id, count, entry)
        if self._order_info[operation_id][0] is not turn:
            return None
        if entry[0] in COUNTED and entry[4] != count:
            raise self._diverged(thread, operation_id, count, entry)
        self._consume(turn, 1)
        return number, entry

    def first(self, operation_id: OperationId) -> ThreadId | None:
        """The thread whose turn it is on O, as far as is known."""
        queue = self._order_info.get(operation_id)
        return queue[0].entry[2] if queue else None

    def expects(self, thread: ThreadId) -> Entry | None:
        """The thread's next entry, if one is known."""
        own = self._program_order.get(thread)
        return own[0].entry if own else None

    def turns(self, thread: ThreadId, most: int) -> Iterator[tuple[Entry, list[int]]]:
        """The thread's next entries, as far as nobody else's come first on the same operation, or next: of
        each turn the first of them, and N of all, or ONE. One by one, for there may be many more than are
        wanted."""
        passed: dict[OperationId, int] = {}
        own = self._program_order.get(thread)
        if own is None:
            return
        for turn in own:
            at, queue = passed.get(turn.operation_id, 0), self._order_info[turn.operation_id]
            if queue[at] is not turn:
                break
            is_last = at + 1 < len(queue) and queue[at + 1].entry[2] != thread
            size = min(turn.size - is_last, most)
            if size:
                counts = turn.counts
                yield turn.entry, counts and counts[turn.at : turn.at + size]
            most -= size
            if size < turn.size:
                break
            passed[turn.operation_id] = at + 1

    def take_turns(self, thread: ThreadId, count: int) -> list[tuple[int, Entry, list[int]]]:
        """So many of them, consumed: of each turn number and first entry, and N of all, or ONE."""
        taken: list[tuple[int, Entry, list[int]]] = []
        while count:
            turn = self._program_order[thread][0]
            size = min(turn.size, count)
            counts = turn.counts
            taken.append((turn.number, turn.entry, counts and counts[turn.at : turn.at + size]))
            self._consume(turn, size)
            count -= size
        return taken

    def _consume(self, turn: Turn, count: int) -> None:
        """So many of the turn, which is the first of its queue and the next one of its thread."""
        self.outstanding -= count
        if count < turn.size:
            turn.pass_on(count)
            return
        operation_id, thread = turn.operation_id, turn.entry[2]
        queue, own = self._order_info[operation_id], self._program_order[thread]
        queue.popleft()
        own.popleft()
        # Empty queues go, so that closed descriptors and ended threads leave nothing behind.
        if not queue:
            del self._order_info[operation_id]
        if not own:
            del self._program_order[thread]

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
