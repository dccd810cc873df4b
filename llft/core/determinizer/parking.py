"""Park and Unpark, in both thread modes: threads that wake one another.

Token mode (`Parking`): who is parked follows from the program and the log's WAKE entries, so neither an
Unpark nor what it completes makes an entry. It cannot come between a thread's look at its own state and
its Park, because only one thread runs. Of a timeout, the log says that it passed (WAKE). A thread
that waits without one, and for no descriptor, is *asleep*: nothing from outside can wake it.

Ordered mode (`Permits`): several threads run, so an Unpark may come before the Park that it is for. It leaves
a *permit* (one a thread, however many come), which the next Park or interruptible Select takes. The
permit of a thread is the data item O that these operations change: all of them make entries
on it, and every replica does them in one order.
"""

from __future__ import annotations

from typing import Final, Literal

from llft.core.determinizer.operation_ids import parking_id
from llft.core.determinizer.operations import Operation, Park, Result, Select, Unpark
from llft.core.determinizer.outside import BLOCKED, Outside, Stage
from llft.core.determinizer.reproduction import Reproduction, diverged
from llft.core.determinizer.scheduler import TokenScheduler
from llft.core.determinizer.sockets import UNPARKED
from llft.identifiers import ThreadId
from llft.wire.order import GENERAL, Entry

_TIMED_OUT: Final = b"\x00"
_PARKED: Final = b"\x01"
_NOT_PARKED: Final = b"\x00"
_NO_THREAD: Final = b""


def can_be_unparked(operation: Operation | None) -> bool:
    return isinstance(operation, Park) or (isinstance(operation, Select) and operation.interruptible)


def unparked(operation: Operation) -> Result:
    """What such an operation returns."""
    return True if isinstance(operation, Park) else None


class Parking:
    def __init__(self, scheduler: TokenScheduler, outside: Outside) -> None:
        self._scheduler = scheduler
        self._outside = outside
        self.asleep: dict[ThreadId, Operation] = {}

    def unpark(self, thread: ThreadId, parked: dict[ThreadId, Operation]) -> bool:
        operation = self.asleep.get(thread, parked.get(thread))
        if operation is None:
            return self._unpark_woken(thread)
        if not can_be_unparked(operation):
            return False
        if self.asleep.pop(thread, None) is None:
            del parked[thread]
            del self._outside.deadlines[thread]
        self._scheduler.enqueue(("resume", thread, unparked(operation)))
        return True

    def _unpark_woken(self, thread: ThreadId) -> bool:
        """A Select in the run queue may find nothing when its turn comes, because another thread was
        faster, and block again. So it is told now; a Park in the run queue returns in any case."""
        run_queue = self._scheduler.run_queue
        for index, (what, runnable, value) in enumerate(run_queue):
            if runnable == thread:
                if what != "retry" or not isinstance(value, Select) or not value.interruptible:
                    return False
                run_queue[index] = ("resume", thread, None)
                del self._outside.deadlines[thread]
                return True
        return False


class Permits:
    """`attempt` functions are the primary's, `reproduce` functions a backup's."""

    def __init__(self, outside: Outside, reproduction: Reproduction) -> None:
        self._outside = outside
        self._reproduction = reproduction
        self.given: set[ThreadId] = set()

    def attempt_park(self, thread: ThreadId, operation: Park) -> bool | Literal[Stage.BLOCKED]:
        outside = self._outside
        permitted = thread in self.given
        if not permitted and outside.deadlines[thread] > outside.now_ns:
            return BLOCKED
        self.given.discard(thread)
        del outside.deadlines[thread]
        self._record(thread, thread, UNPARKED if permitted else _TIMED_OUT)
        return permitted

    def attempt_select(self, thread: ThreadId, operation: Select) -> Result | Literal[Stage.BLOCKED]:
        outside = self._outside
        if not operation.interruptible or thread not in self.given:
            return outside.attempts[Select](thread, operation)
        self.given.discard(thread)
        del outside.deadlines[thread]
        self._record(thread, thread, UNPARKED)
        return None

    def give(self, thread: ThreadId, operation: Unpark, *, alive: bool, parked: bool) -> None:
        """At the primary. Nobody will take the permit of a thread that has ended."""
        data = _NO_THREAD if not alive else _PARKED if parked else _NOT_PARKED
        self._record(thread, operation.thread, data)
        if alive:
            self.given.add(operation.thread)

    def _record(self, thread: ThreadId, parked: ThreadId, data: bytes) -> None:
        kind, identifier = parking_id(parked)
        self._outside.record_counted(kind, thread, identifier, data)

    def reproduce_unpark(self, thread: ThreadId, operation: Unpark, entry: Entry) -> Result:
        if entry[5] != _NO_THREAD:
            self.given.add(operation.thread)
        return bytes(entry[5]) == _PARKED

    def reproduce_park(self, thread: ThreadId, operation: Park, entry: Entry) -> Result:
        unparked = bytes(entry[5]) == UNPARKED
        if unparked != (thread in self.given):
            raise diverged(thread, operation, entry)
        self.given.discard(thread)
        del self._outside.deadlines[thread]
        return unparked

    def reproduce_select(self, thread: ThreadId, operation: Select, entry: Entry) -> Result:
        if entry[0] != GENERAL or bytes(entry[5]) != UNPARKED:
            return self._reproduction.select(thread, operation, entry)
        self.reproduce_park(thread, Park(operation.timeout_ns), entry)
        return None
