"""Runs (D-72): calls that a thread makes without the engine, which is told of all of them at once.

Under the token only the thread that has it makes entries. Clock readings and random bytes need nobody, and
where a read has found nothing another one finds nothing, until the engine hears of something. So the engine
*lends* the running thread a run: at a primary so many calls as its quantum has left, at a backup what the
next entries of the log say, as far as they are such calls of that thread. The thread *makes* calls from its
run, in any number up to all of them. Then, before anything else happens to the engine, the run is *taken
back*. Laws:

* Taken back, the engine is as if the thread had made each of the calls through it, one by one.
* What was not made of a run was never lent: at a backup it stays at the head of the log. So a promotion, a
  capture, a divergence in the midst of a run are what they are between any two calls.
* Entries, counts and positions are those of single calls. How a log is cut into runs is each replica's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from llft.core.determinizer.clock import GroupClock
from llft.core.determinizer.counts import note_count
from llft.core.determinizer.operation_ids import RANDOM
from llft.core.determinizer.operations import WOULD_BLOCK
from llft.core.determinizer.replay_gate import OperationId
from llft.core.determinizer.sockets import encode_outcome
from llft.errors import InvariantError
from llft.identifiers import ThreadId
from llft.wire.order import GENERAL, SOCKET, TIME, Entry

if TYPE_CHECKING:
    from llft.core.determinizer.token import TokenEngine

CLOCKS: Final = 3
"""Clock ids that runs know; each is the code of its readings."""
RANDOM_CODE: Final = 16
NOTHING_CODE: Final = 17
"""A read that does not wait, and finds nothing: its value is the descriptor."""
RANDOM_BYTES_MAX: Final = 256
RUN_MAX: Final = 64
NOTHING: Final = encode_outcome(WOULD_BLOCK)
LEAST: Final = -(1 << 63)
_NO_CODE: Final = -1


class Heard:
    """Told of entries that follow one another and are alike, instead of each. `number`: at a backup that of
    the first, as `Engine.on_consumed` has it; 0 at a primary."""

    def readings(self, number: int, pick: int, thread: ThreadId, clock_id: int, values: list[int]) -> None:
        raise NotImplementedError

    def counted(self, number: int, first: Entry, data: list[bytes]) -> None:
        """`first`: the first of the entries, which differ in their counts and data alone."""
        raise NotImplementedError

    def locked(self, number: int, first: Entry, counts: list[int]) -> None:
        """The same of a mutex: they differ in their counts alone."""
        raise NotImplementedError


class Runs:
    def __init__(self, engine: TokenEngine, heard: Heard) -> None:
        self._engine = engine
        self._heard = heard

    def room(self, thread: ThreadId) -> int:
        """How many calls the thread may make before one of them uses up its quantum."""
        engine = self._engine
        if not engine.is_out(thread) or (engine.live and engine.held):
            return 0
        scheduler = engine.scheduler
        return min(scheduler.quantum_calls - 1 - scheduler.calls, RUN_MAX)

    def clocks(self) -> tuple[int, int, int, int, int, int]:
        """At a primary: what each clock's local one is to be moved by, and what it must not be behind."""
        return clocks_of(self._engine.outside.clock)

    def logged(self, thread: ThreadId) -> tuple[bytes, list[Any]]:
        """At a backup: codes and results of the thread's next calls."""
        engine, codes = self._engine, bytearray()
        values: list[Any] = []
        room, pick = self.room(thread), engine.scheduler.pick_count
        clock_id, last, known = _NO_CODE, LEAST, engine.outside.clock.last
        counts: dict[OperationId, int] = {}
        for entry in engine.log:
            kind: int = entry[0]
            if not TIME <= kind <= GENERAL or len(values) >= room or entry[1] != pick or entry[2] != thread:
                break
            code: int = entry[3]
            value: Any = entry[4]
            if kind != TIME:
                code, value = self._counted(entry, counts)
            elif code != clock_id:
                # As a rule readings of one clock follow one another.
                code = code if 0 <= code < CLOCKS else _NO_CODE
                clock_id, last = code, _last_of(code, codes, values, known)
            if code == _NO_CODE or (kind == TIME and value < last):
                break
            if kind == TIME:
                last = value
            codes.append(code)
            values.append(value)
        return bytes(codes), values

    def _counted(self, entry: Entry, counts: dict[OperationId, int]) -> tuple[int, Any]:
        """The code and the result of a call with this entry; _NO_CODE: of another one, or not the next one.
        `counts`: of the operations so far."""
        outside, key = self._engine.outside, (entry[0], entry[3])
        counts[key] = counts.get(key, outside.counts.get(key, 0)) + 1
        if entry[4] != counts[key]:
            return _NO_CODE, None
        if entry[0] == GENERAL:
            return (RANDOM_CODE if entry[3] == RANDOM else _NO_CODE), bytes(entry[5])
        nothing = entry[0] == SOCKET and entry[5] == NOTHING and entry[3] not in outside.descriptors.peeked
        return (NOTHING_CODE if nothing else _NO_CODE), entry[3]

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
        for code, start, end in pieces(codes):
            made = values[start:end]
            if engine.live:
                self._record(thread, code, made)
            else:
                self._consume(thread, code, made, local)
        engine.scheduler.calls += len(values)
        if not engine.live:
            engine.pass_barriers()

    def _record(self, thread: ThreadId, code: int, made: list[Any]) -> None:
        outside = self._engine.outside
        outside.recorded_count += len(made)
        if code < CLOCKS:
            outside.clock.read_on(code, made)
            self._heard.readings(0, outside.pick, thread, code, made)
            return
        for kind, identifier, data in _alike(code, made):
            self._count(0, (kind, identifier), thread, data)

    def _consume(self, thread: ThreadId, code: int, made: list[Any], local: tuple[int, int, int]) -> None:
        engine = self._engine
        for _ in made:
            engine.log.popleft()
        number = engine.consumed_count + 1
        engine.consumed_count += len(made)
        if code < CLOCKS:
            engine.outside.clock.observe_on(code, made, local[code])
            self._heard.readings(number, engine.outside.pick, thread, code, made)
            return
        for kind, identifier, data in _alike(code, made):
            self._count(number, (kind, identifier), thread, data)
            number += len(data)

    def _count(self, number: int, operation_id: OperationId, thread: ThreadId, data: list[bytes]) -> None:
        outside = self._engine.outside
        count = outside.counts.get(operation_id, 0) + 1
        note_count(outside.counts, operation_id, count, outside.connections)
        outside.counts[operation_id] = count + len(data) - 1
        kind, identifier = operation_id
        self._heard.counted(number, (kind, outside.pick, thread, identifier, count, data[0]), data)


