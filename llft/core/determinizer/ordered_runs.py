"""Runs in ordered mode (D-72): claims and releases of mutexes, clock readings and random bytes.

Several threads may be out in ordered mode, and each may change what the others find. So a run is lent only
where one thread is out and all others wait in the core: nobody else can make a call before one of them is
given its result, and the run is taken back before that. Laws, beside those of `runs`:

* At a primary a mutex in a run is free, or held by whomever and waited for by nobody: its claim is done, and
  its release frees it. A claim of a mutex that is held, and a release of one that is free or waited for, go
  the usual way: there the thread waits, is told that it was wrong, or another one goes on.
* At a backup a run is lent what the log says of the thread next, as far as it is the thread's turn
  (`ReplayGate.turns`), nobody else's behind it on the same operation, and no barrier behind them all: whom an
  entry lets go on is to go on with it, and not when the run is taken back. Whether an entry of a mutex is a
  claim or a release follows from whether it is held; one that says that it was not done is none of a run.
* A claim with a timeout and a trylock are none of a run.
"""

from __future__ import annotations

from typing import Any, Final

from llft.core.determinizer.counts import note_count
from llft.core.determinizer.mutex import DONE
from llft.core.determinizer.operation_ids import RANDOM
from llft.core.determinizer.operations import PASSING_MUTEX
from llft.core.determinizer.ordered import OrderedEngine
from llft.core.determinizer.replay_gate import OperationId
from llft.core.determinizer.runs import CLOCKS, LEAST, RANDOM_CODE, Heard, clocks_of
from llft.errors import InvariantError
from llft.identifiers import ThreadId
from llft.wire.order import GENERAL, MUTEX, TIME, Entry

CLAIM_CODE: Final = 18
RELEASE_CODE: Final = 19
"""The value of both is the mutex."""
ORDERED_RUN_MAX: Final = 256
"""Nobody has to be given the token: as many as a table has room for."""
NO_PICK: Final = 0
_PAIR: Final = bytes((CLAIM_CODE, RELEASE_CODE))
_NO_CODE: Final = -1


class OrderedRuns:
    def __init__(self, engine: OrderedEngine, heard: Heard) -> None:
        self._engine = engine
        self._heard = heard

    def room(self, thread: ThreadId) -> int:
        """How many calls the thread may make."""
        engine = self._engine
        return ORDERED_RUN_MAX if engine.is_alone(thread) and not (engine.live and engine.held) else 0

    def clocks(self) -> tuple[int, int, int, int, int, int]:
        return clocks_of(self._engine.outside.clock)

    def mutexes(self) -> tuple[dict[int, ThreadId], dict[int, Any]]:
        """At a primary: those that are held, and those that somebody waits for."""
        return self._engine.mutexes.tables()

    def logged(self, thread: ThreadId) -> tuple[bytes, list[Any]]:
        """At a backup: codes and results of the thread's next calls."""
        engine, codes = self._engine, bytearray()
        values: list[Any] = []
        room = self.room(thread)
        if not room:
            return b"", values
        next_calls = _NextCalls(engine)
        for entry in engine.turns(thread, room):
            code = next_calls.code_of(entry)
            if code == _NO_CODE:
                break
            codes.append(code)
            values.append(entry[5] if code == RANDOM_CODE else entry[4] if code < CLOCKS else entry[3])
        return bytes(codes), values

    def take_back(
        self,
        thread: ThreadId,
        codes: bytes,
        values: list[Any],
        local: tuple[int, int, int],
        now_ns: int,
    ) -> None:
        """`local`: at a backup, the local clocks when the thread read them last."""
        engine = self._engine
        if len(values) > self.room(thread):
            raise InvariantError("run_too_long", thread=thread, calls=len(values), room=self.room(thread))
        engine.outside.now_ns = now_ns
        if engine.live:
            self._record(thread, codes, values)
        else:
            self._consume(thread, codes, values, local)

    def _record(self, thread: ThreadId, codes: bytes, values: list[Any]) -> None:
        outside = self._engine.outside
        outside.recorded_count += len(codes)
        for start, end in parts(codes, values):
            code, some = codes[start], values[start:end]
            if code >= CLAIM_CODE:
                self._record_locks(thread, some[0], codes[start:end])
            elif code == RANDOM_CODE:
                self._record_random(thread, some)
            else:
                outside.clock.read_on(code, some)
                self._heard.readings(0, NO_PICK, thread, code, some)

    def _record_random(self, thread: ThreadId, data: list[bytes]) -> None:
        count = self._count_random(len(data))
        self._heard.counted(0, (GENERAL, NO_PICK, thread, RANDOM, count, data[0]), data)

    def _record_locks(self, thread: ThreadId, mutex: int, codes: bytes) -> None:
        counts = self._lock_on(thread, mutex, codes)
        self._heard.locked((MUTEX, NO_PICK, thread, mutex, counts[0], DONE), counts)

    def _lock_on(self, thread: ThreadId, mutex: int, codes: bytes) -> list[int]:
        """Claims and releases of one mutex, one after the other: N of their entries. A passing mutex that was
        claimed and released is as it was before, and so are the tables: all further pairs are like the first.
        """
        counts: list[int] = []
        at, end, is_passing = 0, len(codes), mutex >= PASSING_MUTEX
        while at < end:
            if is_passing and at >= 2 and codes[at - 2 : at] == _PAIR == codes[at : at + 2]:
                counts.append(1)
                counts.append(2)
                at += 2
            else:
                counts.append(self._lock(thread, mutex, codes[at]))
                at += 1
        return counts

    def _lock(self, thread: ThreadId, mutex: int, code: int) -> int:
        """Claim or release it, as `Claims` does: N of its entry."""
        engine, key = self._engine, (MUTEX, mutex)
        outside, mutexes = engine.outside, engine.mutexes
        count = outside.counts.get(key, 0) + 1
        note_count(outside.counts, key, count, outside.connections)
        if code == CLAIM_CODE:
            done = mutexes.claim(mutex, thread)
        else:
            done = mutexes.is_held(mutex) and mutexes.release(mutex) is None
            if mutex >= PASSING_MUTEX:
                del outside.counts[key]
        if not done:
            raise InvariantError("mutex_not_as_lent", mutex=mutex, thread=thread, code=code)
        return count

    def _consume(
        self, thread: ThreadId, codes: bytes, values: list[Any], local: tuple[int, int, int]
    ) -> None:
        """Their entries are the thread's next ones."""
        engine = self._engine
        clock = engine.outside.clock
        for start, end in parts(codes, values):
            code = codes[start]
            if code >= CLAIM_CODE:
                self._lock_on(thread, values[start], codes[start:end])
            elif code == RANDOM_CODE:
                self._count_random(end - start)
            else:
                clock.observe_on(code, values[start:end], local[code])
        for number, entry in engine.gate.take_turns(thread, len(codes)):
            engine.consumed(number, entry)
        engine.admit()

    def _count_random(self, size: int) -> int:
        """So many draws: N of the first."""
        outside, key = self._engine.outside, (GENERAL, RANDOM)
        first = outside.counts.get(key, 0) + 1
        note_count(outside.counts, key, first, outside.connections)
        outside.counts[key] = first + size - 1
        return first


