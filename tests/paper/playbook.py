"""Several replicas and a network that is driven by hand.

Every replica is a real core. Nothing moves unless the test says so: a datagram that is sent is *in flight*
until it is delivered or dropped, time passes in `tick` and `run`, and an application does the
operations that the test gives to its group. A playbook is a context; leaving it fails when

 * a datagram is still in flight: the test did not say what becomes of it,
 * a rule for dropping dropped nothing: the test does not test what it says,
 * something notable happened that the test did not ask about: a suspicion, a reset, a divergence,
   a member that left,
 * nothing was ever asked.

So a test cannot pass by forgetting to assert. Names: "s2" is a replica of the group "s".

The program of a group is a list of operations that grows as the test goes (`act`). One thread performs
it at every replica, each in its own time; with the results so far it is the application's state.
"""

from __future__ import annotations

import pickle
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from llft.config import GroupConfig
from llft.core import effects, events
from llft.core.determinizer.operations import Accept, Connect, Operation
from llft.core.replica import Replica
from llft.identifiers import NO_BIRTH, NO_VIEW, BirthId, ViewId
from llft.instant import MS, NEVER, SECOND, US
from llft.journal.record import ConnectionEnded, Diverged, Record, RoleChanged, Superseded, Suspected
from llft.wire.codec import decode, decode_body
from llft.wire.messages import Message, MessageType

GROUP_IDS = {"c": 1, "d": 2, "s": 100, "t": 101}
FLIGHT_NS = 10 * US
STEP_LIMIT = 100_000

RecordType = TypeVar("RecordType")


def is_notable(record: Record) -> bool:
    if isinstance(record, RoleChanged):
        return record.role == "left"
    if isinstance(record, ConnectionEnded):
        return record.how == "reset"
    return isinstance(record, Suspected | Superseded | Diverged)


@dataclass(slots=True)
class Datagram:
    """What one replica sent once, to a group or to one process."""

    time_ns: int
    source: str
    to: str
    data: bytes
    message: Message

    @property
    def kind(self) -> MessageType:
        return self.message.header.message_type

    @property
    def body(self) -> Any:
        return decode_body(self.kind, self.message.payload)

    @property
    def position(self) -> int:
        """Of a Request or a Reply, counted from the connection's birth."""
        return self.message.header.view_base + self.message.header.msg_seq_num


@dataclass(slots=True)
class Parcel:
    """A datagram on its way to one replica."""

    datagram: Datagram
    target: str

    def __str__(self) -> str:
        return f"{self.datagram.kind.name} {self.datagram.source} -> {self.target}"


@dataclass(slots=True)
class Rule:
    """Which parcels; what is not named matches."""

    kinds: tuple[MessageType, ...] = ()
    by: str = ""
    to: str = ""
    position: int = 0
    limit: int = 1 << 30
    """Matches no more than so many."""
    matched_count: int = 0

    def matches(self, parcel: Parcel) -> bool:
        datagram = parcel.datagram
        return (
            self.matched_count < self.limit
            and (not self.kinds or datagram.kind in self.kinds)
            and _is_of(datagram.source, self.by)
            and _is_of(parcel.target, self.to)
            and self.position in (0, datagram.position)
        )


def _is_of(name: str, wanted: str) -> bool:
    """Whether a replica is the wanted one, or of the wanted group."""
    return wanted in ("", name, name.rstrip("0123456789"))


@dataclass(slots=True)
class Application:
    """The thread of one replica: what it got, and whether it waits for more."""

    results: list[Any] = field(default_factory=list)
    running: bool = False
    parked: bool = False

    def capture(self) -> bytes:
        return pickle.dumps((self.results, self.running, self.parked))

    def restore(self, state: bytes) -> None:
        self.results, self.running, self.parked = pickle.loads(state)


