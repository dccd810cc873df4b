"""The cluster: all groups and their processes, and what an operator or an accident does to them.

The cluster knows who is alive; processes know only their own core. A crashed process is gone from
its group's list at once, so that nothing new reaches it, while what it sent is still
on its way. A restart is always a new process with a new birth id (paper, fault model).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from llft.config import GroupConfig, Replication, ThreadMode, Timeouts
from llft.core import events
from llft.identifiers import BirthId, GroupId
from llft.instant import MS, US
from llft.journal.record import Record
from llft.simulator.clocks import LocalClock
from llft.simulator.interfaces import Core, Program
from llft.simulator.network import CERTIFICATE_MIN_NS, Network
from llft.simulator.notes import FAULT_KIND
from llft.simulator.process import Process
from llft.simulator.profiles import Profile
from llft.simulator.state.carried import Carried
from llft.simulator.state.disk import Disk
from llft.simulator.state.keeping import Keeping
from llft.simulator.topology import CLIENT, GroupSpec, Topology
from llft.simulator.world import World

CERTIFICATE_MAX_NS = 2 * MS
STOP_SEEN_NS = 3 * Timeouts().heartbeat_interval_ns
"""Half of what the worlds' replicas take for a pause (`Replica.pause_ns`): a primary may be replaced that
goes on without having noticed, which live ones can be too (D-73)."""
LOAD_PERCENT = (60, 110)
"""Users of clients think between operations, so that the load lasts about as long as the faults do."""
OPERATIONS_PER_REQUEST = 5

CoreFactory = Callable[[GroupConfig, BirthId, Callable[[int], int], random.Random], Core]
ProgramFactory = Callable[[GroupSpec], Program]


@dataclass(slots=True)
class Group:
    spec: GroupSpec
    think_ns: int
    make_program: ProgramFactory
    keeps_past: bool = False
    """Whether its members keep birth logs and checkpoints, as `llft run` has it; else a state carries all."""
    disks: list[Disk] = field(default_factory=list)
    disk_count: int = 0
    """Those that were lost among them: no two have the same name."""
    processes: list[Process] = field(default_factory=list)
    """Those that live, the oldest first."""
    started_count: int = 0

    def new_program(self) -> Program:
        return self.make_program(self.spec)

    @property
    def primaries(self) -> list[Process]:
        return [process for process in self.processes if process.core.role == "primary"]

    def primary(self) -> Process | None:
        """The primary; of competing ones that which wins (D-06)."""
        best: Process | None = None
        for process in self.primaries:
            if best is None or process.core.view.supersedes(best.core.view):
                best = process
        return best

    def backups(self) -> list[Process]:
        """Those that could take over now: they run, and they have the group's state."""
        able = [process for process in self.processes if not (process.paused or process.leaving)]
        able = [process for process in able if not process.past.fetching]
        return [process for process in able if process.core.role == "backup" and process.core.has_state]

    def settled(self) -> bool:
        """One primary, all others its backups with state, all in its view, and all running."""
        primary = self.primary()
        if primary is None or primary.paused or len(self.backups()) != len(self.processes) - 1:
            return False
        view = primary.core.view
        size = len(self.processes)
        return all(
            process.core.view == view and len(process.core.membership) == size for process in self.processes
        )

    def caught_up(self) -> bool:
        """Every replica that executes has executed the same."""
        if self.spec.config.replication is Replication.SEMI_PASSIVE:
            return True
        if any(process.past.restoring for process in self.processes):
            return False
        counts = [process.core.executed for process in self.processes]
        return all(count == counts[0] for count in counts)


