"""Mutexes in ordered mode (paper, Multi-Threading: the Consistent Multi-Threading Service).

At the primary every claim, trylock and release makes an entry when it completes; a claim whose time passes
makes one that says so. A backup performs them in the order of the entries, and attempts none that
failed. Laws:

* A release hands the mutex to the waiter that came first: its claim is the next entry of that mutex.
* N counts the entries of a mutex (line 26); of a *passing* one (`operations.PASSING_MUTEX`), those since its
  last release. Programs make mutexes for a single wait (condition variables do), and a count for each that
  ever was would be state without end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from llft.core.determinizer.mutex import DONE, NOT_DONE, NOT_HELD, MutexTable
from llft.core.determinizer.operations import PASSING_MUTEX, Claim, Release, Result, TryClaim
from llft.core.determinizer.outside import BLOCKED, Outside, Stage
from llft.core.determinizer.reproduction import diverged
from llft.identifiers import ThreadId
from llft.wire.order import MUTEX, Entry

Attempted = Result | Literal[Stage.BLOCKED]


class Claims:
    """`attempt` functions are the primary's, `reproduce` functions a backup's."""

    def __init__(
        self, outside: Outside, mutexes: MutexTable, resume: Callable[[ThreadId, Result], None]
    ) -> None:
        self.outside = outside
        self.mutexes = mutexes
        self._resume = resume

    def attempt_claim(self, thread: ThreadId, operation: Claim) -> Attempted:
        outside, mutex = self.outside, operation.mutex
        claimed = self.mutexes.claim(mutex, thread)
        if not claimed and (operation.timeout_ns < 0 or outside.deadlines[thread] > outside.now_ns):
            self.mutexes.wait(mutex, thread)
            return BLOCKED
        if not claimed:
            self.mutexes.give_up(mutex, thread)
        outside.deadlines.pop(thread, None)
        outside.record_counted(MUTEX, thread, mutex, DONE if claimed else NOT_DONE)
        return claimed

    def attempt_try_claim(self, thread: ThreadId, operation: TryClaim) -> Attempted:
        claimed = self.mutexes.claim(operation.mutex, thread)
        self.outside.record_counted(MUTEX, thread, operation.mutex, DONE if claimed else NOT_DONE)
        return claimed

    def attempt_release(self, thread: ThreadId, operation: Release) -> Attempted:
        outside, mutex = self.outside, operation.mutex
        held = self.mutexes.is_held(mutex)
        outside.record_counted(MUTEX, thread, mutex, DONE if held else NOT_DONE)
        self._forget_count(mutex)
        if not held:
            return NOT_HELD
        heir = self.mutexes.release(mutex)
        if heir is not None:
            outside.deadlines.pop(heir, None)
            outside.record_counted(MUTEX, heir, mutex, DONE)
            self._resume(heir, True)
        return True

    def reproduce_claim(self, thread: ThreadId, operation: Claim, entry: Entry) -> Result:
        self.outside.deadlines.pop(thread, None)
        if entry[5] == NOT_DONE:
            if operation.timeout_ns < 0:
                raise diverged(thread, operation, entry)
            return False
        return self._claim(thread, operation, entry)

    def reproduce_try_claim(self, thread: ThreadId, operation: TryClaim, entry: Entry) -> Result:
        """Without an attempt if the primary's failed (paper, Multi-Threading)."""
        return False if entry[5] == NOT_DONE else self._claim(thread, operation, entry)

    def _claim(self, thread: ThreadId, operation: Claim | TryClaim, entry: Entry) -> Result:
        if entry[5] != DONE or not self.mutexes.claim(operation.mutex, thread):
            raise diverged(thread, operation, entry)
        return True

    def reproduce_release(self, thread: ThreadId, operation: Release, entry: Entry) -> Result:
        if self.mutexes.is_held(operation.mutex) != (entry[5] == DONE):
            raise diverged(thread, operation, entry)
        self._forget_count(operation.mutex)
        if entry[5] == NOT_DONE:
            return NOT_HELD
        self.mutexes.release(operation.mutex)
        return True

    def _forget_count(self, mutex: int) -> None:
        if mutex >= PASSING_MUTEX:
            self.outside.counts.pop((MUTEX, mutex), None)
