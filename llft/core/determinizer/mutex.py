"""Mutexes: who holds them, and who waits for them, first come first served.

Token mode (D-16): claims, trylocks and releases follow from the program and the scheduler's
decisions alone, so this table needs no order entries. A release hands the mutex to the waiter
that came first, at once, so that nobody can slip in between.

Ordered mode (paper, Multi-Threading: the Consistent Multi-Threading Service): the primary keeps the
same table, and each claim, trylock and release makes an entry, the hand-off being a claim of the
heir. A backup has no waiters in the table: its threads wait for their entries instead.

A mutex may be released by a thread that does not hold it (Python's locks are used like this: a
condition variable's waiter claims a lock twice and the notifier releases it), but not when free.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final

from llft.core.determinizer.operations import Failure
from llft.identifiers import ThreadId

NOT_HELD: Final = Failure("EPERM")
"""What releasing a free mutex gives."""

DONE: Final = 1
"""The result of a MUTEX entry: claimed or released. The cheapest value to encode."""
NOT_DONE: Final = 0
"""Trylock found the mutex held, or release found it free."""


class MutexTable:
    """Only mutexes that are held take space."""

    __slots__ = ("_owners", "_waiters")

    def __init__(self) -> None:
        self._owners: dict[int, ThreadId] = {}
        self._waiters: dict[int, deque[ThreadId]] = {}

    def claim(self, mutex: int, thread: ThreadId) -> bool:
        """True if the mutex was free; it is the thread's now."""
        if mutex in self._owners:
            return False
        self._owners[mutex] = thread
        return True

    def wait(self, mutex: int, thread: ThreadId) -> None:
        """The thread stands at the end of the mutex's queue, unless it stands there already."""
        waiters = self._waiters.setdefault(mutex, deque())
        if thread not in waiters:
            waiters.append(thread)

    def give_up(self, mutex: int, thread: ThreadId) -> None:
        """The thread does not wait any more, if it did."""
        waiters = self._waiters.get(mutex)
        if waiters is not None and thread in waiters:
            waiters.remove(thread)
            if not waiters:
                del self._waiters[mutex]

    def is_held(self, mutex: int) -> bool:
        return mutex in self._owners

    def is_awaited(self, mutex: int) -> bool:
        return mutex in self._waiters

    def owner(self, mutex: int) -> ThreadId | None:
        return self._owners.get(mutex)

    def release(self, mutex: int) -> ThreadId | None:
        """Free a held mutex, or hand it on: returns the heir, who holds it already."""
        waiters = self._waiters.get(mutex)
        if waiters is None:
            del self._owners[mutex]
            return None
        heir = waiters.popleft()
        if not waiters:
            del self._waiters[mutex]
        self._owners[mutex] = heir
        return heir

    def tables(self) -> tuple[dict[int, ThreadId], dict[int, deque[ThreadId]]]:
        """Those that are held, and those that somebody waits for: to be looked at."""
        return self._owners, self._waiters

    @property
    def held_count(self) -> int:
        return len(self._owners)

    @property
    def waiting_count(self) -> int:
        return sum(len(waiters) for waiters in self._waiters.values())

    def capture(self, *, with_waiters: bool) -> dict[str, Any]:
        waiters = sorted(self._waiters.items()) if with_waiters else []
        return {
            "owners": [[mutex, owner] for mutex, owner in sorted(self._owners.items())],
            "waiters": [[mutex, list(threads)] for mutex, threads in waiters],
        }

    def adopt(self, state: dict[str, Any]) -> None:
        self._owners = dict(state["owners"])
        self._waiters = {mutex: deque(threads) for mutex, threads in state["waiters"]}
