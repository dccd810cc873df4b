"""Draws the groups of a seed from its profile and the options."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeVar

from llft.config import GroupConfig, Replication, ThreadMode, Timeouts
from llft.errors import MisuseError
from llft.identifiers import GroupId
from llft.instant import MS
from llft.simulator.options import SimulationOptions
from llft.simulator.profiles import Profile
from llft.simulator.topology import (
    CLIENT,
    MIDDLE,
    MIDDLE_GROUP,
    SERVER,
    SERVER_GROUP,
    TOPOLOGIES,
    GroupSpec,
    Topology,
)

Choice = TypeVar("Choice", bound=Enum)

TARGET_REQUESTS = 201
"""Application requests of one seed, over all client groups."""
TARGET_REQUESTS_VIA_MIDDLE = 108
"""The same where each of them makes the middle tier perform one of its own."""


def draw_topology(rng: random.Random, profile: Profile, options: SimulationOptions) -> Topology:
    """The groups of a seed. What the options leave open is drawn here, group by group."""
    name = options.topology or profile.topology
    if name not in TOPOLOGIES:
        raise MisuseError("unknown topology", f"choose one of {', '.join(TOPOLOGIES)}", name=name)
    if options.replicas is not None and not 1 <= options.replicas <= 5:
        raise MisuseError("bad number of replicas", "1 to 5", replicas=options.replicas)
    outline = TOPOLOGIES[name](rng)
    front = MIDDLE_GROUP if outline.has_middle else SERVER_GROUP
    target = TARGET_REQUESTS_VIA_MIDDLE if outline.has_middle else TARGET_REQUESTS
    requests = -(-target // outline.client_count)
    draw = _GroupDraw(rng, profile, options, requests)
    groups = [draw.group(SERVER_GROUP, "S", SERVER, (), replicated=True)]
    if outline.has_middle:
        groups.append(draw.group(MIDDLE_GROUP, "M", MIDDLE, (SERVER_GROUP,), replicated=True))
    for number in range(1, outline.client_count + 1):
        replicated = outline.replicated_clients
        groups.append(draw.group(number, f"C{number}", CLIENT, (front,), replicated=replicated))
    return Topology(name, tuple(groups))


def _choice(kind: type[Choice], value: str) -> Choice:
    try:
        return kind(value)
    except ValueError:
        remedy = f"choose one of {', '.join(str(one.value) for one in kind)}"
        raise MisuseError(f"unknown {kind.__name__}", remedy, value=value) from None


UNHURRIED = Timeouts(
    heartbeat_interval_ns=10 * MS,
    primary_timeout_ns=30 * MS,
    backup_timeout_ns=90 * MS,
)
"""The paper's detection time. Fewer beats than by default make more seeds in the same time."""


@dataclass(frozen=True, slots=True)
class _GroupDraw:
    """Draws one group after the other, always with the same number of draws, so that an option
    that fixes one thing does not shift the rest of the seed."""

    rng: random.Random
    profile: Profile
    options: SimulationOptions
    requests: int

    def group(
        self, group_id: GroupId, name: str, kind: str, servers: tuple[GroupId, ...], *, replicated: bool
    ) -> GroupSpec:
        rng, profile, options = self.rng, self.profile, self.options
        replicas = rng.randint(*(profile.client_replicas if kind == CLIENT else profile.replicas))
        if profile.name == "default" and kind != CLIENT and rng.random() < 0.15:
            replicas = rng.randint(4, 5)
        replication = rng.choice(tuple(Replication))
        threads = rng.choice(tuple(ThreadMode))
        racy = rng.random() < 0.4
        pool = "-pool" if rng.random() < 0.3 else ""
        if kind != CLIENT:
            replication = profile.replication or replication
            threads = profile.threads or threads
        if options.replicas is not None:
            replicas = options.replicas
        if options.replication is not None:
            replication = _choice(Replication, options.replication)
        if options.threads is not None:
            threads = _choice(ThreadMode, options.threads)
        config = GroupConfig(
            group_id=group_id,
            replication=replication,
            threads=threads,
            partition=profile.partition,
            output_commit_level=profile.output_commit_level if kind != CLIENT else 0,
            durable=profile.durable and kind != CLIENT,
            outside=profile.outside_clients and kind == CLIENT,
            timeouts=replace(UNHURRIED, idle_connection_bound_ns=profile.idle_connection_bound_ns),
        )
        return GroupSpec(
            group_id=group_id,
            name=name,
            kind=kind,
            servers=servers,
            replicas=replicas if replicated else 1,
            requests=self.requests,
            variant=("racy" if racy and threads is ThreadMode.TOKEN else "locked") + pool,
            config=config,
        )
