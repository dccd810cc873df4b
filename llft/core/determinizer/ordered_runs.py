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

from llft.core.determinizer.counts import COUNTS_MANY, note_count
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
"""The value of both is the mutex. Claims and releases of one mutex that follow one another, in turns, are one
item of a run: its code is that of the first of them."""
ORDERED_RUN_MAX: Final = 2048
"""Nobody has to be given the token: as many calls as the core may be told of at a time."""
ITEMS_MAX: Final = 256
"""As many as a table has room for."""
NO_PICK: Final = 0
SINGLE: Final[list[int]] = []
"""In the place of sizes: every item is one call."""
_OTHER: Final = {CLAIM_CODE: RELEASE_CODE, RELEASE_CODE: CLAIM_CODE}
_NO_CODE: Final = -1

Lent = tuple[bytes, list[Any], list[int]]
"""Codes, values, and of how many calls each of them is."""


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

    def logged(self, thread: ThreadId) -> Lent:
        """At a backup: the thread's next calls."""
        engine, codes = self._engine, bytearray()
        values: list[Any] = []
        sizes: list[int] = []
        room = self.room(thread)
        if not room:
            return b"", values, sizes
        next_calls = _NextCalls(engine)
        for entry, counts in engine.turns(thread, room):
            code = next_calls.code_of(entry)
            if code == _NO_CODE:
                break
            size = next_calls.pass_locks(entry[3], counts) if counts else 1
            codes.append(code)
            values.append(entry[5] if code == RANDOM_CODE else entry[4] if code < CLOCKS else entry[3])
            sizes.append(size)
            if len(codes) == ITEMS_MAX or (counts and size < len(counts)):
                break
        return bytes(codes), values, sizes

    def take_back(
        self,
        thread: ThreadId,
        codes: bytes,
        values: list[Any],
        local: tuple[int, int, int],
        now_ns: int,
        sizes: list[int] = SINGLE,
    ) -> None:
        """`local`: at a backup, the local clocks when the thread read them last."""
        engine = self._engine
        calls = sum(sizes) if sizes else len(codes)
        if calls > self.room(thread):
            raise InvariantError("run_too_long", thread=thread, calls=calls, room=self.room(thread))
        engine.outside.now_ns = now_ns
        if engine.live:
            self._record(thread, calls, codes, values, sizes)
        else:
            self._consume(thread, calls, codes, values, local, sizes)

    def _record(
        self, thread: ThreadId, calls: int, codes: bytes, values: list[Any], sizes: list[int]
    ) -> None:
        outside = self._engine.outside
        outside.recorded_count += calls
        for start, end in parts(codes):
            code, some = codes[start], values[start:end]
            if code >= CLAIM_CODE:
                counts = self._lock_on(thread, some[0], code, sizes[start] if sizes else 1)
                self._heard.locked(0, (MUTEX, NO_PICK, thread, some[0], counts[0], DONE), counts)
            elif code == RANDOM_CODE:
                self._record_random(thread, some)
            else:
                outside.clock.read_on(code, some)
                self._heard.readings(0, NO_PICK, thread, code, some)

    def _record_random(self, thread: ThreadId, data: list[bytes]) -> None:
        count = self._count_random(len(data))
        self._heard.counted(0, (GENERAL, NO_PICK, thread, RANDOM, count, data[0]), data)

    def _lock_on(self, thread: ThreadId, mutex: int, code: int, size: int) -> list[int]:
        """Claims and releases of one mutex, in turns, so many: N of their entries. All that lies between the
        first and the last two leaves the tables as it found them, but for N."""
        if code == CLAIM_CODE and size % 2 == 0 and self._leaves_nothing(mutex):
            return [1, 2] * (size // 2)
        key = (MUTEX, mutex)
        counts = [self._lock(thread, mutex, code)]
        between = (size - 2) // 2 * 2
        if between > 0:
            counts += _counts_behind(mutex, counts[0], code == RELEASE_CODE, between)
            if mutex < PASSING_MUTEX:
                self._engine.outside.counts[key] = counts[-1]
        for at in range(len(counts), size):
            counts.append(self._lock(thread, mutex, code if at % 2 == 0 else _OTHER[code]))
        return counts

    def _leaves_nothing(self, mutex: int) -> bool:
        """Who claims it and releases it leaves no trace: it is free, and of a passing one nothing is kept
        then; nor are there so many counts that one more has some of them forgotten."""
        engine = self._engine
        known = engine.outside.counts
        if mutex < PASSING_MUTEX or len(known) + 1 >= COUNTS_MANY:
            return False
        return not engine.mutexes.is_held(mutex) and (MUTEX, mutex) not in known

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
        self,
        thread: ThreadId,
        calls: int,
        codes: bytes,
        values: list[Any],
        local: tuple[int, int, int],
        sizes: list[int],
    ) -> None:
        """Their entries are the thread's next ones."""
        engine = self._engine
        clock = engine.outside.clock
        for start, end in parts(codes):
            code = codes[start]
            if code >= CLAIM_CODE:
                self._lock_on(thread, values[start], code, sizes[start] if sizes else 1)
            elif code == RANDOM_CODE:
                self._count_random(end - start)
            else:
                clock.observe_on(code, values[start:end], local[code])
        for number, entry, counts in engine.gate.take_turns(thread, calls):
            if counts:
                engine.consumed_count += len(counts)
                self._heard.locked(number, entry, counts)
            else:
                engine.consumed(number, entry)
        engine.admit()

    def _count_random(self, size: int) -> int:
        """So many draws: N of the first."""
        outside, key = self._engine.outside, (GENERAL, RANDOM)
        first = outside.counts.get(key, 0) + 1
        note_count(outside.counts, key, first, outside.connections)
        outside.counts[key] = first + size - 1
        return first


def parts(codes: bytes) -> list[tuple[int, int]]:
    """Beginning and end of items that are told together: of one code, and locks each by itself."""
    found: list[tuple[int, int]] = []
    start, length = 0, len(codes)
    while start < length:
        code, end = codes[start], start + 1
        while code < CLAIM_CODE and end < length and codes[end] == code:
            end += 1
        found.append((start, end))
        start = end
    return found


def _counts_behind(mutex: int, count: int, released: bool, size: int) -> list[int]:
    """N of so many further claims and releases, an even number, behind a claim or a release with this one."""
    if mutex < PASSING_MUTEX:
        return list(range(count + 1, count + 1 + size))
    if released:
        return [1, 2] * (size // 2)
    return [count + 1, *([1, 2] * (size // 2 - 1)), 1]


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

    def pass_locks(self, mutex: int, counts: list[int]) -> int:
        """How many of them are next, as claims and releases in turns. The first one has been passed."""
        held = self._held[mutex]
        behind = len(counts) - 1
        if behind:
            expected = _counts_behind(mutex, counts[0], not held, behind + behind % 2)[:behind]
            behind = behind if counts[1:] == expected else _alike(counts[1:], expected)
        if behind:
            held = held == (behind % 2 == 0)
            self._held[mutex] = held
            self._ahead[MUTEX, mutex] = counts[behind] if held or mutex < PASSING_MUTEX else 0
        return behind + 1

    def _is_next(self, operation_id: OperationId, count: int) -> bool:
        known = self._ahead.get(operation_id)
        if known is None:
            known = self._counts.get(operation_id, 0)
        self._ahead[operation_id] = known + 1
        return count == known + 1


def _alike(one: list[int], other: list[int]) -> int:
    """So many of the first are alike."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=True)) if a != b), len(one))