def parts(codes: bytes, values: list[Any]) -> list[tuple[int, int]]:
    """Beginning and end of what is alike: calls of one code, or claims and releases of one mutex."""
    found: list[tuple[int, int]] = []
    start, length = 0, len(codes)
    while start < length:
        code, end = codes[start], start + 1
        if code >= CLAIM_CODE:
            while end < length and codes[end] >= CLAIM_CODE and values[end] == values[start]:
                end += 1
        else:
            while end < length and codes[end] == code:
                end += 1
        found.append((start, end))
        start = end
    return found


class _NextCalls:
    """What entries are about, one after the other."""

    def __init__(self, engine: OrderedEngine) -> None:
        self._counts = engine.outside.counts
        self._last = dict(engine.outside.clock.last)
        self._mutexes = engine.mutexes
        self._ahead: dict[OperationId, int] = {}
        """N of what comes before."""
        self._held: dict[int, bool] = {}
        """Of mutexes that come before."""

    def code_of(self, entry: Entry) -> int:
        """Of a call with this entry; _NO_CODE: it is none of a run, or not the next one."""
        kind, item = entry[0], entry[3]
        if kind == TIME:
            if not 0 <= item < CLOCKS or entry[4] < self._last.get(item, LEAST):
                return _NO_CODE
            self._last[item] = entry[4]
            return int(item)
        if kind == GENERAL and item == RANDOM:
            return RANDOM_CODE if self._is_next((GENERAL, RANDOM), entry[4]) else _NO_CODE
        if kind != MUTEX or entry[5] != DONE or not self._is_next((MUTEX, item), entry[4]):
            return _NO_CODE
        held = self._held.get(item)
        if held is None:
            held = self._mutexes.is_held(item)
        self._held[item] = not held
        if held and item >= PASSING_MUTEX:
            self._ahead[MUTEX, item] = 0
        return RELEASE_CODE if held else CLAIM_CODE

    def _is_next(self, operation_id: OperationId, count: int) -> bool:
        known = self._ahead.get(operation_id)
        if known is None:
            known = self._counts.get(operation_id, 0)
        self._ahead[operation_id] = known + 1
        return count == known + 1
