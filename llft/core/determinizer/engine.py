"""What the two thread modes share: the sources of results, the counts, the completions.

An engine is driven by the facade (`determinizer.Determinizer`, whose docstring says what each call
means) and differs from the other one only in which thread may go on when.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal

from llft.core.determinizer.mutex import MutexTable
from llft.core.determinizer.operations import Operation, Result
from llft.core.determinizer.outside import BLOCKED, Outside, Stage
from llft.core.determinizer.reproduction import Reproduction
from llft.core.determinizer.waiters import Waiters
from llft.errors import InvariantError, UnsupportedOperationError
from llft.identifiers import ThreadId
from llft.instant import NEVER
from llft.wire.order import Entry

Completion = tuple[Literal["resume", "start", "repeat"], ThreadId, object]

MAIN_THREAD: ThreadId = 1


class Engine:
    """`parked` are the threads that wait for the outside, with the operations they wait in; at a primary
    `waiters` says which of them are to be tried."""

    audited: ClassVar[bool] = False
    """For tests: compare with what trying all parked threads would give."""

    def __init__(self, outside: Outside) -> None:
        self.outside = outside
        self._is_audited = self.audited
        self.reproduction = Reproduction(outside)
        self.waiters = Waiters(outside)
        self.mutexes = MutexTable()
        self.live = False
        self.held = False
        self.rests = False
        """It went live in this step, and nobody could go on: all are tried when anything happens."""
        self.completions: list[Completion] = []
        self.parked: dict[ThreadId, Operation] = {}
        self.last_thread: ThreadId = 0
        self.followed_count = 0
        self.consumed_count = 0
        self.on_consumed: Callable[[int, Entry], None] | None = None

    @property
    def caught_up(self) -> bool:
        return self.followed_count == self.consumed_count

    def start(self) -> None:
        raise NotImplementedError

    def invoke(self, thread: ThreadId, operation: Operation, now_ns: int) -> None:
        raise NotImplementedError

    def at_once(self, thread: ThreadId, operation: Operation, now_ns: int) -> Result | Literal[Stage.BLOCKED]:
        """`invoke`, for a call that can be completed then and there: the result. BLOCKED: nothing has been
        done, and it is to be invoked."""
        return BLOCKED

    def thread_ended(self, thread: ThreadId) -> None:
        raise NotImplementedError

    def poke(self, now_ns: int) -> None:
        raise NotImplementedError

    def follow(self, entry: Entry) -> None:
        raise NotImplementedError

    def follow_all(self, entries: list[Entry]) -> None:
        for entry in entries:
            self.follow(entry)

    def follow_locks(self, first: Entry, counts: list[int]) -> None:
        """The same for entries of a mutex that differ in their counts alone."""
        self.follow_all([(*first[:4], count, first[5]) for count in counts])

    def go_live(self, now_ns: int, *, connected: bool) -> None:
        """Results come from outside from now on, and nobody has been tried. Where nobody is connected and no
        time has passed, nobody could go on."""
        self.live, self.outside.now_ns = True, now_ns
        self.outside.descriptors.go_live()
        until: dict[ThreadId, int] = self.outside.deadlines
        idle = not connected and self.is_idle()
        for thread, operation in self.parked.items():
            self.waiters.enter(thread, operation, tried=False)
            idle = idle and until.get(thread, NEVER) > now_ns
        if idle:
            self.rests = True
        else:
            self.poke(now_ns)

    def is_idle(self) -> bool:
        """Nobody could go on but parked threads."""
        return False

    def audit(self) -> None:
        """All that were worth trying have been tried: no other parked thread can go on."""
        if not self._is_audited:
            return
        for thread, operation in self.parked.items():
            if not self.waiters.is_expected(thread) and self.outside.ready(thread, operation):
                raise InvariantError("left_waiting", thread=thread, operation=operation)

    def is_out(self, thread: ThreadId) -> bool:
        raise NotImplementedError

    def next_deadline(self) -> int:
        raise NotImplementedError

    def record_checkpoint(self) -> None:
        """Log what of a live engine's state the entries so far do not prove. In ordered mode that is nothing:
        a thread waits in its call until it has an entry, so where threads are follows from the log."""

    def statistics(self) -> dict[str, int]:
        return {
            "recorded": self.outside.recorded_count,
            "followed": self.followed_count,
            "consumed": self.consumed_count,
            "threads": self.last_thread,
            "parked": len(self.parked),
            "mutexes_held": self.mutexes.held_count,
            "mutex_waiters": self.mutexes.waiting_count,
        }

    def consumed(self, number: int, entry: Entry) -> None:
        self.consumed_count += 1
        if self.on_consumed is not None:
            self.on_consumed(number, entry)

    def capture(self) -> dict[str, Any]:
        """Deadlines travel as the time that remains, for every host has its own clock."""
        outside = self.outside
        now_ns = outside.now_ns
        return {
            "last_thread": self.last_thread,
            "parked": self.parked,
            "remaining": {
                thread: -1 if deadline == NEVER else max(0, deadline - now_ns)
                for thread, deadline in outside.deadlines.items()
            },
            "opened": outside.opened,
            "connecting": outside.connecting,
            "counts": outside.counts,
            "clock": outside.clock.snapshot(outside.local_clock),
            **outside.descriptors.capture(),
        }

    def adopt(self, state: dict[str, Any], now_ns: int, age_ns: int) -> None:
        outside = self.outside
        outside.now_ns = now_ns
        self.last_thread = state["last_thread"]
        self.parked = state["parked"]
        for thread, remaining_ns in state["remaining"].items():
            outside.set_deadline(thread, remaining_ns)
        outside.opened = state["opened"]
        outside.connecting = state["connecting"]
        outside.counts = state["counts"]
        outside.descriptors.adopt(state)
        local_clock = outside.local_clock
        outside.clock.restore(state["clock"], lambda clock_id: local_clock(clock_id) - age_ns)


def own_result(completions: list[Completion], thread: ThreadId) -> Result:
    """Of a call that has just been completed. The thread has not gone on: it is its only completion."""
    at = next(at for at, (what, whose, _) in enumerate(completions) if whose == thread and what == "resume")
    result: Result = completions.pop(at)[2]  # type: ignore[assignment]  # "resume" carries a result
    return result


def unsupported(operation: object) -> UnsupportedOperationError:
    return UnsupportedOperationError(
        "operation_unknown", "use the operations of llft.core.determinizer.operations", operation=operation
    )
