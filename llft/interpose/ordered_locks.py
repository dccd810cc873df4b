"""Locks in ordered mode: mutexes of the core. Every claim, trylock and release is ordered (D-16).

A mutex has the number of the thread that made it and which of that thread's it is, in one: numbers follow
from each thread by itself, whatever the others do. Whether a lock is held is found out by trying, which
is ordered too: looking would not be.

These are classes, not functions, for the reason that `locks` gives.
"""

from __future__ import annotations

from typing import Any

from llft import originals
from llft.core.determinizer.operations import PASSING_MUTEX, Claim, Release, TryClaim
from llft.errors import MisuseError
from llft.interpose import passage
from llft.interpose.counting import Mutex
from llft.interpose.lock_arguments import check

_made: dict[int, int] = {}
"""By thread: how many it has made. Each changes its own only."""


def _next_mutex() -> int:
    """Cantor's pairing of the two: no number twice, and small ones for programs with few."""
    thread = passage.current()
    number = _made.get(thread, 0)
    _made[thread] = number + 1
    diagonal = thread + number
    return PASSING_MUTEX + diagonal * (diagonal + 1) // 2 + number


def thread_ended(thread: int) -> None:
    _made.pop(thread, None)


class OrderedLock(Mutex):
    """What needs no call of the port is done by the class below, if that can."""

    __slots__ = ("__weakref__",)

    def __new__(cls) -> Any:
        if passage.current() or passage._port is None:
            return Mutex.__new__(cls)
        return originals.allocate_lock()

    def __init__(self) -> None:
        self._mutex = _next_mutex()

    def _acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if timeout != -1:
            check(blocking, timeout)
        _check_thread()
        if not blocking:
            return bool(passage.call(TryClaim(self._mutex)))
        return bool(passage.call(Claim(self._mutex, -1 if timeout < 0 else int(timeout * 1e9))))

    def _release(self) -> None:
        _check_thread()
        if passage.call(Release(self._mutex)) is not True:
            raise RuntimeError("release unlocked lock")

    def locked(self) -> bool:
        """For a moment it is, if it was not: threading's conditions ask in the same way."""
        if not self.acquire(False):
            return True
        self.release()
        return False

    def __hash__(self) -> int:
        """threading keeps locks in a set, and asks each whether it is held."""
        return self._mutex

    def __repr__(self) -> str:
        return f"<_thread.lock object {self._mutex}>"

    def _at_fork_reinit(self) -> None:
        self.__init__()  # type: ignore[misc]

    locked_lock = locked


def _check_thread() -> None:
    if not passage.current():
        raise MisuseError("lock_of_the_program", "threads of the runtime use llft.originals")
