"""One replica process: a shell round a core and an application.

It does what the runtime does for a real program: it performs the core's effects in their
order, keeps the one timer, and reports what happens as events. Laws:

1. Effects are performed in the order of the list, and those of a nested step after those of the
   step that caused it, which is the order in which the core issued them.
2. A paused process does nothing: datagrams wait in a bounded receive buffer, threads
   and the timer wait for the continuation.
3. A core or a program that raises is a violation; the process then vanishes like a crashed one.
"""

from __future__ import annotations

import random
import traceback
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from zlib import crc32

from llft.config import ThreadMode
from llft.core import effects, events
from llft.instant import NEVER, US
from llft.journal.record import HeartbeatArrived, Operated, Record
from llft.simulator.application import Application
from llft.simulator.clocks import LocalClock
from llft.simulator.interfaces import Core, Program
from llft.simulator.notes import EVENT_KINDS, SEND_KIND, checksum, in_words, told
from llft.simulator.state.remembering import Remembering
from llft.simulator.stepping import stepped
from llft.simulator.watch import unearned_second_ack

if TYPE_CHECKING:
    from llft.simulator.cluster import Cluster, Group

RECEIVE_BUFFER_DATAGRAMS = 4000
SERVICE_NS = 12 * US
TRACEBACK_LINES = 7

DEADLINE_PASSED = events.DeadlinePassed()


