"""Runs of calls (D-72) in a simulated process: what `reading_on.c` does in a real one, in Python."""

from __future__ import annotations

from typing import Any, Final

from llft.core import effects
from llft.core.determinizer.operations import (
    WOULD_BLOCK,
    Claim,
    Operation,
    RandomBytes,
    ReadClock,
    Receive,
    Release,
)
from llft.core.determinizer.ordered_runs import CLAIM_CODE, RELEASE_CODE, Lent
from llft.core.determinizer.runs import CLOCKS, NOTHING_CODE, RANDOM_BYTES_MAX, RANDOM_CODE
from llft.core.replica import Replica

_OTHER: Final = {CLAIM_CODE: RELEASE_CODE, RELEASE_CODE: CLAIM_CODE}


class PlainRun:
    """Lent to one thread. `codes` are of the items made, `values` what they gave, `sizes` of how many calls
    each is; at a backup values and sizes of those that are still to be made follow."""

    def __init__(self, core: Replica, thread: int, limit: int, lent: Lent, idle: int) -> None:
        """`idle`: a descriptor that has nothing to be read, or -1."""
        self._idle = idle
        self._outside = core.determinizer.engine.outside
        self._live = core.live
        self._limit = limit
        self._logged, values, self._lent_sizes = lent
        self.thread = thread
        self.made = 0
        self.codes = bytearray()
        self.values: list[Any] = [] if self._live else values
        self.sizes: list[int] = []
        clocks = core.run.clocks()
        self._offsets, self._last = clocks[::2], list(clocks[1::2])
        self.local = [0] * CLOCKS
        self._mutexes = core.run.mutexes()
        self._held = set(self._mutexes[0]) if self._mutexes else set()

    def make(self, operation: Operation) -> Any:
        """What the call gives; None: it goes the usual way."""
        if self.made >= self._limit:
            return None
        if isinstance(operation, ReadClock):
            return self._read(operation.clock_id)
        if isinstance(operation, RandomBytes) and 0 < operation.size <= RANDOM_BYTES_MAX:
            return self._draw(operation.size)
        if isinstance(operation, Claim) and operation.timeout_ns < 0:
            return self._lock(operation.mutex, CLAIM_CODE)
        if isinstance(operation, Release):
            return self._lock(operation.mutex, RELEASE_CODE)
        if isinstance(operation, Receive) and not operation.blocking and operation.limit > 0:
            return WOULD_BLOCK if self._finds_nothing(operation.fd) else None
        return None

    def _finds_nothing(self, fd: int) -> bool:
        if self._live:
            return fd == self._idle and self._made(NOTHING_CODE, fd) == fd
        return bool(self.values[self._at] == fd and self._next(NOTHING_CODE) == fd)

    def _read(self, clock_id: int) -> Any:
        if not 0 <= clock_id < CLOCKS:
            return None
        local_ns = self._outside.local_clock(clock_id)
        if not self._live:
            self.local[clock_id] = local_ns
            return self._next(clock_id)
        value_ns: int = local_ns + self._offsets[clock_id]
        if value_ns < self._last[clock_id]:
            return None
        self._last[clock_id] = value_ns
        return self._made(clock_id, value_ns)

    def _draw(self, size: int) -> Any:
        if self._live:
            return self._made(RANDOM_CODE, self._outside._random_bytes(size))
        at = self._at
        fits = self._logged[at] == RANDOM_CODE and len(self.values[at]) == size
        return self._next(RANDOM_CODE) if fits else None

    def _lock(self, mutex: int, code: int) -> Any:
        if not self._live:
            fits = self.values[self._at] == mutex and self._next(code) == mutex
            return True if fits else None
        if not self._mutexes or mutex in self._mutexes[1] or (mutex in self._held) != (code == RELEASE_CODE):
            return None
        self._held ^= {mutex}
        if self.codes and self.codes[-1] >= CLAIM_CODE and self.values[-1] == mutex:
            self._go_on()
        else:
            self._made(code, mutex)
        return True

    @property
    def _at(self) -> int:
        """The item whose turn it is, at a backup."""
        return len(self.codes) - (self._done > 0)

    @property
    def _done(self) -> int:
        """So many of its calls are made."""
        at = len(self.codes) - 1
        return self.sizes[at] if self._lent_sizes and at >= 0 and self.sizes[at] < self._lent_sizes[at] else 0

    def _next(self, code: int) -> Any:
        at, done = self._at, self._done
        if self._logged[at] != (code if done % 2 == 0 else _OTHER.get(code)):
            return None
        if done:
            self._go_on()
        else:
            self.codes.append(code)
            self.sizes.append(1)
            self.made += 1
        return self.values[at]

    def _go_on(self) -> None:
        self.sizes[-1] += 1
        self.made += 1

    def _made(self, code: int, value: Any) -> Any:
        self.codes.append(code)
        self.values.append(value)
        self.sizes.append(1)
        self.made += 1
        return value


def lend(core: Replica, thread: int, idle: int) -> None:
    """After a call that was completed at once. Every other process does so, as if its lane were compiled."""
    if core.standing.birth_id.pid % 2:
        return
    lent = core.run.logged(thread)
    limit = core.run.room(thread) if core.live else sum(lent[2]) or len(lent[1])
    if limit > 0:
        core.run.plain = PlainRun(core, thread, limit, lent, idle)


def take_back(core: Replica, now_ns: int) -> list[effects.Effect]:
    run, core.run.plain = core.run.plain, None
    if run is None or not run.codes:
        return []
    made = run.values[: len(run.codes)]
    core.run.take_back(run.thread, bytes(run.codes), made, tuple(run.local), now_ns, run.sizes)
    return core.drain()