class Cluster:
    def __init__(
        self,
        world: World,
        network: Network,
        profile: Profile,
        topology: Topology,
        *,
        make_core: CoreFactory,
        make_program: ProgramFactory,
    ) -> None:
        self.world = world
        self.network = network
        self.profile = profile
        self.topology = topology
        self.records: list[Record] = []
        self.processes: list[Process] = []
        """All that ever were."""
        self.core_failures: list[str] = []
        self.objections: list[str] = []
        """To what was sent, by `watch`."""
        self.past_objections: list[str] = []
        """To what was done with a program's past, by those who keep it (`state`)."""
        self.generation = 0
        """How often the power has gone."""
        self._make_core = make_core
        self._birth_count = 0
        self._clock_rng = world.stream("clocks")
        self._rng = world.stream("cluster")
        self._stop_rng = world.stream("stops")
        self.groups: dict[GroupId, Group] = {}
        for spec in topology.groups:
            load_ns = profile.horizon_ns * self._rng.randint(*LOAD_PERCENT) // 100
            think_ns = load_ns // (spec.requests * OPERATIONS_PER_REQUEST) if spec.kind == CLIENT else 0
            self.groups[spec.group_id] = Group(spec, think_ns, make_program, _keeps_past(spec, profile))
            world.trace.group_names[spec.group_id] = spec.name

    # Births.

    def new_core(self, process: Process) -> tuple[BirthId, Core]:
        self._birth_count += 1
        birth_id = BirthId(process.number + 1, 1000 + self._birth_count, self.world.now_ns + 1)
        rng = self.world.stream(f"replica/{birth_id}")
        return birth_id, self._make_core(process.group.spec.config, birth_id, process.clock.read, rng)

    def new_past(self, process: Process) -> Keeping | Carried:
        """A process that takes the place of a dead one has its disk."""
        group = process.group
        if not group.keeps_past:
            return Carried(process.application)
        if not self.profile.durable:
            return Keeping(process, None, generation=self.generation)
        free = [disk for disk in group.disks if not disk.in_use]
        if not free:
            group.disk_count += 1
            free = [Disk(f"replica-{group.disk_count}")]
            group.disks += free
        return Keeping(process, free[0], generation=self.generation)

    def start(self) -> None:
        """Bring up all groups: one member is told that it is the first, the others join it;
        or, at a cold start, all of them search for each other."""
        for group in self.groups.values():
            cold = group.spec.replicas > 1 and self._rng.random() < self.profile.cold_start
            delay_ns = self._rng.randint(0, 2 * MS)
            for index in range(group.spec.replicas):
                event = events.Started(alone=index == 0 and not cold)
                self.world.at(delay_ns, self._start_later, (group, event))
                delay_ns += self._rng.randint(500 * US, 4 * MS)

    def _start_later(self, argument: tuple[Group, events.Started]) -> None:
        self._start_process(*argument)

    def _start_process(self, group: Group, event: events.Started) -> Process:
        process = self.new_process(group)
        process.step(event)
        return process

    def new_process(self, group: Group) -> Process:
        group.started_count += 1
        number = len(self.processes)
        name = f"{group.spec.name}.{group.started_count}"
        profile = self.profile
        clock = LocalClock(
            self.world,
            self._clock_rng,
            skew_limit_ns=profile.skew_limit_ns,
            drift_limit_ppm=profile.drift_limit_ppm,
        )
        process = Process(self, group, number, name, clock, self.world.stream(f"scheduling/{number}"))
        if self._rng.random() < profile.slow_share:
            process.application.slowness = self._rng.randint(5, 20)
        self.processes.append(process)
        group.processes.append(process)
        return process

    def restart(self, group: Group) -> Process:
        """A new process joins. Of a group with no process left it can only search in vain, and
        then be the first of a new one."""
        process = self._start_process(group, events.Started(may_found=False))
        self.note_fault(f"start {process.name}")
        return process

    # Failures.

    def crash(self, process: Process) -> None:
        self.note_fault(f"crash {process.label()}")
        self._remove(process)

    def on_stopped(self, process: Process) -> None:
        """It left on purpose, and its process ended."""
        self.note_fault(f"end of {process.label()}")
        self._remove(process)

    def on_core_failed(self, process: Process, explanation: str) -> None:
        self.core_failures.append(explanation)
        self.note_fault(f"core failed {explanation}")
        self._remove(process)

    def _remove(self, process: Process) -> None:
        process.vanish()
        if process in process.group.processes:
            process.group.processes.remove(process)
        self._certify_death(process)

    def _certify_death(self, dead: Process) -> None:
        """D-23: the kernel of the dead process closes its liveness connections; a closed path
        carries nothing, and sometimes the host dies as well."""
        for peer in dead.group.processes:
            delay_ns = self._rng.randint(CERTIFICATE_MIN_NS, CERTIFICATE_MAX_NS)
            if self._rng.random() >= self.profile.certificate:
                continue
            if not self.network.is_blocked(dead.number, peer.number):
                self.world.at(self.world.now_ns + delay_ns, peer.happen, events.PeerDied(dead.birth_id))

    def pause(self, process: Process, duration_ns: int) -> None:
        self.note_fault(f"pause {process.label()} for {duration_ns // MS} ms")
        process.pause()
        seen_ns = self.world.now_ns + STOP_SEEN_NS + self._stop_rng.randint(0, MS)
        self.world.at(seen_ns, self._tell_stop, process)
        self.world.at(self.world.now_ns + duration_ns, self._go_on, process)

    def _tell_stop(self, stopped: Process) -> None:
        """D-73: who is on the same host sees that it is stopped, or that it merely does not run."""
        told: type[events.PeerRuns | events.PeerStopped]
        told = events.PeerRuns if self.profile.starves else events.PeerStopped
        if stopped.alive and stopped.paused:
            for peer in stopped.group.processes:
                if self._stop_rng.random() < self.profile.certificate and not peer.paused:
                    peer.happen(told(stopped.birth_id))
            if self.profile.starves:
                self.world.at(self.world.now_ns + STOP_SEEN_NS, self._tell_stop, stopped)

    def _go_on(self, process: Process) -> None:
        if process.alive and process.paused:
            self.note_fault(f"continue {process.label()}")
            process.go_on(timer_first=self._rng.random() < 0.5)

    # Observers.

    def listeners(self, group_id: GroupId) -> Sequence[Process]:
        group = self.groups.get(group_id)
        return group.processes if group else ()

    def settled(self) -> bool:
        return all(group.settled() for group in self.groups.values() if group.processes)

    def note_fault(self, text: str) -> None:
        trace = self.world.trace
        trace.add(self.world.now_ns, 0xFFFF, FAULT_KIND, len(text))
        if trace.tracing:
            trace.say(self.world.now_ns, "!!", text)


def _keeps_past(spec: GroupSpec, profile: Profile) -> bool:
    """As in `llft run`: of a client nobody keeps the past; checkpoints are taken under the token."""
    config = spec.config
    semi_active = config.replication is Replication.SEMI_ACTIVE
    return profile.keeps_past and spec.kind != CLIENT and semi_active and config.threads is ThreadMode.TOKEN