class Playbook:
    def __init__(self, **changes: Any) -> None:
        """`changes` are fields of every group's GroupConfig."""
        self.now_ns = SECOND
        self.changes = changes
        self.cores: dict[str, Replica] = {}
        self.applications: dict[str, Application] = {}
        self.scripts: dict[str, list[Operation]] = {}
        self.in_flight: list[Parcel] = []
        self.log: list[Datagram] = []
        self.records: list[tuple[str, Record]] = []
        self.rules: list[Rule] = []
        self.sides: list[tuple[str, ...]] = []
        self.asked_count = 0
        self.stores_at_once = True
        """Else a test answers for the shells of semi-passive backups."""
        self._names: dict[BirthId, str] = {}
        self._former: dict[str, tuple[BirthId, ViewId]] = {}
        self._answered: Counter[int] = Counter()
        self._mark = 0
        self.record_count_at_mark = 0
        self._served_ns: dict[str, int] = {}
        self._to_run: list[str] = []
        self._active: list[Rule] = []

    def __enter__(self) -> Playbook:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.check_finished()

    def check_finished(self) -> None:
        assert not self.in_flight, f"in flight, and nobody said what becomes of it: {self._flying()}"
        unused = [rule for rule in self.rules if not rule.matched_count]
        assert not unused, f"a rule that dropped nothing: {unused}"
        unasked = [(n, r) for i, (n, r) in enumerate(self.records) if is_notable(r) and not self._answered[i]]
        assert not unasked, f"it happened, and nobody asked: {unasked}"
        assert self.asked_count, "nothing was ever asked"

    def _flying(self) -> str:
        return ", ".join(str(parcel) for parcel in self.in_flight)

    def __getitem__(self, name: str) -> Replica:
        self.asked_count += 1
        return self.cores[name]

    def results(self, name: str) -> list[Any]:
        self.asked_count += 1
        return self.applications[name].results

    def name_of(self, birth_id: BirthId) -> str:
        return self._names.get(birth_id, str(birth_id))

    def members(self, name: str) -> list[str]:
        """The membership as this replica has it."""
        return [self.name_of(member.birth_id) for member in self[name].membership]

    # -- processes ---------------------------------------------------------------------------------

    def join(self, name: str, *, alone: bool = False, **changes: Any) -> Replica:
        """A new process, or a name reborn; its ProposeBackup is in flight unless it is alone."""
        group = name.rstrip("0123456789")
        birth_id = BirthId(GROUP_IDS[group], len(self._names) + 1, self.now_ns)
        config = replace(GroupConfig(GROUP_IDS[group]), **{**self.changes, **changes})
        core = Replica(
            config, birth_id, local_clock=lambda _: self.now_ns, random=random.Random(len(self._names))
        )
        self._names[birth_id] = name
        self.cores[name] = core
        self.applications[name] = Application()
        self.scripts.setdefault(group, [])
        former, withdrawn = self._former.pop(name, (NO_BIRTH, NO_VIEW))
        self.step(name, events.Started(alone=alone, former=former, withdrawn=withdrawn))
        return core

    def crash(self, name: str) -> None:
        del self.cores[name]
        del self.applications[name]
        self.in_flight = [parcel for parcel in self.in_flight if parcel.target != name]

    def certify(self, dead: BirthId, to: str) -> None:
        self.step(to, events.PeerDied(dead))

    def group(self, group: str) -> list[str]:
        return sorted(name for name in self.cores if _is_of(name, group))

    # -- steps -------------------------------------------------------------------------------------

    def step(self, name: str, event: events.Event) -> None:
        for effect in self.cores[name].step(event, self.now_ns):
            self._perform(name, effect)
        while self._to_run:
            self._run_application(self._to_run.pop(0))

    def _perform(self, name: str, effect: effects.Effect) -> None:
        match effect:
            case effects.Multicast(group_id, data):
                group = next(known for known, number in GROUP_IDS.items() if number == group_id)
                self._send(name, group, data, self.group(group))
            case effects.Transmit(birth_id, data):
                target = self.name_of(birth_id)
                self._send(name, target, data, [one for one in self.group(target) if one == target])
            case effects.WriteRecord(record):
                self.records.append((name, record))
            case effects.WriteBatch():
                self.records += [(name, record) for record in effect.records()]
            case effects.CaptureState():
                self.step(name, events.StateCaptured(self.applications[name].capture()))
            case effects.StoreState():
                if self.stores_at_once:
                    self.step(name, events.StateStored(held=True))
            case effects.ResetApplication(withdrawn=withdrawn):
                self._former[name] = (self.cores[name].standing.birth_id, withdrawn)
                self.crash(name)
            case effects.Stop():
                self.crash(name)
            case effects.StartApplication():
                self.applications[name].running = True
                self._to_run.append(name)
            case effects.RestoreState(state):
                self.applications[name].restore(state)
                self._to_run.append(name)
                if self.stores_at_once:
                    self.step(name, events.StateStored(held=True))
            case effects.ResumeThread(_, result):
                self.applications[name].results.append(result)
                self.applications[name].parked = False
                self._to_run.append(name)
            case _:
                raise AssertionError(f"a playbook's program has one thread: {effect}")

    def _send(self, source: str, to: str, data: bytes, targets: list[str]) -> None:
        datagram = Datagram(self.now_ns, source, to, data, decode(data))
        self.log.append(datagram)
        self.in_flight += [Parcel(datagram, target) for target in targets if target != source]

    def _run_application(self, name: str) -> None:
        application = self.applications.get(name)
        script = self.scripts[name.rstrip("0123456789")]
        if application is None or not application.running or application.parked:
            return
        if len(application.results) < len(script):
            application.parked = True
            self.step(name, events.OperationInvoked(1, script[len(application.results)]))

    def act(self, group: str, *operations: Operation) -> None:
        """The group's program goes on with these; a backup does so when the order information comes."""
        self.scripts[group].extend(operations)
        for name in self.group(group):
            self._run_application(name)

    # -- the network -------------------------------------------------------------------------------

    @contextmanager
    def dropping(self, *rules: Rule) -> Iterator[None]:
        """Meanwhile, parcels that a rule names are lost. Each rule must lose something."""
        self.rules += rules
        active, self._active = self._active, [*self._active, *rules]
        try:
            yield
        finally:
            self._active = active

    def partition(self, *sides: tuple[str, ...]) -> None:
        """Nothing passes between the sides, each a tuple of replicas, until `heal`."""
        self.sides = list(sides)

    def heal(self) -> None:
        self.sides = []

    def deliver(self, *rules: Rule) -> int:
        """What is in flight now (that a rule names, if any is given) arrives, in the order of sending."""
        flying, self.in_flight = self.in_flight, []
        late = [parcel for parcel in flying if rules and not any(rule.matches(parcel) for rule in rules)]
        self.in_flight = late + self.in_flight
        arriving = [parcel for parcel in flying if not any(parcel is other for other in late)]
        for parcel in arriving:
            self._arrive(parcel)
        return len(arriving)

    def drop(self, *rules: Rule) -> None:
        """What is in flight now and a rule names is lost; all of it, without rules."""
        self.rules += rules
        kept = []
        for parcel in self.in_flight:
            rule = next((rule for rule in rules if rule.matches(parcel)), None)
            if rule is not None:
                rule.matched_count += 1
            elif rules:
                kept.append(parcel)
        self.in_flight = kept

    def _arrive(self, parcel: Parcel) -> None:
        self.now_ns += FLIGHT_NS
        for rule in self._active:
            if rule.matches(parcel):
                rule.matched_count += 1
                return
        if self._are_apart(parcel.datagram.source, parcel.target) or parcel.target not in self.cores:
            return
        self.step(parcel.target, events.MessageReceived(parcel.datagram.data))

    def _are_apart(self, one: str, other: str) -> bool:
        sides = [side for side in self.sides if one in side or other in side]
        return len(sides) > 1

    # -- time --------------------------------------------------------------------------------------

    def _next_deadline(self) -> tuple[int, str]:
        deadlines = [
            (max(core.next_deadline(), self._served_ns.get(name, 0) + US), name)
            for name, core in sorted(self.cores.items())
        ]
        return min(deadlines, default=(NEVER, ""))

    def tick(self, ms: float = 0) -> None:
        """Time passes, deadlines are met, nothing is delivered."""
        self._pass_time(self.now_ns + int(ms * MS), delivering=False, done=lambda: False)

    def run(self, ms: float) -> None:
        """Time passes and everything that is sent arrives (but for what is dropped)."""
        self._pass_time(self.now_ns + int(ms * MS), delivering=True, done=lambda: False)

    def until(self, done: Callable[[], bool], ms: float = 500) -> None:
        """As `run`, until something is true, which must come to pass within that time."""
        self._pass_time(self.now_ns + int(ms * MS), delivering=True, done=done)
        assert done(), f"not within {ms} ms"

    def _pass_time(self, end_ns: int, *, delivering: bool, done: Callable[[], bool]) -> None:
        for _ in range(STEP_LIMIT):
            if done():
                return
            if delivering and self.in_flight:
                self.advance()
            elif self._next_deadline()[0] <= end_ns:
                self._meet_deadline()
            else:
                self.now_ns = max(self.now_ns, end_ns)
                return
        raise AssertionError("time does not pass")

    def advance(self) -> None:
        """The next thing happens: a parcel arrives or, if none is in flight, a deadline comes."""
        if self.in_flight:
            self._arrive(self.in_flight.pop(0))
        else:
            self._meet_deadline()

    def _meet_deadline(self) -> None:
        deadline_ns, name = self._next_deadline()
        self.now_ns = max(self.now_ns, deadline_ns)
        self._served_ns[name] = self.now_ns
        self.step(name, events.DeadlinePassed())

    # -- asking ------------------------------------------------------------------------------------

    def mark(self) -> None:
        """Questions about what was sent and recorded are about the time from now on."""
        self._mark, self.record_count_at_mark = len(self.log), len(self.records)

    def sent(self, kind: MessageType, by: str = "", to: str = "") -> list[Datagram]:
        """Since the mark. `to` is the address: a group for a multicast, a replica for a transmission."""
        self.asked_count += 1
        return [
            datagram
            for datagram in self.log[self._mark :]
            if datagram.kind == kind and _is_of(datagram.source, by) and to in ("", datagram.to)
        ]

    def recorded(self, kind: type[RecordType], by: str = "") -> list[RecordType]:
        """Since the mark, the records of this kind. Those returned count as asked about."""
        self.asked_count += 1
        found: list[RecordType] = []
        for index, (name, record) in enumerate(self.records):
            if index >= self.record_count_at_mark and isinstance(record, kind) and _is_of(name, by):
                self._answered[index] += 1
                found.append(record)
        return found

    def left(self, name: str) -> str:
        """Why that replica reset and left; it must have, since the mark."""
        reasons = [record.reason for record in self.recorded(RoleChanged, name) if record.role == "left"]
        assert reasons, f"{name} did not leave"
        return reasons[-1]


def connected(play: Playbook, *, clients: int = 1, servers: int = 2, outside: bool = False) -> Playbook:
    """Groups "s" and "c" of so many members, and a connection between them: descriptor 1 at both. `outside`:
    the client is a gateway."""
    for group, count in (("s", servers), ("c", clients)):
        for number in range(1, count + 1):
            is_gateway = outside and group == "c"
            play.join(f"{group}{number}", alone=number == 1, outside=is_gateway)
            play.until(lambda name=f"{group}{number}": play[name].has_state)  # type: ignore[misc]
    play.act("s", Accept())
    play.act("c", Connect(GROUP_IDS["s"]))
    play.until(lambda: len(play.results("c1")) == len(play.results("s1")) == 1)
    play.run(60)
    assert play.results("c1") == [1]
    return play