class Process:
    __slots__ = (
        "_inbox",
        "_later",
        "_reborn",
        "_stopping",
        "_wake_at_ns",
        "alive",
        "application",
        "birth_id",
        "clock",
        "cluster",
        "core",
        "group",
        "leaving",
        "name",
        "number",
        "past",
        "receive",
        "world",
    )

    def __init__(
        self, cluster: Cluster, group: Group, number: int, name: str, clock: LocalClock, rng: random.Random
    ) -> None:
        self.cluster = cluster
        self.group = group
        self.world = cluster.world
        self.number = number
        self.name = name
        self.clock = clock
        self.alive = True
        self.leaving = False
        self.receive: Callable[[bytes], None] = self._receive
        self.application: Application = (Remembering if group.keeps_past else Application)(
            cluster.world,
            rng,
            make_program=group.new_program,
            report=self.step,
            fail=self.fail,
            service_ns=SERVICE_NS,
            think_ns=self._think_ns if group.think_ns else None,
            ordered=group.spec.config.threads is ThreadMode.ORDERED,
        )
        self._inbox: deque[events.Event] = deque()
        self._later: list[effects.Effect] = []
        self._wake_at_ns = NEVER
        self._reborn: effects.ResetApplication | None = None
        self._stopping = False
        self.core: Core
        self.birth_id, self.core = cluster.new_core(self)
        self.past = cluster.new_past(self)

    @property
    def paused(self) -> bool:
        return self.application.paused

    @property
    def program(self) -> Program:
        return self.application.program

    def _think_ns(self) -> int:
        """How long the user of a client thinks, on average, before each operation."""
        return self.group.think_ns if self.core.role == "primary" else 0

    def label(self) -> str:
        return f"{self.name} ({self.core.role} {self.core.view})"

    # Events of the outside world.

    def _receive(self, data: bytes) -> None:
        self.happen(events.MessageReceived(data))

    def happen(self, event: events.Event) -> None:
        """Something arrives from outside: it waits in the receive buffer of a paused process."""
        if self.application.paused:
            if len(self._inbox) < RECEIVE_BUFFER_DATAGRAMS:
                self._inbox.append(event)
        elif self.alive:
            self.step(event)

    def leave(self) -> None:
        """An operator asks it to go; from now on nobody counts on it."""
        self.leaving = True
        self.happen(events.LeaveRequested())

    def pause(self) -> None:
        self.application.paused = True

    def go_on(self, *, timer_first: bool) -> None:
        """Continue. Whether the overdue timer or the buffered datagrams come first is the
        scheduler's whim in a real process, so the caller draws it."""
        self.application.go_on()
        if timer_first and self.core.next_deadline() <= self.world.now_ns:
            self.step(DEADLINE_PASSED)
        waiting_count = len(self._inbox)
        while waiting_count and self.alive:
            waiting_count -= 1
            self.step(self._inbox.popleft())
        if self.alive and (deadline_ns := self.core.next_deadline()) < self._wake_at_ns:
            self._set_timer(deadline_ns)

    def vanish(self) -> None:
        """Crash, or end: what it sent is still in flight, nothing else remains."""
        self.alive = False
        self.application.end()
        self._inbox.clear()
        self.past.end()

    # The core and its timer.

    def step(self, event: events.Event) -> None:
        self._note(event)
        try:
            if todo := stepped(self.core, event, self.world.now_ns):
                self._perform(todo)
                if self._reborn:
                    self._be_born_again(self._reborn)
                    return
                if self._stopping:
                    self.cluster.on_stopped(self)
                    return
            deadline_ns = self.core.next_deadline()
            if deadline_ns < self._wake_at_ns:
                self._set_timer(deadline_ns)
        except Exception:  # noqa: BLE001 (law 3: whatever it is, it is evidence)
            self.fail(type(event).__name__)

    def fail(self, doing: str) -> None:
        """To be called while an exception is being handled."""
        last_lines = traceback.format_exc().splitlines()[-TRACEBACK_LINES:]
        cause = " | ".join(line.strip() for line in last_lines)
        self.cluster.on_core_failed(self, f"{self.name} at {self.world.now_ns} ns on {doing}: {cause}")

    def _be_born_again(self, reset: effects.ResetApplication) -> None:
        """The receive buffer is the process's, not the core's: it is kept."""
        self._reborn = None
        self._wake_at_ns = NEVER
        former = self.birth_id
        self.birth_id, self.core = self.cluster.new_core(self)
        self.step(events.Started(may_found=False, former=former, withdrawn=reset.withdrawn))

    def start_anew(self) -> None:
        """Its program could not be restored: it rejoins as a new process would."""
        self._reset(effects.ResetApplication())
        self._be_born_again(effects.ResetApplication())

    def _set_timer(self, deadline_ns: int) -> None:
        """A deadline that has passed already must not stop time: at least a microsecond goes by."""
        self._wake_at_ns = wake_ns = max(deadline_ns, self.world.now_ns + US)
        self.world.at(wake_ns, self._wake, wake_ns)

    def _wake(self, planned_ns: int) -> None:
        if planned_ns != self._wake_at_ns:
            return  # another, earlier timer was set since
        self._wake_at_ns = NEVER
        if not self.alive or self.application.paused:
            return
        deadline_ns = self.core.next_deadline()
        if deadline_ns <= self.world.now_ns:
            self.step(DEADLINE_PASSED)
        elif deadline_ns < NEVER:
            self._set_timer(deadline_ns)

    # Effects.

    def _perform(self, todo: list[effects.Effect]) -> None:
        for effect in todo:
            _PERFORMERS[type(effect)](self, effect)
        if self._later:
            later, self._later = self._later, []
            self._perform(later)

    def _write(self, records: list[Record]) -> None:
        self.cluster.records += records
        for record in records if self.world.trace.tracing else ():
            if type(record) not in _UNTRACED_RECORDS:
                self.world.trace.say(self.world.now_ns, self.label(), told(record))

    def _multicast(self, effect: effects.Multicast) -> None:
        group_id, data = effect
        self._about_to_send(data)
        objection = unearned_second_ack(self.core, data)
        if objection is not None:
            self.cluster.objections.append(objection)
        send, mine = self.cluster.network.send, self.number
        for process in self.cluster.listeners(group_id):
            if process.number != mine:
                send(mine, process, data)

    def _transmit(self, effect: effects.Transmit) -> None:
        self._about_to_send(effect.data)
        for process in self.group.processes:
            if process.birth_id == effect.birth_id and process is not self:
                self.cluster.network.send(self.number, process, effect.data)

    def _repeat_call(self, effect: effects.RepeatCall) -> None:
        for call in self.past.repeat(effect.thread):
            self._later += self.core.step(call, self.world.now_ns)

    def _capture(self, effect: effects.CaptureState) -> None:
        self._answer(events.StateCaptured(self.past.capture()))

    def _store(self, effect: effects.StoreState | effects.RestoreState) -> None:
        self._answer(events.StateStored(held=True))  # the whole of it came with the message

    def _answer(self, event: events.Event) -> None:
        self._note(event)
        self._later += self.core.step(event, self.world.now_ns)

    def _restore(self, effect: effects.RestoreState) -> None:
        self.past.restore(effect.state)
        if not self.past.fetching:
            self._store(effect)

    def _reset(self, effect: effects.ResetApplication) -> None:
        self.application.forget()
        self.past.forget()
        self._reborn = effect if effect.new_birth_wanted else None

    def _stop(self, effect: effects.Stop) -> None:
        self._stopping = True

    # The trace.

    def _note(self, event: events.Event) -> None:
        trace, now_ns = self.world.trace, self.world.now_ns
        trace.add(now_ns, self.number, EVENT_KINDS[type(event)], checksum(event))
        if trace.tracing:
            trace.say(now_ns, self.label(), in_words(event, trace))

    def _about_to_send(self, data: bytes) -> None:
        self.past.flush()
        trace = self.world.trace
        trace.add(self.world.now_ns, self.number, SEND_KIND, crc32(data))
        if trace.tracing:
            trace.say(self.world.now_ns, self.label(), f"-> {trace.describe(data)}")


_UNTRACED_RECORDS = frozenset((HeartbeatArrived, Operated))
"""As many as there are datagrams and operations, and those have their own lines."""

_PERFORMERS: dict[type, Callable[[Process, Any], None]] = {
    effects.Multicast: Process._multicast,
    effects.WriteRecord: lambda process, effect: process._write([effect.record]),
    effects.WriteBatch: lambda process, effect: process._write(effect.records()),
    effects.ResumeThread: lambda process, effect: process.application.schedule((False, *effect)),
    effects.Transmit: Process._transmit,
    effects.StartApplication: lambda process, _: process.application.schedule((True, 1, None)),
    effects.StartThread: lambda process, effect: process.application.schedule((True, *effect)),
    effects.RepeatCall: Process._repeat_call,
    effects.CaptureState: Process._capture,
    effects.StoreState: Process._store,
    effects.RestoreState: Process._restore,
    effects.ResetApplication: Process._reset,
    effects.Stop: Process._stop,
}
