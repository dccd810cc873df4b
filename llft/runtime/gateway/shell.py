"""A core among real datagrams, with an application of virtual threads.

A virtual thread is a generator. It yields an operation of the determinizer and is sent the result; or it
yields a `Gate` and goes on when somebody opens it (a TCP socket can be read, say). So a connection's
behaviour is written down as it happens, one line after the other, and costs no native thread. Laws:

1. Effects are performed in the order of the list, and those of a nested step after those of the step that
   caused it.
2. Virtual threads go on in the order in which they were resumed. So the shell serves both thread modes
(D-16). 3. A turn runs a bounded number of them: a connection that always has something to do starves nobody.
4. A thread that has ended is used again for the next `begin`, without a word to the core.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator
from typing import Any, Final, Protocol, final

from llft.core import effects, events
from llft.core.determinizer.operations import Operation, Spawn
from llft.core.replica import Replica
from llft.errors import InvariantError
from llft.identifiers import BirthId, GroupId, ThreadId
from llft.journal.batch import Batch, one_by_one
from llft.journal.record import Record

RUNS_PER_TURN: Final = 512

_MAIN_THREAD: Final = 1
_DEADLINE_PASSED: Final = events.DeadlinePassed()
_OperationInvoked = events.OperationInvoked
_MessageReceived = events.MessageReceived


class Carrier(Protocol):
    """What the shell needs of a Transport."""

    def multicast(self, group_id: GroupId, data: bytes, /) -> None: ...
    def transmit(self, birth_id: BirthId, data: bytes, /) -> None: ...
    def receive(self) -> list[bytes]: ...
    def filenos(self) -> tuple[int, ...]: ...


@final
class Gate:
    """What a virtual thread waits at that waits for no operation. Opening it when nobody waits does nothing,
    so whoever waits looks first, and again after each opening."""

    __slots__ = ("_runs", "waiting")

    def __init__(self, shell: Shell) -> None:
        self._runs = shell.runs
        self.waiting: ThreadId = 0
        """The thread that waits there."""

    def admit(self, thread: ThreadId) -> None:
        assert not self.waiting, "one thread waits at a gate"
        self.waiting = thread

    def open(self) -> None:
        if self.waiting:
            self._runs.append((self.waiting, None))
            self.waiting = 0


Steps = Generator[Operation | Gate, Any, None]


class Shell:
    def __init__(
        self,
        core: Replica,
        carrier: Carrier,
        *,
        write: Callable[[Record], None] = lambda record: None,
        write_batch: Callable[[Batch], None] | None = None,
        main: Callable[[], Steps] | None = None,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.core = core
        self.carrier = carrier
        self.clock = clock
        self.runs: deque[tuple[ThreadId, Any]] = deque()
        """Virtual threads that can go on, each with what it is sent."""
        self.over = ""
        """Why this process's life in its group has ended, once it has."""
        self._threads: dict[ThreadId, Steps] = {}
        self._idle: list[ThreadId] = []
        self._unborn: deque[Steps] = deque()
        self._birth = Gate(self)
        self._main = main or self._beget
        self._performers: dict[type, Callable[[Any], None]] = {
            effects.Multicast: lambda effect: carrier.multicast(effect.group_id, effect.data),
            effects.Transmit: lambda effect: carrier.transmit(effect.birth_id, effect.data),
            effects.WriteRecord: lambda effect: write(effect.record),
            effects.WriteBatch: write_batch or one_by_one(write),
            effects.ResumeThread: self.runs.append,
            effects.StartThread: lambda effect: self.start_thread(effect.thread, effect.argument),
            effects.StartApplication: lambda effect: self.start_thread(_MAIN_THREAD, self._main()),
            effects.CaptureState: lambda effect: self.capture(),
            effects.RestoreState: lambda effect: self.restore(effect.state),
            effects.ResetApplication: lambda effect: self._end("reset: superseded or diverged"),
            effects.Stop: lambda effect: self._end(effect.reason),
        }

    # -- the core ----------------------------------------------------------------------------

    def step(self, event: events.Event) -> None:
        self.perform(self.core.step(event, self.clock()))

    def perform(self, todo: list[effects.Effect]) -> None:
        performers = self._performers
        for effect in todo:
            performers[type(effect)](effect)

    def receive(self) -> None:
        """The transport has datagrams."""
        for data in self.carrier.receive():
            self.hear(data)

    def hear(self, data: bytes) -> None:
        self.step(_MessageReceived(data))

    def serve_deadline(self) -> None:
        if self.core.next_deadline() <= self.clock():
            self.step(_DEADLINE_PASSED)

    def capture(self) -> None:
        raise InvariantError("gateway_captured", "a gateway is alone in its group: nobody joins it")

    def restore(self, state: bytes) -> None:
        raise InvariantError("gateway_restored", "a gateway is alone in its group: it joins nobody")

    def _end(self, reason: str) -> None:
        self.over = reason

    # -- virtual threads ---------------------------------------------------------------------

    def begin(self, steps: Steps) -> None:
        """Run these steps in a virtual thread of their own."""
        if self._idle:
            self.start_thread(self._idle.pop(), steps)
        else:
            self._unborn.append(steps)
            self._birth.open()

    def run(self) -> None:
        """Let the virtual threads go on that can."""
        runs, threads = self.runs, self._threads
        for _ in range(RUNS_PER_TURN):
            if not runs or self.over:
                return
            thread, value = runs.popleft()
            try:
                wanted = threads[thread].send(value)
            except StopIteration:
                self.thread_ended(thread)
                continue
            if type(wanted) is Gate:
                wanted.admit(thread)
            else:
                self.step(_OperationInvoked(thread, wanted))

    def start_thread(self, thread: ThreadId, steps: object) -> None:
        assert isinstance(steps, Generator)
        self.adopt(thread, steps)
        self.runs.append((thread, None))

    def adopt(self, thread: ThreadId, steps: Steps) -> None:
        """These are the steps of that thread from now on."""
        self._threads[thread] = steps

    def _beget(self) -> Steps:
        """The main thread: it does nothing but spawn the others."""
        while True:
            while self._unborn:
                yield Spawn(self._unborn.popleft())
            yield self._birth

    def thread_ended(self, thread: ThreadId) -> None:
        del self._threads[thread]
        self._idle.append(thread)

    def statistics(self) -> dict[str, int]:
        return {"threads": len(self._threads), "idle_threads": len(self._idle), "runnable": len(self.runs)}
