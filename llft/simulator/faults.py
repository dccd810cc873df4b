"""Faults as data, and the plan of a seed.

A fault says what shall happen and when; who exactly is hit is decided when it happens (by `injector`),
since nobody can know beforehand who the primary will be. The plan is made before the
world starts, from its own random stream, and is the same whatever the groups do.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from llft.identifiers import BirthId, GroupId
from llft.instant import MS, SECOND, US
from llft.simulator.partitions import PARTITIONS
from llft.simulator.profiles import Profile
from llft.simulator.topology import CLIENT, Topology

FIRST_FAULT_NS = (30 * MS, 90 * MS)
"""Not before the groups have formed: a first member has no backup."""

CASCADE_SHARE = 0.2
"""So often the next in line is to crash as well, perhaps while it is still recovering."""


@dataclass(frozen=True, slots=True)
class CrashPrimary:
    at_ns: int
    group_id: GroupId


@dataclass(frozen=True, slots=True)
class CrashBackup:
    at_ns: int
    group_id: GroupId


@dataclass(frozen=True, slots=True)
class CrashSource:
    """The primary crashes while somebody joins and gets its program from it."""

    at_ns: int
    group_id: GroupId


@dataclass(frozen=True, slots=True)
class PowerLoss:
    """All processes die at once. Servers go on from disk, clients are new ones."""

    at_ns: int
    down_ns: int
    amid_change: bool
    """Not before somebody is about to become the primary of a server."""


@dataclass(frozen=True, slots=True)
class CrashPrimaries:
    """Two connected groups lose their primaries in the same instant."""

    at_ns: int
    group_ids: tuple[GroupId, ...]


@dataclass(frozen=True, slots=True)
class LoseClient:
    """Outside the model: a client group of one member dies with its server's primary."""

    at_ns: int
    client_group_id: GroupId
    server_group_id: GroupId


@dataclass(frozen=True, slots=True)
class PausePrimary:
    at_ns: int
    group_id: GroupId
    duration_ns: int


@dataclass(frozen=True, slots=True)
class PauseBackup:
    at_ns: int
    group_id: GroupId
    duration_ns: int


@dataclass(frozen=True, slots=True)
class Restart:
    """A new process takes the place of a crashed one."""

    at_ns: int
    group_id: GroupId


@dataclass(frozen=True, slots=True)
class Partition:
    at_ns: int
    group_id: GroupId
    kind: str
    duration_ns: int


@dataclass(frozen=True, slots=True)
class LossBurst:
    """Many datagrams are lost for a while: everywhere, or on the way to one member of a group."""

    at_ns: int
    duration_ns: int
    group_id: GroupId | None = None


@dataclass(frozen=True, slots=True)
class SlowReplica:
    at_ns: int
    group_id: GroupId
    factor: int
    duration_ns: int


@dataclass(frozen=True, slots=True)
class ClockJump:
    at_ns: int
    group_id: GroupId
    by_ns: int


@dataclass(frozen=True, slots=True)
class Join:
    at_ns: int
    group_id: GroupId


@dataclass(frozen=True, slots=True)
class Leave:
    at_ns: int
    group_id: GroupId


@dataclass(frozen=True, slots=True)
class SwitchPrimary:
    at_ns: int
    group_id: GroupId


Fault = (
    CrashPrimary
    | CrashBackup
    | CrashSource
    | PowerLoss
    | CrashPrimaries
    | LoseClient
    | PausePrimary
    | PauseBackup
    | Restart
    | Partition
    | LossBurst
    | SlowReplica
    | ClockJump
    | Join
    | Leave
    | SwitchPrimary
)


@dataclass(frozen=True, slots=True)
class PerformedFault:
    """What was really done, when, and to whom."""

    fault: Fault
    at_ns: int
    victims: tuple[tuple[GroupId, BirthId], ...] = ()
    primary_count: int = 0
    """How many primaries failed by it."""

    @property
    def kind(self) -> str:
        return type(self.fault).__name__


