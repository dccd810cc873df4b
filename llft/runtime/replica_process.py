"""A replica process: core, driver, network, journal and control socket, put together from a specification.

The specification is a JSON object in the environment (LLFT_SPEC, written by the supervisor;
docs/RUNTIME.md). This module runs in the program's own interpreter before anything is patched, and after that
beside it: it uses `llft.originals` and the C modules only.
"""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from llft import originals
from llft.core import events
from llft.core.replica import Replica
from llft.identifiers import NO_BIRTH, NO_VIEW, BirthId, ViewId
from llft.instant import US
from llft.journal.frame import FREQUENT
from llft.journal.record import Record
from llft.journal.writer import JournalWriter
from llft.past.birth_log import BirthLog
from llft.past.checkpoint import Checkpoint, Fingerprint
from llft.runtime import fingerprint, last_words, own_log
from llft.runtime.birthplace import Birthplace
from llft.runtime.control_server import ControlServer
from llft.runtime.driver import Driver
from llft.runtime.liveness import Liveness
from llft.runtime.native.lifeline import Lifeline
from llft.runtime.native.pulse import NOTED, TURNING, TYPE_PLACE, open_pulse
from llft.runtime.native.spool import open_spool
from llft.runtime.outside_port import OutsidePort
from llft.runtime.pacemaker import Pacemaker
from llft.runtime.poller import Poller, raise_fd
from llft.runtime.priority import Priority
from llft.runtime.replica_answers import answers_of, follows, is_caught_up
from llft.runtime.settings import Settings
from llft.runtime.spinning import Spinning
from llft.runtime.state.checkpoints import Checkpoints
from llft.runtime.state.durable import DURABLE, RESTORE, Durable, go_on
from llft.runtime.state.restart import Restart
from llft.runtime.state.storing import Storing
from llft.runtime.state.telling import Telling
from llft.runtime.timeline import Timeline
from llft.runtime.transport import Transport, open_transport
from llft.runtime.transport.compiled_udp import line_of

SPECIFICATION = "LLFT_SPEC"
FORMER = "LLFT_FORMER"
DIED_STATUS = 70
DIFFERENT_STATUS = 78


class Randomness:
    def randbytes(self, n: int, /) -> bytes:
        return originals.urandom(n)


