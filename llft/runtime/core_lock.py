"""The lock round the core.

A thread that is given its result while the lock is held would run at once into that lock, and into the
interpreter's, and be put to sleep by both: some ten context switches for one result. So gates
are opened when the lock is left, and the giver, if it waits for something itself, is gone a moment later.
"""

from __future__ import annotations

from _thread import LockType
from collections.abc import Callable
from types import TracebackType

from llft import originals
from llft.runtime.lending import is_lent


class CoreLock:
    __slots__ = ("_lock", "_opening", "release", "take_back")

    def __init__(self) -> None:
        self._lock = originals.allocate_lock()
        self._opening: list[LockType] = []
        self.take_back: Callable[[], None] = lambda: None
        """Of a run that is lent (`lending`): whoever has the lock sees what was called."""
        self.release = self._lock.release
        """Without opening gates: for whoever waits and knows that there are none."""

    def open_gate(self, gate: LockType) -> None:
        """Under the lock: of a thread that has its result."""
        self._opening.append(gate)

    def acquire(self) -> None:
        self._lock.acquire()
        if is_lent():
            self.take_back()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        gates = self._opening
        if not gates:
            self._lock.release()
            return
        self._opening = []
        self._lock.release()
        for gate in gates:
            gate.release()
