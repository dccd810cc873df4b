"""An application that keeps its birth log (D-42), and comes to a state by going through one.

What the runtime's application does with real threads is done here by calls of the program: the same events
are logged, and a restored program is given them again. Under the token only. Laws:

1. Members of a group have the same log, byte for byte, whenever they have performed as much.
2. While a program is in its past, what the core gives waits, and is logged behind that past.
3. The thread that was out when a checkpoint was taken makes its next call to the core; all calls before
   that are answered from the log.
"""

from __future__ import annotations

import pickle
from ast import literal_eval
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from llft.core.determinizer.operations import Claim, Operation, ReadClock, Release, Spawn, TryClaim
from llft.errors import InvariantError
from llft.instant import MS, US
from llft.past.birth_log import OPERATION_KINDS, START, BirthLog, check_kind
from llft.past.checkpoint import Base
from llft.past.log_reading import Event, events
from llft.past.witness import Witness, detail
from llft.simulator.application import Application, Run

ENDED = 255
"""The kind of the last "call" of a thread."""
REPLAYED_EVENT_NS = US // 2


@dataclass(slots=True)
class Standing:
    """A thread, and the call that it made last."""

    number: int
    operation: Operation | None

    @property
    def kind(self) -> int:
        return OPERATION_KINDS[type(self.operation)]


@dataclass(slots=True)
class Memory:
    """What is known of the program beside the program itself; a state carries both."""

    threads: dict[int, Standing] = field(default_factory=dict)
    unstarted: dict[int, Any] = field(default_factory=dict)
    """Arguments of threads that were spawned and have not begun."""
    held: dict[int, int] = field(default_factory=dict)
    """Mutexes, and the threads that hold them."""
    readings: dict[int, int] = field(default_factory=dict)
    """The last one of each clock."""

    def completed(self, number: int, result: Any) -> None:
        """A call of a thread has its result."""
        operation = self.threads[number].operation
        if isinstance(operation, (Claim, TryClaim)):
            if result is True:
                self.held[operation.mutex] = number
        elif isinstance(operation, Release):
            if self.held.get(operation.mutex) == number:
                del self.held[operation.mutex]
        elif isinstance(operation, Spawn):
            self.unstarted[result] = operation.argument
        elif isinstance(operation, ReadClock):
            self.readings[operation.clock_id] = result

    def called(self, number: int, operation: Operation | None) -> None:
        if operation is None:
            del self.threads[number]
        else:
            self.threads[number] = Standing(number, operation)


class Remembering(Application):
    __slots__ = (
        "_backlog",
        "_past_length",
        "_unrun",
        "log",
        "memory",
        "out",
        "past_over",
        "replaying",
        "witness",
    )

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._remember_nothing()

    def _remember_nothing(self) -> None:
        self.log = BirthLog()
        self.memory = Memory()
        self.witness: Witness | None = None
        self.out: dict[int, None] = {}
        """Threads with a result that have not called since."""
        self.replaying = False
        self._backlog: list[Callable[[], None]] = []
        self._past_length = 0
        self._unrun: list[Run] = []
        self.past_over: Callable[[], None] = lambda: None
        """Called when a replayed past has ended, before anything else happens."""

    @property
    def threads(self) -> dict[int, Standing]:
        return self.memory.threads

    @property
    def unstarted(self) -> dict[int, Any]:
        return self.memory.unstarted

    def is_quiescent(self) -> bool:
        return not self.out and not self.replaying and self.log.length > 0

    # What the core gives, and what the program calls.

    def schedule(self, run: Run) -> None:
        is_new, number, value = run
        self.out[number] = None
        if is_new:
            self.log.started(number, repr(value))
        elif self.replaying:
            log, place = self.log, self.log.completed_unseen(number, value)
            self._backlog.append(lambda: self._hand_over_late(run, log, place))
            return
        else:
            self.log.completed(number, self.threads[number].kind, value)
        self.when_past_is_over(lambda: self._hand_over(run))

    def when_past_is_over(self, action: Callable[[], None]) -> None:
        if self.replaying:
            self._backlog.append(action)
        else:
            action()

    def _hand_over_late(self, run: Run, log: BirthLog, place: int) -> None:
        """It was given while the program was in its past, maybe before the log of that past had come."""
        if log is not self.log:
            place += self._past_length
        self.log.name(place, self.threads[run[1]].kind)
        self._hand_over(run)

    def _hand_over(self, run: Run) -> None:
        is_new, number, value = run
        if is_new:
            self.unstarted.pop(number, None)
        else:
            self.memory.completed(number, value)
        super().schedule(run)

    def _called(self, thread: int, operation: Operation | None) -> None:
        del self.out[thread]
        if self.witness is not None:
            note_call(self.witness, thread, operation)
        self.memory.called(thread, operation)
        super()._called(thread, operation)

    # The past.

    def forget(self) -> None:
        super().forget()
        self._remember_nothing()

    def end(self) -> None:
        super().end()
        self.replaying = False

    def image(self) -> bytes:
        """The program's state, at a quiescent point."""
        return pickle.dumps((self.program.capture(), self.memory), protocol=5)

    def begin_restoring(self) -> None:
        """A checkpoint is on its way: from now on the core's results wait."""
        self.forget()
        self.replaying = True

    def replay(
        self,
        data: bytes,
        out: list[int],
        base: Base | None,
        state: bytes,
        *,
        readings: dict[int, int] | None = None,
    ) -> None:
        """Go through the log that follows the base, from birth if there is none. `readings`: the last one of
        each clock that is known besides the log."""
        start, digest = (base.position, base.digest) if base is not None else (0, 0)
        if base is not None:
            captured, self.memory = pickle.loads(state)
            self.program.restore(captured)
        if readings is not None:
            self.memory.readings = dict(readings)
        self.log = BirthLog(data + self.log.kept(), start=start, digest=digest)
        self._past_length = len(data)
        self.out = dict.fromkeys(out) | self.out
        past = list(events(data))
        if past and past[-1].thread in out:
            self._unrun.append(run_of(past.pop()))  # law 3
        for event in past:
            self._repeat(event)
        if len(out) != len(self._unrun):
            raise InvariantError("out_at_checkpoint_elsewhere", out=out)
        due_ns = self._world.now_ns + len(past) * REPLAYED_EVENT_NS * self.slowness
        self._world.at(due_ns, self._end_past, self.log)

    def _repeat(self, event: Event) -> None:
        is_new, number, value = run_of(event)
        if is_new:
            self.unstarted.pop(number, None)
            operation = self.program.start_thread(number, value)
        else:
            check_kind(number, event.kind, self.threads[number].kind)
            self.memory.completed(number, value)
            operation = self.program.resume(number, value)
        self.memory.called(number, operation)

    def _end_past(self, log: BirthLog) -> None:
        """What the core said meanwhile is given now, in order."""
        if log is not self.log or not self.replaying:
            return  # of a program that is forgotten
        if self.paused:
            self._world.at(self._world.now_ns + MS, self._end_past, log)
            return
        self.replaying = False
        self.past_over()
        unrun, self._unrun = self._unrun, []
        backlog, self._backlog = self._backlog, []
        for run in unrun:
            self._hand_over(run)
        for action in backlog:
            action()


def run_of(event: Event) -> Run:
    if event.what == START:
        return True, event.thread, literal_eval(event.key)
    return False, event.thread, event.result


def note_call(witness: Witness, thread: int, operation: Operation | None) -> None:
    if operation is None:
        witness.called(thread, ENDED, 0)
    else:
        witness.called(thread, OPERATION_KINDS[type(operation)], detail(operation))