class ReplicaProcess(OutsidePort):
    """The driver's `Network` and `World`, and the interposition's `Port`."""

    _told_of_keys = False

    def __init__(self, specification: dict[str, Any], birthplace: Birthplace) -> None:
        super().__init__()
        self.birthplace, self.poller = birthplace, Poller()
        settings = self._be_born(specification)
        self.driver = Driver(self.core, self, self, self.poller)
        self.driver.spinning = Spinning(settings.transport.spin_us * US)
        self.pacemaker = Pacemaker(self.driver, self._keep_house, lambda: self.lifeline)
        self.checkpoints = Checkpoints(self, settings)
        self.driver.dialogues.begin(line_of(self.transport), settings.timeouts, self.pulse)
        self.call, self.resume = self.driver.call, self.driver.resume
        self.spawn, self.current = self.driver.spawn, self.driver.current

    def _be_born(self, specification: dict[str, Any]) -> Settings:
        """Everything of this life but the program."""
        self.specification = specification
        self.started_ns = originals.monotonic_ns()
        self.wishes: list[events.Event] = []
        """Of an operator; whoever serves the network next sees to them."""
        settings = Settings.from_json(specification["settings"])
        group_id: int = specification["group_id"]
        birth_id = self.birth_id = BirthId(settings.host_id(), originals.getpid(), originals.time_ns())
        self._fingerprint = fingerprint.take(specification, settings)
        self.transport: Transport = open_transport(settings, group_id, birth_id)
        self.lifeline = Lifeline(specification["run_directory"], birth_id)
        self.liveness = Liveness(
            settings,
            group_id,
            birth_id,
            self.transport,
            provide=self._provide,
            provide_state=self._provide_state,
            lifeline=self.lifeline,
        )
        self.transport.service_port = self.liveness.port
        limit, durable = self.transport.payload_limit, bool(specification.get(DURABLE))
        config = settings.group_config(specification["group"], datagram_bytes=limit, durable=durable)
        self.core = Replica(config, birth_id, local_clock=originals.clock_gettime_ns, random=Randomness())
        self.timeline, self.priority = Timeline(), Priority(self.say)
        run_directory, name = specification["run_directory"], f"replica-{specification['replica']}"
        self.path = f"{run_directory}/{name}"
        journal = f"{run_directory}/journal/{name}-{birth_id.start_ns}.llj"
        spool, self._without_spool = open_spool(alone=config.executes_alone)
        limit_bytes = settings.group(specification["group"]).journal_mb << 20
        self.journal = JournalWriter(journal, place_fd=raise_fd, sink=spool, limit_bytes=limit_bytes)
        self.core.outbox.note_into(self.journal.strip)
        self.control = ControlServer(f"{self.path}.sock", answers_of(self))
        self.pulse, self._without_pulse = open_pulse(self.transport, birth_id, settings.timeouts)
        self.receive, self.noted = self.transport.receive, self.timeline.noted.append
        self.write_frame, self.write_batch = self.journal.write_frame, self.journal.write_batch
        self.storing = Storing(self)
        self.store, self.tell = self.storing.store, Telling(self).tell
        self.durable = Durable(self) if specification.get(DURABLE) else None
        return settings

    def abandon(self) -> None:
        """In a process restored from an image: all this is another process's."""
        for part in (self.transport, self.liveness, self.control, self.poller):
            part.abandon()

    def be_born_again(self, specification: dict[str, Any]) -> None:
        """The program is there, and waits; everything else of a life is made. Lock held."""
        self.poller = Poller()
        settings = self._be_born(specification)
        self.driver.begin_again(self.core, self.poller)
        self.driver.dialogues.begin(line_of(self.transport), settings.timeouts, self.pulse)
        self.driver.spinning = Spinning(settings.transport.spin_us * US)

    def start(self) -> None:
        own_log.keep()
        lifeline = f"no lifeline: {self.lifeline.missing}; its death will be noticed some milliseconds later"
        without = (self._without_pulse, self._without_spool, lifeline if self.lifeline.missing else "")
        for warning in filter(None, (*self.transport.warnings, *without)):
            self.say(warning)
        specification, former = self.specification, self.specification.get("former")
        started = events.Started(
            alone=specification.get("alone", False) and former is None,
            may_found=specification.get("may_found", True) and former is None,
            former=BirthId(*former[0]) if former else NO_BIRTH,
            withdrawn=ViewId(former[1], former[2], BirthId(*former[3])) if former else NO_VIEW,
        )
        self._watch_descriptors()
        if specification.get(RESTORE) and former is None:
            go_on(self)
            return
        self.driver.happen(started)
        self.pacemaker.start()

    def say(self, text: str) -> None:
        """A line for a person, in the replica's log."""
        own_log.write(self._line(originals.monotonic_ns(), text))

    def tell_changes(self) -> None:
        """The same of all that has happened to it by now. Lock held."""
        told = self.timeline.tell(self.driver.acts_since_ns, self.driver.noted_ns)
        own_log.write("".join(self._line(*each) for each in told))

    def _line(self, at_ns: int, text: str) -> str:
        time_s = (originals.time_ns() - originals.monotonic_ns() + at_ns) / 1e9
        return f"llft {time_s:.3f} replica {self.specification['replica']}: {text}\n"

    # -- Network -----------------------------------------------------------------------------------

    def multicast(self, group_id: int, data: bytes) -> None:
        self._before_sending(group_id, data)
        self.transport.multicast(group_id, data)

    def transmit(self, birth_id: BirthId, data: bytes) -> None:
        self._before_sending(birth_id, data)
        self.transport.transmit(birth_id, data)

    def _before_sending(self, to: int | BirthId, data: bytes) -> None:
        if self.durable is not None:
            self.durable.flush()
        if data[TYPE_PLACE] in NOTED:
            self.pulse.note(to, data)

    def work(self, now_ns: int) -> list[BirthId]:
        ready = self.poller.take_ready()
        self.liveness.work(now_ns, ready=not ready.isdisjoint(self.liveness.filenos()))
        if not ready.isdisjoint(self.control.filenos()):
            self._serve_control()
        while self.wishes:  # one by one: a signal's handler may add to them at any moment
            self.driver.wish(self.wishes.pop(0))
        return self.liveness.take_certificates()

    def _serve_control(self) -> None:
        self.control.work()
        self._watch_descriptors()

    def _watch_descriptors(self) -> None:
        others = (*self.liveness.filenos(), *self.control.filenos())
        self.poller.watch(self.transport.filenos(), (*self.transport.urgent_filenos(), *others))

    def _provide(self, start: int, end: int) -> bytes | None:
        """A piece of the birth log, for a joiner."""
        log = self.storing.log
        return log.piece(start, end) if log.has(start, end) else None

    def _provide_state(self, start: int, end: int, position: int) -> bytes | None:
        return self.checkpoints.provide_state(start, end, position)

    # -- World -------------------------------------------------------------------------------------

    def write(self, record: Record) -> None:
        if (kind := type(record)) not in FREQUENT:
            if kind in TURNING:
                self.pulse.record(record)
            if self.priority.is_back:
                self.priority.take(record)
            self.noted(record)
        self.journal.write(record)

    def flush(self) -> None:
        self.journal.flush()
        for record in self.timeline.noted:
            self.checkpoints.take(record)
        self.tell_changes()

    def restore(self, checkpoint: Checkpoint, done: Callable[[BirthLog, Restart | None], None]) -> None:
        self.storing.restore(checkpoint, done)

    def reborn(
        self, reason: str, withdrawn: ViewId = NO_VIEW, more: Mapping[str, str] = types.MappingProxyType({})
    ) -> NoReturn:
        """A new process life, with a new birth id: a fresh interpreter in the same process."""
        self.tell_changes()
        self._close(f"starts anew: {reason or self.timeline.last_reason}")
        self.priority.start_anew(as_image=bool(more))
        view = [withdrawn.precedence, withdrawn.primary_view_num, list(withdrawn.birth_id)]
        former = [list(self.birth_id), *view]
        self.birthplace.start_anew({FORMER: json.dumps(former), **more})

    def different(self) -> NoReturn:
        self._close("ends: starting it again would not help")
        originals.exit_now(DIFFERENT_STATUS)

    def stopped(self, reason: str) -> NoReturn:
        self._close(f"leaves: {reason}")
        originals.exit_now(0)

    def died(self, reason: str) -> NoReturn:
        self._close(f"dies: {reason}")
        originals.exit_now(DIED_STATUS)

    def _close(self, last_words: str) -> None:
        self.tell_changes()
        self.say(last_words)
        self.pulse.stop()
        for part in (self.lifeline, self.checkpoints, self.storing):
            part.close()
        if self.durable is not None:
            self.durable.close()
        try:
            self.journal.close()
        except OSError as error:
            self.say(f"the journal lost its end: {error}")
        self.control.close()

    def fingerprint(self) -> Fingerprint:
        return self._fingerprint

    def leave(self) -> None:
        """From a signal's handler: whoever serves the network next sees to it."""
        self.wishes.append(events.LeaveRequested())
        self.poller.wake()
        self.pacemaker.wake()

    def ended(self, status: int) -> NoReturn:
        """The program returned, or ended itself. It does so at all replicas, at the same point of its
        history.

        The thread that calls still has the token: no other one goes on. (In ordered mode they go on, and find
        their connections closed.) What it said last is on its way;
        a system would deliver that after the program's end, so this process stays until it is told."""
        last_words.see_out(self.driver)
        with self.driver.lock:
            self._close(f"the program ended with status {status}")
            originals.exit_now(status)

    def _keep_house(self) -> None:
        """Questions that came with nobody polling, answers that did not fit into a socket's buffer."""
        self._serve_control()
        self.priority.tend(caught_up=is_caught_up(self), follows=follows(self))
        self.checkpoints.tend(originals.monotonic_ns())
        if self.durable is not None:
            self.durable.tend()
        if not self.core.has_state and not self._told_of_keys:
            self._tell_of_keys()

    def _tell_of_keys(self) -> None:
        """Who joins with another key than the group's hears nobody, for ever; its user is to know."""
        strange = self.transport.statistics()["dropped_wrong_key"]
        if strange:
            self._told_of_keys = True
            self.say(f"{strange} datagrams came with another key: is the key of its group the same?")
