"""Runs (D-72): calls that a thread makes without the engine, which is told of all of them at once.

Under the token only the thread that has it makes entries, and clock readings and random bytes need nobody. So
the engine *lends* the running thread a run: at a primary so many calls as its quantum has left, at a backup
what the next entries of the log say, as far as they are such calls of that thread. The thread *makes* calls
from its run, in any number up to all of them. Then, before anything else happens to the engine, the run is
*taken back*. Laws:

* Taken back, the engine is as if the thread had made each of the calls through it, one by one.
* What was not made of a run was never lent: at a backup it stays at the head of the log. So a promotion, a
  capture, a divergence in the midst of a run are what they are between any two calls.
* Entries, counts and positions are those of single calls. How a log is cut into runs is each replica's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from llft.core.determinizer.operation_ids import RANDOM
from llft.core.determinizer.replay_gate import OperationId
from llft.errors import InvariantError
from llft.identifiers import ThreadId
from llft.wire.order import GENERAL, TIME

if TYPE_CHECKING:
    from llft.core.determinizer.token import TokenEngine

CLOCKS: Final = 3
"""Clock ids that runs know; each is the code of its readings."""
RANDOM_CODE: Final = 16
RANDOM_BYTES_MAX: Final = 256
RUN_MAX: Final = 64
_LEAST: Final = -(1 << 63)
_RANDOM_ID: Final[OperationId] = (GENERAL, RANDOM)


class Runs:
    def __init__(
        self,
        engine: TokenEngine,
        on_recorded: Callable[[int, ThreadId, int, list[int]], None],
        on_consumed: Callable[[int, int, ThreadId, int, list[int]], None],
    ) -> None:
        """Both are told of readings of one clock that follow one another: (pick, thread, clock id, values);
        the second also of the number of the first, as `Engine.on_consumed` is."""
        self._engine = engine
        self._on_recorded = on_recorded
        self._on_consumed = on_consumed

    def room(self, thread: ThreadId) -> int:
        """How many calls the thread may make before one of them uses up its quantum."""
        engine = self._engine
        if not engine.is_out(thread) or (engine.live and engine.held):
            return 0
        scheduler = engine.scheduler
        return min(scheduler.quantum_calls - 1 - scheduler.calls, RUN_MAX)

    def clocks(self) -> tuple[int, int, int, int, int, int]:
        """At a primary: what each clock's local one is to be moved by, and what it must not be behind."""
        offsets, last = self._engine.outside.clock.offsets, self._engine.outside.clock.last
        return (
            offsets.get(0, 0),
            last.get(0, _LEAST),
            offsets.get(1, 0),
            last.get(1, _LEAST),
            offsets.get(2, 0),
            last.get(2, _LEAST),
        )

    def logged(self, thread: ThreadId) -> tuple[bytes, list[Any]]:
        """At a backup: codes and results of the thread's next calls."""
        engine, codes = self._engine, bytearray()
        values: list[Any] = []
        room, pick = self.room(thread), engine.scheduler.pick_count
        last = dict(engine.outside.clock.last)
        count = engine.outside.counts.get(_RANDOM_ID, 0)
        for entry in engine.log:
            kind: int = entry[0]
            if len(values) >= room or kind not in (TIME, GENERAL) or entry[1] != pick or entry[2] != thread:
                break
            code: int = entry[3]
            if kind == TIME:
                if not 0 <= code < CLOCKS or entry[4] < last.get(code, _LEAST):
                    break
                last[code] = entry[4]
                values.append(entry[4])
            else:
                count += 1
                if code != RANDOM or entry[4] != count:
                    break
                code = RANDOM_CODE
                values.append(bytes(entry[5]))
            codes.append(code)
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
        if code == RANDOM_CODE:
            for data in made:
                outside.record_counted(GENERAL, thread, RANDOM, data)
        else:
            outside.clock.read_on(code, made)
            outside.recorded_count += len(made)
            self._on_recorded(outside.pick, thread, code, made)

    def _consume(self, thread: ThreadId, code: int, made: list[Any], local: tuple[int, int, int]) -> None:
        engine = self._engine
        outside, log = engine.outside, engine.log
        if code == RANDOM_CODE:
            for _ in made:
                outside.counts[_RANDOM_ID] = log[0][4]
                engine.consume()
        else:
            outside.clock.observe_on(code, made, local[code])
            for _ in made:
                log.popleft()
            first = engine.consumed_count + 1
            engine.consumed_count += len(made)
            self._on_consumed(first, outside.pick, thread, code, made)


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