def clocks_of(clock: GroupClock) -> tuple[int, int, int, int, int, int]:
    """What each one's local one is to be moved by, and what it must not be behind."""
    offsets, last = clock.offsets, clock.last
    return (
        offsets.get(0, 0),
        last.get(0, LEAST),
        offsets.get(1, 0),
        last.get(1, LEAST),
        offsets.get(2, 0),
        last.get(2, LEAST),
    )


def _last_of(clock_id: int, codes: bytearray, values: list[Any], known: dict[int, int]) -> int:
    """What the next reading of a clock must not be behind."""
    at = codes.rfind(clock_id) if clock_id >= 0 else _NO_CODE
    return values[at] if at >= 0 else known.get(clock_id, LEAST)


def _alike(code: int, made: list[Any]) -> list[tuple[int, int, list[bytes]]]:
    """Kind, identifier and data of calls of one code, cut where the identifier changes."""
    if code == RANDOM_CODE:
        return [(GENERAL, RANDOM, made)]
    found: list[tuple[int, int, list[bytes]]] = []
    for fd in made:
        if not found or found[-1][1] != fd:
            found.append((SOCKET, fd, []))
        found[-1][2].append(NOTHING)
    return found


def pieces(codes: bytes) -> list[tuple[int, int, int]]:
    """What follows one another of one code: code, beginning and end."""
    found: list[tuple[int, int, int]] = []
    start, length = 0, len(codes)
    while start < length:
        code, end = codes[start], start + 1
        while end < length and codes[end] == code:
            end += 1
        found.append((code, start, end))
        start = end
    return found
