"""The injector performs a plan of faults, and never takes more than the fault model allows.

Laws, in a profile that is in the model:

1. *Sufficient replication*: a member is failed only while another one is a running backup
   that has the group's state; whoever crashed is restarted after a while.
2. *One connected failure at a time*: a primary is failed only while the groups it is connected to are
   settled. Order information lives in the group itself and, reflected, in the remote groups (D-04); if
   loss kept it from the backups here and the only remote member that got it fails too, no
   copy exists any more, which is outside the model.
3. Therefore two connected primaries are failed together only in a *quiet* network: no loss from
   30 ms before (so that everything older has been retransmitted) until 60 ms after (so that both
   recoveries are over). With loss on both paths four copies can be lost at once: that is
   the profile `double-crash-loss`.
4. A partition begins and nothing else fails before it is healed and all groups are settled again.

A fault whose condition does not hold is tried again for a while, then skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from llft.config import PartitionPolicy
from llft.core import events
from llft.identifiers import GroupId
from llft.instant import MS
from llft.simulator import faults, power
from llft.simulator.cluster import Cluster
from llft.simulator.conditions import Conditions
from llft.simulator.faults import Fault, PerformedFault
from llft.simulator.partitions import blocked_links
from llft.simulator.process import Process

RETRY_NS = 5 * MS
BRIEF_NS = MS // 4
"""A joiner, or a change of the primary, is there for a short time."""
PATIENCE_NS = 400 * MS
QUIET_BEFORE_NS = 30 * MS
QUIET_AFTER_NS = 60 * MS
RESTART_NS = (15 * MS, 90 * MS)
SUSPICION_NS = 20 * MS
"""A primary that is silent for longer counts as failed."""
MAX_REPLICAS = 5


class Injector:
    def __init__(self, cluster: Cluster, plan: Iterable[Fault]) -> None:
        self.performed: list[PerformedFault] = []
        self.skipped_count = 0
        self._cluster = cluster
        self._world = cluster.world
        self._network = cluster.network
        self._rng = cluster.world.stream("injector")
        self._in_model = cluster.profile.in_model
        self._may = Conditions(cluster)
        self._outstanding_count = 0
        self._dark = False
        """The power is off."""
        for fault in plan:
            if isinstance(fault, faults.CrashPrimaries) and self._in_model:
                self._later(fault.at_ns - QUIET_BEFORE_NS, self._begin_quiet, None)
            self._later(fault.at_ns, self._attempt, fault)

    @property
    def idle(self) -> bool:
        """Everything planned was performed or skipped, and undone where it is to be undone."""
        return self._outstanding_count == 0

    def _later(self, at_ns: int, action: Callable[[Any], None], argument: Any) -> None:
        self._outstanding_count += 1
        self._world.at(at_ns, self._act, (action, argument))

    def _act(self, todo: tuple[Callable[[Any], None], Any]) -> None:
        self._outstanding_count -= 1
        action, argument = todo
        action(argument)

    def _attempt(self, fault: Fault) -> None:
        performed = None if self._dark else _PERFORMERS[type(fault)](self, fault)
        if performed is not None:
            self.performed.append(performed)
        elif self._world.now_ns < fault.at_ns + PATIENCE_NS:
            retry_ns = BRIEF_NS if isinstance(fault, (faults.PowerLoss, faults.CrashSource)) else RETRY_NS
            self._later(self._world.now_ns + retry_ns, self._attempt, fault)
            return
        else:
            self.skipped_count += 1
        if isinstance(fault, faults.CrashPrimaries) and self._in_model:
            self._later(self._world.now_ns + QUIET_AFTER_NS, self._end_quiet, None)

    def _begin_quiet(self, _: None) -> None:
        self._network.begin_quiet()

    def _end_quiet(self, _: None) -> None:
        self._network.end_quiet()

    def _done(self, fault: Fault, victims: Iterable[Process] = (), primary_count: int = 0) -> PerformedFault:
        named = tuple((victim.group.spec.group_id, victim.birth_id) for victim in victims)
        return PerformedFault(fault, self._world.now_ns, named, primary_count)

    # Crashes.

    def _crash(self, process: Process) -> None:
        self._cluster.crash(process)
        self._plan_restart(process.group.spec.group_id)

    def _plan_restart(self, group_id: GroupId) -> None:
        at_ns = self._world.now_ns + self._rng.randint(*RESTART_NS)
        self._later(at_ns, self._attempt, faults.Restart(at_ns, group_id))

    def _restart(self, fault: faults.Restart) -> PerformedFault | None:
        group = self._may.group(fault.group_id)
        if len(group.processes) >= MAX_REPLICAS:
            return self._done(fault)
        return self._done(fault, [self._cluster.restart(group)])

    def _crash_primary(self, fault: faults.CrashPrimary | faults.CrashSource) -> PerformedFault | None:
        victim = self._may.fail_head(self._may.group(fault.group_id))
        if victim is None:
            return None
        done = self._done(fault, [victim], primary_count=1)
        self._crash(victim)
        return done

    def _crash_source(self, fault: faults.CrashSource) -> PerformedFault | None:
        group = self._may.group(fault.group_id)
        if not any(process.past.fetching for process in group.processes):
            return None
        return self._crash_primary(fault)

    def _power_loss(self, fault: faults.PowerLoss) -> PerformedFault | None:
        cluster = self._cluster
        if not self._may.at_peace() or not power.can_go_on(cluster, amid_change=fault.amid_change):
            return None
        self._dark = True
        failed = [group.primary() for group in cluster.groups.values()]
        done = self._done(fault, primary_count=sum(primary is not None for primary in failed))
        power.lose(cluster, self._rng)
        self._later(self._world.now_ns + fault.down_ns, self._power_back, None)
        return done

    def _power_back(self, _: None) -> None:
        self._dark = False
        power.come_back(self._cluster, self._rng)

    def _crash_backup(self, fault: faults.CrashBackup) -> PerformedFault | None:
        group = self._may.group(fault.group_id)
        if not (self._may.at_peace() and group.settled() and group.backups()):
            return None
        victim = self._rng.choice(group.backups())
        if group.spec.config.partition is PartitionPolicy.MAJORITY and not self._may.expendable(
            group, victim
        ):
            return None
        self._crash(victim)
        return self._done(fault, [victim])

    def _crash_primaries(self, fault: faults.CrashPrimaries) -> PerformedFault | None:
        groups = [self._may.group(group_id) for group_id in fault.group_ids]
        victims = [group.primary() for group in groups]
        if not self._may.at_peace() or not all(map(self._may.expendable, groups, victims)):
            return None
        if not all(group.settled() for group in groups):
            return None
        if not all(
            self._may.neighbours_settled(group_id, but=fault.group_ids) for group_id in fault.group_ids
        ):
            return None
        found = [victim for victim in victims if victim is not None]
        done = self._done(fault, found, primary_count=len(found))
        for victim in found:
            self._crash(victim)
        return done

    def _lose_client(self, fault: faults.LoseClient) -> PerformedFault | None:
        client, server = self._may.group(fault.client_group_id), self._may.group(fault.server_group_id)
        victim = server.primary()
        if victim is None or not client.processes or not self._may.expendable(server, victim):
            return None
        lost = client.processes[0]
        done = self._done(fault, [lost, victim], primary_count=2)
        self._cluster.crash(lost)
        self._crash(victim)
        return done

    # Timing faults.

    def _pause(self, process: Process, duration_ns: int) -> None:
        self._cluster.pause(process, duration_ns)
        self._later(self._world.now_ns + duration_ns, self._nothing, None)

    def _nothing(self, _: None) -> None:
        """The cluster itself ends the pause; the injector only waits for it."""

    def _pause_primary(self, fault: faults.PausePrimary) -> PerformedFault | None:
        victim = self._may.fail_head(self._may.group(fault.group_id))
        if victim is None:
            return None
        self._pause(victim, fault.duration_ns)
        return self._done(fault, [victim], primary_count=int(fault.duration_ns > SUSPICION_NS))

    def _pause_backup(self, fault: faults.PauseBackup) -> PerformedFault | None:
        group = self._may.group(fault.group_id)
        if not (self._may.at_peace() and group.settled() and group.backups()):
            return None
        victim = self._rng.choice(group.backups())
        self._pause(victim, fault.duration_ns)
        return self._done(fault, [victim])

    def _slow_replica(self, fault: faults.SlowReplica) -> PerformedFault | None:
        group = self._may.group(fault.group_id)
        if not group.processes:
            return None
        victim = self._rng.choice(group.processes)
        self._later(
            self._world.now_ns + fault.duration_ns, self._hurry, (victim, victim.application.slowness)
        )
        victim.application.slowness = fault.factor
        self._cluster.note_fault(f"slow {victim.label()} x{fault.factor}")
        return self._done(fault, [victim])

    def _hurry(self, argument: tuple[Process, int]) -> None:
        process, slowness = argument
        process.application.slowness = slowness

    def _clock_jump(self, fault: faults.ClockJump) -> PerformedFault | None:
        group = self._may.group(fault.group_id)
        if not group.processes:
            return None
        victim = self._rng.choice(group.processes)
        victim.clock.jump(fault.by_ns)
        self._cluster.note_fault(f"clock of {victim.label()} set by {fault.by_ns // MS} ms")
        return self._done(fault, [victim])

    # The network.

    def _loss_burst(self, fault: faults.LossBurst) -> PerformedFault | None:
        profile = self._cluster.profile
        quality = replace(profile.quality, loss=profile.burst_loss)
        listeners = () if fault.group_id is None else self._cluster.listeners(fault.group_id)
        victims = [self._rng.choice(listeners)] if listeners else []
        self._network.set_quality(quality, receiver=victims[0].number if victims else None)
        self._later(self._world.now_ns + fault.duration_ns, self._end_burst, None)
        where = f"to {victims[0].label()}" if victims else "everywhere"
        self._cluster.note_fault(f"loss burst {where} for {fault.duration_ns // MS} ms")
        return self._done(fault, victims)

    def _end_burst(self, _: None) -> None:
        self._network.set_quality(None)

    def _partition(self, fault: faults.Partition) -> PerformedFault | None:
        group = self._may.group(fault.group_id)
        primary = group.primary()
        if primary is None or not (self._may.at_peace() and self._cluster.settled() and group.backups()):
            return None
        self._network.block(blocked_links(self._rng, self._cluster, group, fault.kind))
        self._may.unhealed = True
        self._later(self._world.now_ns + fault.duration_ns, self._heal, None)
        self._cluster.note_fault(f"partition {fault.kind} of {primary.label()}, {fault.duration_ns // MS} ms")
        hit = fault.kind not in ("backup-deaf", "between-groups") and fault.duration_ns > SUSPICION_NS
        return self._done(fault, [primary], primary_count=int(hit))

    def _heal(self, _: None) -> None:
        self._network.heal()
        self._cluster.note_fault("partition healed")

    # The operator.

    def _join(self, fault: faults.Join) -> PerformedFault | None:
        group = self._may.group(fault.group_id)
        if len(group.processes) >= MAX_REPLICAS or not group.settled() or not self._may.at_peace():
            return None
        return self._done(fault, [self._cluster.restart(group)])

    def _leave(self, fault: faults.Leave) -> PerformedFault | None:
        group = self._may.group(fault.group_id)
        if not (self._may.at_peace() and group.settled() and group.backups()):
            return None
        if not self._may.neighbours_settled(fault.group_id):
            return None
        victim = self._rng.choice(group.processes)
        done = self._done(fault, [victim])
        self._cluster.note_fault(f"ask {victim.label()} to leave")
        victim.leave()
        self._plan_restart(fault.group_id)
        return done

    def _switch_primary(self, fault: faults.SwitchPrimary) -> PerformedFault | None:
        group = self._may.group(fault.group_id)
        victim = self._may.fail_head(group)
        if victim is None or not group.settled():
            return None
        self._cluster.note_fault(f"ask {victim.label()} to switch")
        victim.happen(events.SwitchRequested())
        return self._done(fault, [victim])


_PERFORMERS: dict[type, Callable[[Injector, Any], PerformedFault | None]] = {
    faults.CrashPrimary: Injector._crash_primary,
    faults.CrashBackup: Injector._crash_backup,
    faults.CrashSource: Injector._crash_source,
    faults.PowerLoss: Injector._power_loss,
    faults.CrashPrimaries: Injector._crash_primaries,
    faults.LoseClient: Injector._lose_client,
    faults.PausePrimary: Injector._pause_primary,
    faults.PauseBackup: Injector._pause_backup,
    faults.Restart: Injector._restart,
    faults.Partition: Injector._partition,
    faults.LossBurst: Injector._loss_burst,
    faults.SlowReplica: Injector._slow_replica,
    faults.ClockJump: Injector._clock_jump,
    faults.Join: Injector._join,
    faults.Leave: Injector._leave,
    faults.SwitchPrimary: Injector._switch_primary,
}
