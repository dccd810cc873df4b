"""Token mode (D-16): one thread at a time, switched by deterministic rules; only the outside is logged.

The engine is in one of three situations, and `_settle` goes on from each until it has to wait:

    a thread runs                   wait for its next invoke or its end
    a thread runs, call pending     its outside operation waits for a result (`_resolve`)
    nobody runs                     wake-ups, then the next scheduling decision (`_decide`)

Primary and backup run the same code. They differ in where results come from and in what a
backup must know before it goes on. With k the number of the last decision, the head of the backup's
log proves (`scheduler` has the laws):

    head              a call is pending                   nobody runs
    none              wait                                wait, unless no thread is parked
    a result, pick k  the call's result                   divergence
    WAKE, pick k      the call blocked: park              wake that thread
    CHECKPOINT, k     if nobody ran there: park           go on
    pick > k          the call blocked: park              make decision k+1
    pick < k          divergence                          divergence

If no thread is parked, nothing from outside can become runnable, and decision k+1 is certain
without the log. (Threads *asleep* wait for other threads only: they are not among the parked.) While
`held`, a live engine leaves pending calls pending and admits no wake-ups: no entry is made, but
threads go on that need none.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Literal

from llft.core.determinizer.engine import MAIN_THREAD, unsupported
from llft.core.determinizer.immediate import may_be_at_once
from llft.core.determinizer.operation_ids import parking_id
from llft.core.determinizer.operations import Obtain, Operation, Park, Receive, Result, Select, Sleep
from llft.core.determinizer.outside import BLOCKED, MORE, Outside, Stage
from llft.core.determinizer.reproduction import diverged
from llft.core.determinizer.scheduler import QUANTUM_CALLS
from llft.core.determinizer.token_threads import TokenThreads
from llft.errors import MisuseError
from llft.identifiers import ThreadId
from llft.instant import NEVER
from llft.wire.order import CHECKPOINT, PRIMARY_VIEW, WAKE, Entry


class TokenEngine(TokenThreads):
    def __init__(self, outside: Outside, quantum_calls: int = QUANTUM_CALLS) -> None:
        super().__init__(outside, quantum_calls)
        self._pending: Operation | None = None
        """The running thread's outside operation that waits for a result."""
        self.log: deque[Entry] = deque()
        self._outside_changed = False
        self._attempts = outside.attempts
        self._handlers.update(dict.fromkeys(outside.attempts, self._on_outside))
        self._handlers[Select] = self._on_select
        self._handlers[Receive] = self._on_receive

    def start(self) -> None:
        self.last_thread = MAIN_THREAD
        self.scheduler.enqueue(("start", MAIN_THREAD, None))
        self._settle()

    def invoke(self, thread: ThreadId, operation: Operation, now_ns: int) -> None:
        self.outside.now_ns = now_ns
        scheduler = self.scheduler
        pending = self._pending
        if thread != scheduler.running or pending is not None:
            raise _without_token(thread, operation)
        handler = self._handlers.get(type(operation))
        if handler is None:
            raise unsupported(operation)
        handler(thread, operation)
        if not scheduler.running or self._pending is not None:
            self._settle()

    def at_once(self, thread: ThreadId, operation: Operation, now_ns: int) -> Result | Literal[Stage.BLOCKED]:
        """The running thread keeps the token, and nobody else is concerned."""
        scheduler, kind = self.scheduler, type(operation)
        if thread != scheduler.running or self._pending is not None or scheduler.is_nearly_spent():
            return BLOCKED
        if not may_be_at_once(operation, live=self.live):
            return BLOCKED
        self.outside.now_ns = now_ns
        if isinstance(operation, Select):
            self.outside.set_deadline(thread, operation.timeout_ns)
        if not self.live:
            result = self._reproduced(thread, operation)
        elif self.held:
            return BLOCKED
        else:
            result = self._attempts[kind](thread, operation)
        if result is not BLOCKED:
            scheduler.calls += 1
        return result

    def _reproduced(self, thread: ThreadId, operation: Operation) -> Result | Literal[Stage.BLOCKED]:
        """At a backup: the result, if it is at the head of the log."""
        self.pass_barriers()
        if not self.log or self.log[0][0] >= WAKE or self.log[0][1] != self.scheduler.pick_count:
            return BLOCKED
        result = self.reproduction.reproduce(thread, operation, self.log[0])
        assert result is not MORE  # none of these takes several steps
        self.consume()
        self.pass_barriers()
        return result

    def thread_ended(self, thread: ThreadId) -> None:
        if thread != self.scheduler.running or self._pending is not None:
            raise _without_token(thread, None)
        self.outside.counts.pop(parking_id(thread), None)  # under the token only the thread itself counted
        self.scheduler.stop()
        self.waiters.forget(thread)
        self._settle()

    def poke(self, now_ns: int) -> None:
        self.outside.now_ns = now_ns
        self._outside_changed = True
        if self.live:
            self._settle()

    def is_idle(self) -> bool:
        return not self.scheduler.running and not self.scheduler.run_queue

    def next_deadline(self) -> int:
        """While a thread runs, nothing can be woken: deadlines are looked at when it stops."""
        if not self.live or self.held or self.scheduler.running:
            return NEVER
        return self.outside.deadlines.earliest()

    def follow(self, entry: Entry) -> None:
        self.log.append(entry)
        self.followed_count += 1
        self._settle()

    def follow_all(self, entries: list[Entry]) -> None:
        self.log.extend(entries)
        self.followed_count += len(entries)
        self._settle()

    def is_out(self, thread: ThreadId) -> bool:
        return thread == self.scheduler.running and self._pending is None

    def statistics(self) -> dict[str, int]:
        scheduler = self.scheduler
        return super().statistics() | {
            "picks": scheduler.pick_count,
            "runnable": len(scheduler.run_queue),
            "asleep": len(self._parking.asleep),
        }

    def _on_outside(self, thread: ThreadId, operation: Operation) -> None:
        if not self.live or self.held:
            self._pending = operation
            return
        result = self._attempts[type(operation)](thread, operation)
        if result is BLOCKED:
            self._park(thread, operation)
        else:
            self._complete(thread, result)

    def _on_receive(self, thread: ThreadId, operation: Receive) -> None:
        if operation.limit <= 0:
            self._complete(thread, b"")  # nothing was asked for: no entry
        else:
            self._on_outside(thread, operation)

    def _on_select(self, thread: ThreadId, operation: Select) -> None:
        if operation.fds or operation.writing or operation.timeout_ns == 0:
            self.outside.set_deadline(thread, operation.timeout_ns)
            self._on_outside(thread, operation)
        else:
            self._wait(thread, operation, operation.timeout_ns)

    def _settle(self) -> None:
        while True:
            self.pass_barriers()
            if self.scheduler.running:
                if self._pending is None or not self._resolve(self._pending):
                    return
            elif not self._decide():
                return

    def pass_barriers(self) -> None:
        """View changes at the head of the log: everything before them is consumed. And checkpoints."""
        log = self.log
        while log:
            head = log[0]
            if head[0] >= PRIMARY_VIEW:
                self.outside.connections.passed(head)
            elif head[0] != CHECKPOINT or not self.scheduler.has_reached(head):
                return
            self.consume()

    def _resolve(self, operation: Operation) -> bool:
        """Find out about the pending call. False: not yet."""
        thread = self.scheduler.running
        if self.live:
            if self.held:
                return False
            self._pending = None
            self._on_outside(thread, operation)
            return True
        if not self.log:
            return False
        head, pick = self.log[0], self.scheduler.pick_count
        if head[0] < WAKE and head[1] == pick:
            result = self.reproduction.reproduce(thread, operation, head)
            self.consume()
            if result is not MORE:
                self._pending = None
                self._complete(thread, result)
            return True
        if head[1] < pick or not self.outside.can_block(thread, operation):
            raise diverged(thread, operation, head)
        self._pending = None
        self._park(thread, operation)
        return True

    def _decide(self) -> bool:
        """Nobody runs: admit the outside, then pick. False: nothing to pick, or not yet proven."""
        if self.live:
            self._admit_ready()
        elif not self.log:
            if self.parked:
                return False
        else:
            head, pick = self.log[0], self.scheduler.pick_count
            if head[0] == WAKE and head[1] == pick:
                self._wake(head[2], head)
                self.consume()
                return True
            if head[1] <= pick or not self.scheduler.run_queue:
                raise diverged(head[2], "no thread runs, none can be picked", head)
        if not self.scheduler.run_queue:
            return False
        self._pick()
        return True

    def _pick(self) -> None:
        what, thread, value = self.scheduler.pick()
        self.outside.pick = self.scheduler.pick_count
        if what != "retry":
            self.completions.append((what, thread, value))
        elif isinstance(value, (Sleep, Park)):
            del self.outside.deadlines[thread]
            self._complete(thread, None if isinstance(value, Sleep) else False)
        else:
            self._pending = value  # type: ignore[assignment]  # "retry" carries an operation

    def _admit_ready(self) -> None:
        """External completions enter the run queue (WAKE). First parked, first woken."""
        outside = self.outside
        if self.held or not (self._outside_changed or outside.deadlines.earliest() <= outside.now_ns):
            return
        self._outside_changed = False
        for thread, operation in self.waiters.worth_trying(self.parked):
            if outside.ready(thread, operation):
                outside.record((WAKE, self._wake(thread, operation), thread))
            else:
                self.waiters.wait_for(thread, operation)
        self.audit()

    def _wake(self, thread: ThreadId, cause: object) -> int:
        operation = self.parked.pop(thread, None)
        if operation is None:
            raise diverged(thread, "not blocked", cause)
        return self.scheduler.wake(thread, operation)

    def consume(self) -> None:
        self.consumed(self.consumed_count + 1, self.log.popleft())

    def record_checkpoint(self) -> None:
        self.outside.record(self.scheduler.checkpoint())

    def capture(self) -> dict[str, Any]:
        """An Obtain that waits is captured as not invoked (`operations.Obtain` says why)."""
        asleep = self._parking.asleep
        return {
            **super().capture(),
            **self.scheduler.capture(),
            **({"asleep": asleep} if asleep else {}),
            "mode": "token",
            "mutexes": self.mutexes.capture(with_waiters=True),
            "pending": None if isinstance(self._pending, Obtain) else self._pending,
        }

    def adopt(self, state: dict[str, Any], now_ns: int, age_ns: int) -> None:
        super().adopt(state, now_ns, age_ns)
        self.mutexes.adopt(state["mutexes"])
        self.scheduler.adopt(state)
        self.outside.pick = self.scheduler.pick_count
        self._pending = state["pending"]
        self._parking.asleep = state.get("asleep", {})


def _without_token(thread: ThreadId, operation: Operation | None) -> MisuseError:
    return MisuseError(
        "thread_without_token", "run a thread only when it is resumed", thread=thread, operation=operation
    )
