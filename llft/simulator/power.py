"""The power goes, and comes back: every process dies, and what is on disk is all there is (D-64).

Of the disks of a group some are lost with the power, but never the one whose history goes furthest: an
operation that was acknowledged is on the disk of the primary that answered, and on a backup's as soon as
that has performed it. Some are torn at their ends: they were being written.
"""

from __future__ import annotations

import random

from llft.core import events
from llft.instant import MS, US
from llft.past.history import Past, furthest
from llft.simulator.cluster import Cluster, Group
from llft.simulator.state.disk import Disk
from llft.simulator.state.keeping import Keeping
from llft.simulator.topology import CLIENT

LOST_SHARE = 0.2
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
        for process in list(group.processes):
            process.vanish()
        group.processes.clear()
        _harm_disks(group, rng)
    cluster.generation += 1


def _harm_disks(group: Group, rng: random.Random) -> None:
    found = [past for past, _ in _histories(group)]
    best = max(found, key=lambda past: past.rank, default=None)
    for disk in list(group.disks):
        if rng.random() < TORN_SHARE:
            disk.tear(rng)
        if rng.random() < LOST_SHARE and best is not None and disk.name != best.directory:
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
