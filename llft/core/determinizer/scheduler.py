"""The token's scheduler (D-16): which of the application's threads runs.

One thread runs at a time. It stops when it blocks, yields, ends, or has made a *quantum* of interposed
calls since it was picked; then the first of the run queue is picked: decision number `pick_count`.
All of this follows from the program alone, except when a thread that waits for the outside
becomes runnable. Laws:

* The outside enters the run queue only between picks: `wake` after the thread of decision k has
  stopped, and before decision k+1. Its entry is (WAKE, k, thread).
* What the thread of decision k obtains from outside while it runs carries pick = k. So in the log
  the entries of decision k are its results, then its wake-ups, then those of decision k+1.
* Therefore a backup that knows that the next entry has a pick greater than k knows all that happened
  before decision k+1, and may make it (`token.TokenEngine` does this reasoning).
* A checkpoint has what was decided since the last entry: that calls blocked, that nobody was woken before
  a pick. If the primary fails now, no later entry proves it; a successor may decide otherwise, and
  who was restored from the checkpoint would stand elsewhere. So the checkpoint is an entry itself:
  (CHECKPOINT, k, thread that runs, or NOBODY). Who consumes it stands where the primary stood.

A thread that used up its quantum stops even if nobody else is runnable, because only then the
outside can enter.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final, Literal

from llft.core.determinizer.reproduction import diverged
from llft.errors import InvariantError
from llft.identifiers import ThreadId
from llft.wire.order import CHECKPOINT, Entry

What = Literal["start", "resume", "retry", "repeat"]
Runnable = tuple[What, ThreadId, object]
""""start" with the argument, "resume" with the result, "retry" with the operation that was blocked. "repeat":
the thread stands in a call of which this core does not know (`resumption`)."""

QUANTUM_CALLS: Final = 64
NOBODY: Final = 0


class TokenScheduler:
    __slots__ = ("calls", "pick_count", "quantum_calls", "run_queue", "running")

    def __init__(self, quantum_calls: int = QUANTUM_CALLS) -> None:
        self.run_queue: deque[Runnable] = deque()
        self.running: ThreadId = NOBODY
        self.pick_count = 0
        self.calls = 0
        self.quantum_calls = quantum_calls

    def enqueue(self, runnable: Runnable) -> None:
        self.run_queue.append(runnable)

    def wake(self, thread: ThreadId, operation: object) -> int:
        """A blocked thread may try again; returns the pick number for its WAKE entry."""
        if self.running:
            raise InvariantError("woken_between_picks_only", running=self.running, thread=thread)
        self.run_queue.append(("retry", thread, operation))
        return self.pick_count

    def pick(self) -> Runnable:
        """Decision `pick_count + 1`: the first of the run queue runs."""
        if self.running:
            raise InvariantError("token_already_given", running=self.running)
        runnable = self.run_queue.popleft()
        self.running = runnable[1]
        self.pick_count += 1
        self.calls = 0
        return runnable

    def checkpoint(self) -> Entry:
        return (CHECKPOINT, self.pick_count, self.running)

    def has_reached(self, checkpoint: Entry) -> bool:
        """Whether this replica stands where the primary stood, or beyond it by steps that need no proof."""
        _, pick, thread = checkpoint
        if self.pick_count < pick:
            return False
        if thread == NOBODY:  # and nobody could be picked
            if self.pick_count > pick or self.run_queue:
                raise diverged(self.running, "threads run", checkpoint)
            return not self.running
        if self.pick_count == pick and self.running not in (thread, NOBODY):
            raise diverged(self.running, "another thread runs", checkpoint)
        return True

    def spend(self) -> bool:
        """Count one interposed call; True if the quantum is used up."""
        self.calls += 1
        return self.calls >= self.quantum_calls

    def is_nearly_spent(self) -> bool:
        """Whether the next call uses up the quantum."""
        return self.calls + 1 >= self.quantum_calls

    def stop(self) -> None:
        """The running thread gives the token back."""
        self.running = NOBODY

    def capture(self) -> dict[str, Any]:
        return {
            "run_queue": list(self.run_queue),
            "running": self.running,
            "pick_count": self.pick_count,
            "calls": self.calls,
            "quantum_calls": self.quantum_calls,
        }

    def adopt(self, state: dict[str, Any]) -> None:
        self.run_queue = deque(state["run_queue"])
        self.running = state["running"]
        self.pick_count = state["pick_count"]
        self.calls = state["calls"]
        self.quantum_calls = state["quantum_calls"]
