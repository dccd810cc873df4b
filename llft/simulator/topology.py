"""Which groups there are and who connects to whom.

A topology is drawn once per seed; the numbers of groups are chosen so that names read well in
a trace: clients are C1, C2, ..., the middle tier is M (group 50), the server S (group 100).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from llft.config import GroupConfig
from llft.identifiers import GroupId

MIDDLE_GROUP = 50
SERVER_GROUP = 100

CLIENT = "client"
MIDDLE = "middle"
SERVER = "server"


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """One process group: what it runs, to whom it connects, how it is replicated."""

    group_id: GroupId
    name: str
    kind: str
    """CLIENT, MIDDLE or SERVER."""
    servers: tuple[GroupId, ...]
    replicas: int
    requests: int
    variant: str
    """Of `llft.simulator.workloads`; a racy one only where the token makes that safe (D-16)."""
    config: GroupConfig


@dataclass(frozen=True, slots=True)
class Topology:
    name: str
    groups: tuple[GroupSpec, ...]

    def group(self, group_id: GroupId) -> GroupSpec:
        return next(spec for spec in self.groups if spec.group_id == group_id)

    def neighbours(self, group_id: GroupId) -> tuple[GroupId, ...]:
        """The groups at the other ends of a group's connections."""
        servers = self.group(group_id).servers
        return servers + tuple(spec.group_id for spec in self.groups if group_id in spec.servers)

    def pairs(self) -> tuple[tuple[GroupId, GroupId], ...]:
        """Connected groups, client first."""
        return tuple((spec.group_id, server) for spec in self.groups for server in spec.servers)


@dataclass(frozen=True, slots=True)
class Outline:
    """A topology before sizes and configurations are drawn."""

    client_count: int
    has_middle: bool
    replicated_clients: bool


def _one_client(rng: random.Random) -> Outline:
    return Outline(1, has_middle=False, replicated_clients=rng.random() < 0.5)


def _many_clients(rng: random.Random) -> Outline:
    return Outline(4, has_middle=False, replicated_clients=False)


def _replicated_clients(rng: random.Random) -> Outline:
    return Outline(rng.randint(2, 3), has_middle=False, replicated_clients=True)


def _three_tier(rng: random.Random) -> Outline:
    return Outline(rng.randint(1, 3), has_middle=True, replicated_clients=rng.random() < 0.3)


def _mixed(rng: random.Random) -> Outline:
    return rng.choice((_one_client, _many_clients, _replicated_clients, _three_tier))(rng)


TOPOLOGIES: dict[str, Callable[[random.Random], Outline]] = {
    "one-client": _one_client,
    "many-clients": _many_clients,
    "replicated-clients": _replicated_clients,
    "three-tier": _three_tier,
    "mixed": _mixed,
}