def plan(rng: random.Random, profile: Profile, topology: Topology) -> list[Fault]:
    """The schedule of a seed. The first fault is of the profile's first kind, which is
    the primary's failure in most, and so is every third: about every other fault is one."""
    if not profile.faults:
        return []
    kinds = [kind for kind, _ in profile.faults]
    weights = [weight for _, weight in profile.faults]
    planner = _Planner(rng, topology)
    faults: list[Fault] = []
    at_ns = rng.randint(*FIRST_FAULT_NS)
    while at_ns < profile.horizon_ns:
        kind = kinds[0] if len(faults) % 3 == 0 else rng.choices(kinds, weights)[0]
        fault = planner.make(kind, at_ns)
        if fault is not None:
            faults.append(fault)
        if isinstance(fault, CrashPrimary) and rng.random() < CASCADE_SHARE:
            faults.append(CrashPrimary(at_ns + rng.randint(300 * US, 30 * MS), fault.group_id))
        at_ns += rng.randint(*profile.fault_gap_ns)
    return faults


class _Planner:
    def __init__(self, rng: random.Random, topology: Topology) -> None:
        self._rng = rng
        self._topology = topology
        self._replicated = [spec.group_id for spec in topology.groups if spec.replicas > 1]
        servers = [spec.group_id for spec in topology.groups if spec.kind != CLIENT and spec.replicas > 1]
        self._targets = servers * 2 + self._replicated
        """Servers more often: what everybody depends on is the more interesting victim."""

    def make(self, kind: str, at_ns: int) -> Fault | None:
        """None: this topology has nobody to whom that could happen."""
        if kind == "CrashPrimaries":
            return self._crash_primaries(at_ns)
        if kind == "LoseClient":
            return self._lose_client(at_ns)
        if kind == "PowerLoss":
            return PowerLoss(at_ns, self._rng.randint(5, 40) * MS, self._rng.random() < 0.5)
        if kind == "LossBurst":
            group_id = self._rng.choice([None, *(spec.group_id for spec in self._topology.groups)])
            return LossBurst(at_ns, self._rng.randint(10, 50) * MS, group_id)
        if not self._targets:
            return None
        return _MAKERS[kind](self._rng, at_ns, self._rng.choice(self._targets))

    def _crash_primaries(self, at_ns: int) -> Fault | None:
        pairs = [pair for pair in self._topology.pairs() if all(end in self._replicated for end in pair)]
        return CrashPrimaries(at_ns, self._rng.choice(pairs)) if pairs else None

    def _lose_client(self, at_ns: int) -> Fault | None:
        pairs = [
            (client, server)
            for client, server in self._topology.pairs()
            if client not in self._replicated and server in self._replicated
        ]
        return LoseClient(at_ns, *self._rng.choice(pairs)) if pairs else None


def _pause_ns(rng: random.Random) -> int:
    """Mostly long enough to be suspected (20 ms), sometimes just at the edge."""
    return rng.choice((rng.randint(5, 25), rng.randint(25, 60), rng.randint(60, 150))) * MS


def _jump_ns(rng: random.Random) -> int:
    return rng.choice((-1, 1)) * rng.choice((10 * MS, SECOND, 3600 * SECOND))


_MAKERS: dict[str, Callable[[random.Random, int, GroupId], Fault]] = {
    "CrashPrimary": lambda rng, at_ns, group_id: CrashPrimary(at_ns, group_id),
    "CrashBackup": lambda rng, at_ns, group_id: CrashBackup(at_ns, group_id),
    "CrashSource": lambda rng, at_ns, group_id: CrashSource(at_ns, group_id),
    "PausePrimary": lambda rng, at_ns, group_id: PausePrimary(at_ns, group_id, _pause_ns(rng)),
    "PauseBackup": lambda rng, at_ns, group_id: PauseBackup(at_ns, group_id, _pause_ns(rng)),
    "Partition": lambda rng, at_ns, group_id: Partition(
        at_ns, group_id, rng.choice(tuple(PARTITIONS)), rng.randint(15, 150) * MS
    ),
    "SlowReplica": lambda rng, at_ns, group_id: SlowReplica(
        at_ns, group_id, rng.randint(5, 20), rng.randint(20, 100) * MS
    ),
    "ClockJump": lambda rng, at_ns, group_id: ClockJump(at_ns, group_id, _jump_ns(rng)),
    "Join": lambda rng, at_ns, group_id: Join(at_ns, group_id),
    "Leave": lambda rng, at_ns, group_id: Leave(at_ns, group_id),
    "SwitchPrimary": lambda rng, at_ns, group_id: SwitchPrimary(at_ns, group_id),
}
