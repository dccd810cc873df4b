"""Locks under the token: a flag, and a queue of waiters that are served in the order in which they came.

A release hands the lock to the first waiter at once, so nobody slips in between, and none of it needs an
order entry. If a waiter's time passes and the lock is granted before it runs again, it has the lock; if a
signal's handler raises in that moment, it passes the lock on. Threads that are not the program's get the
genuine locks. In ordered mode locks are `ordered_locks`.

These are classes, not functions: werkzeug and others keep `threading.Lock` as a class attribute, where a
function would become a method.
"""

from __future__ import annotations

import _thread
from collections import deque
from typing import Any

from llft import originals
from llft.core.determinizer.operations import ReadClock
from llft.errors import MisuseError
from llft.interpose import counting, passage
from llft.interpose.lock_arguments import check
from llft.interpose.ordered_locks import OrderedLock

NativeRLock = _thread.RLock
_MONOTONIC = 1

ALLOWANCE, TRYLOCK = 1024, 32
"""How many releases until the thread yields, and how many of them a failed trylock counts for. One of a lock
that the thread has itself is no waiting: so conditions find out whether they may be waited for."""


def _spend(amount: int) -> None:
    if counting.spend(amount, ALLOWANCE):
        passage.used_up()


class _Waiter:
    """One wait. A signal's handler may wait for the same lock as the thread that it interrupts."""

    __slots__ = ("granted", "thread")

    def __init__(self, thread: int) -> None:
        self.thread = thread
        self.granted = False


class Lock:
    __slots__ = ("__weakref__", "_held", "_owner", "_waiters")

    def __new__(cls) -> Any:
        if passage.current() or passage._port is None:
            return object.__new__(cls)
        return originals.allocate_lock()

    def __init__(self) -> None:
        self._held = False
        self._owner = 0
        """Number of the thread that has it; 0: that is not known."""
        self._waiters: deque[_Waiter] | None = None

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if timeout != -1:
            check(blocking, timeout)
        if not self._held:
            self._held = True
            self._owner = passage.current()
            return True
        if not blocking or timeout == 0:
            _spend(1 if not blocking and 0 < self._owner == passage.current() else TRYLOCK)
            return False
        return self._wait(timeout)

    def _wait(self, timeout: float) -> bool:
        thread = passage.current()
        if not thread:
            raise MisuseError("lock_of_the_program", "threads of the runtime use llft.originals")
        if self._waiters is None:
            self._waiters = deque()
        waiter = _Waiter(thread)
        self._waiters.append(waiter)
        left_ns = -1 if timeout < 0 else int(timeout * 1e9)
        end_ns = -1
        try:
            while not waiter.granted:
                if end_ns < 0 <= left_ns and thread == passage.MAIN_THREAD and interruptible():
                    end_ns = monotonic_ns() + left_ns
                if not passage.park(left_ns) and not waiter.granted:
                    break
                if end_ns >= 0:
                    left_ns = max(0, end_ns - monotonic_ns())
        except BaseException:
            if waiter.granted:
                self.release()
            raise
        finally:
            if not waiter.granted:
                self._waiters.remove(waiter)
        if waiter.granted:
            self._owner = passage.current()
        return waiter.granted

    def release(self) -> None:
        if not self._held:
            raise RuntimeError("release unlocked lock")
        if self._waiters:
            self._hand_over()
        else:
            self._held = False
        _spend(1)

    def _hand_over(self) -> None:
        assert self._waiters
        waiter = self._waiters.popleft()
        waiter.granted = True
        self._owner = 0
        passage.unpark(waiter.thread)

    def locked(self) -> bool:
        _spend(1)
        return self._held

    def __enter__(self) -> bool:
        if self._held:
            return self._wait(-1)
        self._held = True
        self._owner = passage.current()
        return True

    def __exit__(self, *exception: object) -> None:
        self.release()

    def __repr__(self) -> str:
        return f"<{'locked' if self._held else 'unlocked'} _thread.lock object>"

    def _at_fork_reinit(self) -> None:
        self.__init__()  # type: ignore[misc]

    acquire_lock = acquire
    release_lock = release
    locked_lock = locked


counting.lock_for(Lock, ALLOWANCE, TRYLOCK)


def new_lock() -> Any:
    """As the program's threads need it."""
    return OrderedLock() if passage.ordered else Lock()


class RLock:
    """On a lock of either kind: whether the owner is oneself only oneself can change."""

    __slots__ = ("__weakref__", "_block", "_count", "_owner")

    def __new__(cls, *ignored: Any, **named: Any) -> Any:
        if passage.current() or passage._port is None:
            return object.__new__(cls)
        return NativeRLock()

    def __init__(self, *ignored: Any, **named: Any) -> None:
        """The genuine one takes anything too: threading.RLock as a class attribute hands in the instance."""
        self._block = new_lock()
        self._owner = 0
        self._count = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        me = passage.current()
        if self._count and self._owner == me:
            self._count += 1
            return True
        plain = blocking and timeout == -1  # in ordered mode made in a run
        if not (self._block.acquire() if plain else self._block.acquire(blocking, timeout)):
            return False
        self._owner = me
        self._count = 1
        return True

    def release(self) -> None:
        if not self._count or self._owner != passage.current():
            raise RuntimeError("cannot release un-acquired lock")
        self._count -= 1
        if not self._count:
            self._owner = 0
            self._block.release()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *exception: object) -> None:
        self.release()

    def __repr__(self) -> str:
        state = "locked" if self._count else "unlocked"
        return f"<{state} _thread.RLock object owner={self._owner} count={self._count}>"

    def __hash__(self) -> int:
        """In ordered mode it follows from the program."""
        return hash(self._block)

    def _is_owned(self) -> bool:
        return self._count > 0 and self._owner == passage.current()

    def _recursion_count(self) -> int:
        return self._count if self._is_owned() else 0

    def _release_save(self) -> tuple[int, int]:
        if not self._count:
            raise RuntimeError("cannot release un-acquired lock")
        state = (self._count, self._owner)
        self._count = self._owner = 0
        self._block.release()
        return state

    def _acquire_restore(self, state: tuple[int, int]) -> None:
        self._block.acquire()
        self._count, self._owner = state

    def _at_fork_reinit(self) -> None:
        self.__init__()  # type: ignore[misc]


def monotonic_ns() -> int:
    reading = passage.call(ReadClock(_MONOTONIC))
    assert isinstance(reading, int)
    return reading


def interruptible() -> bool:
    """Whether the main thread may be woken by signals: only then it must know the time (signals)."""
    return _signals_expected


_signals_expected = False


def expect_signals() -> None:
    global _signals_expected
    _signals_expected = True
