"""Under the token, the operations whose results follow from the program: they make and need no entries.

Mutexes, threads, yields, and the beginning of every wait that is certain (Sleep, Park). What a
thread gets from outside, and when the outside wakes it, is `token.TokenEngine`'s part.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llft.core.determinizer.engine import Engine, unsupported
from llft.core.determinizer.mutex import NOT_HELD
from llft.core.determinizer.operations import (
    Claim,
    Operation,
    Park,
    Release,
    Result,
    Sleep,
    Spawn,
    TryClaim,
    Unpark,
    Yield,
)
from llft.core.determinizer.outside import Outside
from llft.core.determinizer.parking import Parking
from llft.core.determinizer.scheduler import QUANTUM_CALLS, TokenScheduler
from llft.identifiers import ThreadId


class TokenThreads(Engine):
    def __init__(self, outside: Outside, quantum_calls: int = QUANTUM_CALLS) -> None:
        super().__init__(outside)
        self.scheduler = TokenScheduler(quantum_calls)
        self._parking = Parking(self.scheduler, outside)
        self._handlers: dict[type, Callable[[ThreadId, Any], None]] = {
            Claim: self._on_claim,
            TryClaim: self._on_try_claim,
            Release: self._on_release,
            Yield: self._on_yield,
            Sleep: self._on_sleep,
            Park: self._on_park,
            Unpark: self._on_unpark,
            Spawn: self._on_spawn,
        }

    @property
    def asleep(self) -> dict[ThreadId, Operation]:
        """Those that wait for other threads only, with the operations they wait in."""
        return self._parking.asleep

    def _on_sleep(self, thread: ThreadId, operation: Sleep) -> None:
        self.outside.set_deadline(thread, operation.duration_ns)
        self._park(thread, operation)

    def _on_park(self, thread: ThreadId, operation: Park) -> None:
        if operation.timeout_ns == 0:
            self._complete(thread, False)
        else:
            self._wait(thread, operation, operation.timeout_ns)

    def _wait(self, thread: ThreadId, operation: Operation, timeout_ns: int) -> None:
        """Certainly blocked: for a time, or until another thread does something."""
        if timeout_ns < 0:
            self._parking.asleep[thread] = operation
            self.scheduler.stop()
        else:
            self.outside.set_deadline(thread, timeout_ns)
            self._park(thread, operation)

    def _on_unpark(self, thread: ThreadId, operation: Unpark) -> None:
        self._complete(thread, self._parking.unpark(operation.thread, self.parked))

    def _on_claim(self, thread: ThreadId, operation: Claim) -> None:
        if operation.timeout_ns >= 0:
            raise unsupported(operation)  # that the time passed would be news from outside: Park knows it
        if self.mutexes.claim(operation.mutex, thread):
            self._complete(thread, True)
        else:
            self.mutexes.wait(operation.mutex, thread)
            self.scheduler.stop()

    def _on_try_claim(self, thread: ThreadId, operation: TryClaim) -> None:
        self._complete(thread, self.mutexes.claim(operation.mutex, thread))

    def _on_release(self, thread: ThreadId, operation: Release) -> None:
        if not self.mutexes.is_held(operation.mutex):
            self._complete(thread, NOT_HELD)
            return
        heir = self.mutexes.release(operation.mutex)
        if heir is not None:
            self.scheduler.enqueue(("resume", heir, True))
        self._complete(thread, True)

    def _on_yield(self, thread: ThreadId, operation: Yield) -> None:
        self.scheduler.enqueue(("resume", thread, None))
        self.scheduler.stop()

    def _on_spawn(self, thread: ThreadId, operation: Spawn) -> None:
        self.last_thread += 1
        self.scheduler.enqueue(("start", self.last_thread, operation.argument))
        self._complete(thread, self.last_thread)

    def _complete(self, thread: ThreadId, result: Result) -> None:
        """The running thread goes on with the result, unless its quantum is used up."""
        if self.scheduler.spend():
            self.scheduler.enqueue(("resume", thread, result))
            self.scheduler.stop()
        else:
            self.completions.append(("resume", thread, result))

    def _park(self, thread: ThreadId, operation: Operation) -> None:
        self.parked[thread] = operation
        if self.live:
            self.waiters.enter(thread, operation, tried=True)
        self.scheduler.stop()
