"""Kinds of partitions: which directed links they block, by the role of the processes at the ends.

The interesting question is always on which side of the cut the clients are, and whether both
sides know of it. `within-group` is the hardest: primary and backups lose each other while the
clients hear both, and must take sides by precedence (D-06).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from llft.simulator.cluster import Cluster, Group
from llft.simulator.process import Process

Links = list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class _Scene:
    """Who stands where when the cut is made."""

    rng: random.Random
    primary: Process
    members: list[Process]
    """The group without its primary."""
    strangers: list[Process]
    """The processes of all other groups."""
    neighbours: list[Process]
    """The processes of one group that it is connected to."""

    @property
    def others(self) -> list[Process]:
        return self.members + self.strangers


def blocked_links(rng: random.Random, cluster: Cluster, group: Group, kind: str) -> Links:
    """The links to block for a partition of `group`, which has a primary."""
    primary = group.primary()
    assert primary is not None, "the injector partitions settled groups only"
    groups = cluster.groups.values()
    neighbour = rng.choice(cluster.topology.neighbours(group.spec.group_id))
    scene = _Scene(
        rng=rng,
        primary=primary,
        members=[process for process in group.processes if process is not primary],
        strangers=[process for other in groups if other is not group for process in other.processes],
        neighbours=cluster.groups[neighbour].processes,
    )
    return PARTITIONS[kind](scene)


def _isolate_primary(scene: _Scene) -> Links:
    return _both_ways([scene.primary], scene.others)


def _primary_with_clients(scene: _Scene) -> Links:
    return _both_ways([scene.primary, *scene.strangers], scene.members)


def _within_group(scene: _Scene) -> Links:
    return _both_ways([scene.primary], scene.members)


def _primary_deaf(scene: _Scene) -> Links:
    return _one_way(scene.others, [scene.primary])


def _primary_mute(scene: _Scene) -> Links:
    return _one_way([scene.primary], scene.others)


def _backup_deaf(scene: _Scene) -> Links:
    victim = scene.rng.choice(scene.members)
    everybody = [scene.primary, *scene.others]
    return _one_way([process for process in everybody if process is not victim], [victim])


def _between_groups(scene: _Scene) -> Links:
    return _both_ways([scene.primary, *scene.members], scene.neighbours)


def _split_all(scene: _Scene) -> Links:
    here: list[Process] = [scene.primary]
    there: list[Process] = []
    for process in scene.others:
        (here if scene.rng.random() < 0.5 else there).append(process)
    return _both_ways(here, there)


PARTITIONS: dict[str, Callable[[_Scene], Links]] = {
    "isolate-primary": _isolate_primary,
    "primary-with-clients": _primary_with_clients,
    "within-group": _within_group,
    "primary-deaf": _primary_deaf,
    "primary-mute": _primary_mute,
    "backup-deaf": _backup_deaf,
    "between-groups": _between_groups,
    "split-all": _split_all,
}


def _one_way(senders: Iterable[Process], receivers: Iterable[Process]) -> Links:
    listeners = list(receivers)
    return [(sender.number, receiver.number) for sender in senders for receiver in listeners]


def _both_ways(some: Iterable[Process], others: Iterable[Process]) -> Links:
    here, there = list(some), list(others)
    return _one_way(here, there) + _one_way(there, here)
