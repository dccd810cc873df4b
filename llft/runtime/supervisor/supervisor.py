"""The loop of `llft run`: start, ask, restart, end.

One thread and one poll. Laws:

1. Nothing survives: however `run` is left, all children are ended and reaped, sockets and pid file are gone.
   If this process is killed outright its children get a signal from the kernel.
2. Nobody holds it up: every question to a child is non-blocking and bounded.
3. A group whose members are all dead begins anew as a whole, gateway included, and everybody is told
   (`founding`).
"""

from __future__ import annotations

import select
import signal
import time
from typing import Any, Protocol

from llft.runtime.control_client import Inquiry
from llft.runtime.control_server import ControlServer
from llft.runtime.state.history import longest
from llft.runtime.supervisor import data
from llft.runtime.supervisor.founding import Founding
from llft.runtime.supervisor.halting import TERMINATE_PATIENCE_S, halt
from llft.runtime.supervisor.listening import Address, Listening
from llft.runtime.supervisor.metrics import MetricsServer, prometheus_text
from llft.runtime.supervisor.news import News
from llft.runtime.supervisor.orders import orders_of
from llft.runtime.supervisor.plan import Plan, environment_of
from llft.runtime.supervisor.report import group_object
from llft.runtime.supervisor.run_directory import RunDirectory
from llft.runtime.supervisor.signals import Interruptions
from llft.runtime.supervisor.slot import USELESS_STATUS, Slot, how_ended

EAGER_INTERVAL_S = 0.05
CALM_INTERVAL_S = 0.2
ANSWER_PATIENCE_S = 1.0
LEAVE_PATIENCE_S = 5.0


class Observer(Protocol):
    """Whoever watches: a panel, or lines on standard output. `told`: something happened."""

    def told(self, text: str) -> None: ...
    def seen(self, group: dict[str, Any]) -> None:
        """The state of the group, several times a second."""


