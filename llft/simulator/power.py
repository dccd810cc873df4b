"""The power goes, and comes back: every process dies, and what is on disk is all there is (D-64).

Of the disks of a group some are lost with the power: either some of those whose histories do not go furthest,
or, where the primary counts on a backup's disk (D-71), just the one that does. Some are torn at their ends:
they were being written.
"""

from __future__ import annotations

import random
from typing import Any

from llft.core import events
from llft.instant import MS, US
from llft.past.history import Past, furthest
from llft.simulator.cluster import Cluster, Group
from llft.simulator.process import Process
from llft.simulator.state.disk import Disk
from llft.simulator.state.keeping import Keeping
from llft.simulator.topology import CLIENT

LOST_SHARE = 0.2
BEST_LOST_SHARE = 0.4
TORN_SHARE = 0.4
CHANGING = ("proposing", "recovering")


def can_go_on(cluster: Cluster, *, amid_change: bool) -> bool:
    """Every server has a history, so that nobody is asked for what is lost for good; and one of them is in
    the midst of a change of its primary, if that is wanted."""
    servers = [group for group in cluster.groups.values() if group.spec.kind != CLIENT]
    if amid_change and not any(one.core.role in CHANGING for group in servers for one in group.processes):
        return False
    return all(group.keeps_past and _histories(group) for group in servers)


def _histories(group: Group) -> list[tuple[Past, Disk]]:
    found = [(disk.past(), disk) for disk in group.disks]
    return [(past, disk) for past, disk in found if past is not None]


def lose(cluster: Cluster, rng: random.Random) -> None:
    cluster.note_fault("the power goes")
    for group in cluster.groups.values():
        covered = any(_counts_on_others(process) for process in group.processes)
        for process in list(group.processes):
            process.vanish()
        group.processes.clear()
        _harm_disks(group, rng, covered=covered)
    cluster.generation += 1


def _counts_on_others(process: Process) -> bool:
    core: Any = process.core
    return core.role == "primary" and bool(core.asking.durability.covers_committed)


def _harm_disks(group: Group, rng: random.Random, *, covered: bool) -> None:
    found = [past for past, _ in _histories(group)]
    best = max(found, key=lambda past: past.rank, default=None)
    if best is None:
        return
    best_is_lost = covered and rng.random() < BEST_LOST_SHARE
    for disk in list(group.disks):
        is_best = disk.name == best.directory
        if rng.random() < TORN_SHARE:
            disk.tear(rng)
        if is_best if best_is_lost else rng.random() < LOST_SHARE and not is_best:
            group.disks.remove(disk)


def come_back(cluster: Cluster, rng: random.Random) -> None:
    """Servers from disk, clients anew; the others of each group join the first."""
    cluster.note_fault("the power is back")
    for group in cluster.groups.values():
        found = _histories(group)
        best = furthest(past for past, _ in found)
        process = cluster.new_process(group)
        if best is None:
            process.step(events.Started(alone=True))
        else:
            assert isinstance(process.past, Keeping)
            process.past.go_on(best, next(disk.state for past, disk in found if past is best))
        delay_ns = 0
        for _ in range(group.spec.replicas - 1):
            delay_ns += rng.randint(500 * US, 4 * MS)
            cluster.world.at(cluster.world.now_ns + delay_ns, _join, (cluster, group, cluster.generation))


def _join(argument: tuple[Cluster, Group, int]) -> None:
    cluster, group, generation = argument
    if generation == cluster.generation:  # else the power has gone again
        cluster.restart(group)