class Supervisor:
    def __init__(
        self, plan: Plan, directory: RunDirectory, observer: Observer, *, metrics_port: int | None = None
    ) -> None:
        self.plan = plan
        self.directory = directory
        self._observer = observer
        self._metrics_port = metrics_port
        self._metrics: MetricsServer | None = None
        numbers = range(plan.first_replica, plan.first_replica + plan.replicas)
        self.replicas = {number: self._slot("replica", number) for number in numbers}
        self.gateway = self._slot("gateway", 1)
        self._listening = Listening(self.gateway, observer.told)
        self._news = News(observer.told)
        self._interruptions = Interruptions()
        self._founding = Founding(
            plan.first_replica if plan.founds else None,
            may_found_again=plan.founds and plan.local,
            head_start_s=plan.head_start_s,
        )
        self._past, self._seen_s = plan.past, 0.0
        self._exit_status: int | None = None

    def _slot(self, kind: str, number: int) -> Slot:
        name = f"{kind}-{number}"
        return Slot(kind, number, self.directory.log(name), self.directory.socket(name))

    # -- the loop ------------------------------------------------------------------------------------

    def run(self) -> int:
        """Until the program ends, somebody interrupts, or there is no hope; returns the exit status."""
        self.directory.claim()
        control: ControlServer | None = None
        try:
            if self._metrics_port is not None:
                self._metrics = MetricsServer(self._metrics_port, lambda: prometheus_text([self.group()]))
            control = ControlServer(str(self.directory.supervisor_socket), orders_of(self))
            if self.plan.data:
                data.prepare(self.directory.data, self.plan.data, goes_on=self._past is not None)
            with self._interruptions:
                try:
                    self._founding.begin(self._slots(), time.monotonic())
                    while self._exit_status is None:
                        self._wait(control)
                        self._turn(time.monotonic())
                finally:
                    self._end_all()
        finally:
            for part in (control, self._metrics):
                if part is not None:
                    part.close()
            self.directory.release()
        return self._exit_status

    def _turn(self, now_s: float) -> None:
        if self._interruptions.number:
            self._end(128 + self._interruptions.number, "interrupted")
            return
        for slot in self._slots():
            self._bury(slot, now_s)
        self._founding.release(self.replicas.values(), now_s)
        for slot in self._slots():
            if slot.restart_at_s is not None and now_s >= slot.restart_at_s and self._exit_status is None:
                self._start(slot)
        for slot in self._slots():
            self._inquire(slot, now_s)
            self._press_leaver(slot, now_s)
        self._listening.update(self._listening_wanted(), now_s)
        if self._listening.failure and self._exit_status is None:
            self._end(1, self._listening.failure)
        if self._exit_status is None and self._founding.is_state_lost(self.replicas.values(), now_s):
            self._begin_anew(now_s)
        if now_s - self._seen_s >= CALM_INTERVAL_S:
            self._seen_s = now_s
            self._observer.seen(self.group())

    def _wait(self, control: ControlServer) -> None:
        poll = select.poll()
        served = [part for part in (control, self._metrics) if part is not None]
        fds = [self._interruptions.fileno(), *(slot.pidfd for slot in self._slots())]
        fds += [slot.inquiry.fileno() for slot in self._slots() if slot.inquiry] + self._listening.filenos()
        fds += [fd for part in served for fd in part.filenos()]
        for fd in (fd for fd in fds if fd >= 0):
            poll.register(fd, select.POLLIN)
        poll.poll(EAGER_INTERVAL_S * 1000 if self._is_eager() else CALM_INTERVAL_S * 1000 / 2)
        for part in served:
            part.work()

    def _is_eager(self) -> bool:
        """Something is about to happen: a process is to start, or one has yet to become a member."""
        return any(slot.restart_at_s is not None for slot in self._slots()) or not all(
            slot.is_member for slot in self.replicas.values()
        )

    def _slots(self) -> list[Slot]:
        return [*self.replicas.values(), *([self.gateway] if self.plan.gateway else [])]

    # -- starting and ending -------------------------------------------------------------------------

    def _start(self, slot: Slot) -> None:
        founds = self._founding.take(slot, time.monotonic())
        module = self.plan.replica_module if slot.kind == "replica" else self.plan.gateway_module
        environment = environment_of(self.plan, self.directory, slot, founds=founds, past=self._past)
        slot.founds = founds
        try:
            fixed = slot.kind == "replica" and not self.plan.without_images
            slot.start(self.plan.program.command(module), environment, fixed=fixed)
        except OSError as error:
            self._put_off(slot, error)

    def _put_off(self, slot: Slot, error: OSError) -> None:
        """No process could be started: the machine lacks something, which may pass."""
        pause_s = slot.back_off.pause_after(0.0)
        slot.restart_at_s = time.monotonic() + pause_s
        why = f"{slot.title} cannot be started: {error}"
        self._observer.told(f"{why}; the next attempt is in {pause_s * 1000:.0f} ms")
        if slot.back_off.hopeless and not any(other.is_member for other in self.replicas.values()):
            self._end(1, why)

    def _bury(self, slot: Slot, now_s: float) -> None:
        """If the slot's process has ended: say so, and decide what follows."""
        role, life_s = slot.role, now_s - slot.started_s
        status = slot.reap()
        if status is None:
            return
        if slot.removed:
            del self.replicas[slot.number]
            self._observer.told(f"{slot.title} left")
            return
        others = [other for other in self.replicas.values() if other.process is not None]
        if status == 0 and slot.kind == "replica" and (role == "primary" or not others):
            self._end(0, "the program ended")
            return
        self._replace(slot, status, role=role, pause_s=slot.back_off.pause_after(life_s), now_s=now_s)

    def _replace(self, slot: Slot, status: int, *, role: str, pause_s: float, now_s: float) -> None:
        who = f"{slot.title} ({role})" if role else slot.title
        if status == USELESS_STATUS:
            self._complain(slot, f"{who} {how_ended(status)}: another start would not help")
            return
        slot.restart_at_s = now_s + pause_s
        self._observer.told(f"{who} {how_ended(status)}; a new one starts in {pause_s * 1000:.0f} ms")
        if slot.back_off.hopeless:
            self._complain(slot, f"{slot.title} died {slot.back_off.quick_deaths} times soon after its start")

    def _complain(self, slot: Slot, what: str) -> None:
        """What a person has to look at; if nobody else serves, there is no use in going on."""
        self._observer.told(f"{what}; the end of {slot.log}:")
        for line in slot.log_tail():
            self._observer.told(f"  | {line}")
        if slot.kind == "gateway" or not any(other.is_member for other in self.replicas.values()):
            self._end(1, f"{slot.title} cannot be started")

    def _end(self, status: int, why: str) -> None:
        self._exit_status = status
        self._observer.told(f"ending: {why}")

    def _end_all(self) -> None:
        self._interruptions.clear()
        self._listening.close()
        if self.plan.data:
            self._observer.told(data.remains(self.directory.data, self.replicas.values()))
        self._halt()

    def _halt(self) -> None:
        for slot in halt(self._slots(), self._interruptions):
            self._observer.told(f"{slot.title} (pid {slot.pid}) does not end: its kernel holds it")

    # -- what the children say -----------------------------------------------------------------------

    def _inquire(self, slot: Slot, now_s: float) -> None:
        if slot.process is None:
            return
        if slot.inquiry is None:
            if now_s >= slot.next_inquiry_s:
                slot.inquiry = Inquiry(slot.socket, {"do": "status"})
                slot.next_inquiry_s = now_s + (CALM_INTERVAL_S if slot.is_member else EAGER_INTERVAL_S)
            return
        slot.inquiry.work()
        if slot.inquiry.answer is not None:
            self._note(slot, slot.inquiry.answer, now_s)
        if slot.inquiry.done:
            slot.end_inquiry()
        elif now_s - slot.next_inquiry_s > ANSWER_PATIENCE_S:
            slot.give_up_asking()
            if slot.hangs:
                self._observer.told(f"{slot.title} (pid {slot.pid}) gives no answer: it is ended")
                slot.signal(signal.SIGKILL)  # so that its clients know, and can come again

    def _note(self, slot: Slot, status: dict[str, Any], now_s: float) -> None:
        former, slot.status = slot.status, status
        slot.status_at_s, slot.unanswered = now_s, 0
        self._news.take(slot, former)

    def _listening_wanted(self) -> list[Address]:
        """As the primary says; if it is on another host, as a backup here does, which runs the same program.
        While there is neither, or its program is in its past, what was said last stays."""
        members = [slot for slot in self.replicas.values() if slot.is_member and slot.status is not None]
        for slot in sorted(members, key=lambda slot: slot.role != "primary"):
            listening = (slot.status or {}).get("listening", [])
            if listening or (slot.role == "primary" and (slot.status or {}).get("has_state")):
                return [(str(host), int(port)) for host, port in listening]
        return self._listening.addresses()

    def _begin_anew(self, now_s: float) -> None:
        self._past = longest(self.directory.durable)[0] if self.plan.durable else None
        lost = "it goes on from disk" if self._past else "its state is lost: the group begins anew"
        self._observer.told(f"every member of the group is dead, {lost}")
        due_s = self._founding.found_again(self.replicas.values(), now_s)
        if deaths := self._founding.hopeless_deaths:
            first = self.replicas[min(self.replicas)]
            self._complain(first, f"the group lost all its members {deaths} times in a row")
            return
        self._listening.close()
        self._halt()
        if self.plan.data and self._past is None:
            data.set_aside(self.directory.data)
        self._founding.begin(self._slots(), due_s)

    # -- what others ask (`orders`) ------------------------------------------------------------------

    def group(self) -> dict[str, Any]:
        """The group as `llft status --json` shows it."""
        slots = list(self.replicas.values())
        return group_object(self.plan, self.directory, slots, self.gateway, self._listening.addresses())

    def add(self) -> Slot:
        """One more replica."""
        number = max(self.replicas, default=self.plan.first_replica - 1) + 1
        self.replicas[number] = slot = self._slot("replica", number)
        self._start(slot)
        self._observer.told(f"{slot.title} is added")
        return slot

    def remove(self, slot: Slot) -> None:
        """The replica is to leave; if it does not by itself in time it is ended."""
        slot.removed = True
        slot.remove_by_s = time.monotonic() + LEAVE_PATIENCE_S
        self._observer.told(f"{slot.title} is to leave")
        if slot.process is None:
            del self.replicas[slot.number]
            return
        slot.end_inquiry()
        slot.inquiry = Inquiry(slot.socket, {"do": "leave"})

    def stop(self) -> None:
        self._end(0, "told to stop")

    def _press_leaver(self, slot: Slot, now_s: float) -> None:
        if slot.removed and now_s > slot.remove_by_s:
            slot.signal(signal.SIGKILL if slot.pressed else signal.SIGTERM)
            slot.remove_by_s, slot.pressed = now_s + TERMINATE_PATIENCE_S, True
