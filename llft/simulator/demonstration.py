"""The run that `narrate` tells of: a bank of three replicas, two clients, two failures of a primary.

It is a simulation like any other, with the real core and judged by the same checkers, but its topology and
its faults are chosen instead of drawn from the seed, and its network has a tap: elections
and recoveries are over in a few datagrams, which no journal records.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from llft.config import GroupConfig, Replication, ThreadMode
from llft.instant import MS
from llft.journal.record import ConnectionEnded
from llft.simulator.checkers import check_all
from llft.simulator.cluster import Cluster
from llft.simulator.faults import CrashPrimary
from llft.simulator.injector import Injector
from llft.simulator.network import Endpoint, LinkQuality, Network
from llft.simulator.options import SimulationOptions
from llft.simulator.parts import make_program, make_replica
from llft.simulator.profiles import Profile
from llft.simulator.runner import Simulation
from llft.simulator.topology import CLIENT, SERVER, SERVER_GROUP, GroupSpec, Topology
from llft.simulator.workloads.protocol import ACCEPTED_OUTCOME, Reply
from llft.simulator.world import World
from llft.wire.header import flags_of
from llft.wire.messages import MessageFlag, MessageType

BANK = "bank"
CLIENTS = ("alice", "bob")
REPLICAS = 3
REQUESTS_PER_CLIENT = 120
KILL_NS = 90 * MS
POWER_LOSS_NS = 260 * MS
PROFILE = Profile(
    "demo",
    "a process is killed, later a host loses its power",
    horizon_ns=400 * MS,
    certificate=1.0,
    quality=LinkQuality(loss=0.002),
)
ALWAYS_TAPPED = (
    MessageType.PROPOSE_PRIMARY_ACK,
    MessageType.NEW_PRIMARY_VIEW,
    MessageType.NEW_PRIMARY_VIEW_ACK,
)
CHANGES = ("replies", "exactly_once")
"""The properties that speak of what clients read."""


class Tapped(NamedTuple):
    at_ns: int
    sender: int
    receiver: int
    message_type: MessageType
    data: bytes


class TappedNetwork(Network):
    """A network that remembers the datagrams of elections and recoveries."""

    __slots__ = ("tapped",)

    def __init__(self, world: World, quality: LinkQuality) -> None:
        super().__init__(world, world.stream("network"), quality)
        self.tapped: list[Tapped] = []

    def send(self, sender: int, receiver: Endpoint, data: bytes) -> None:
        if _is_wanted(data):
            now_ns = self._world.now_ns
            self.tapped.append(Tapped(now_ns, sender, receiver.number, MessageType(data[1]), data))
        super().send(sender, receiver, data)


def _is_wanted(data: bytes) -> bool:
    """Elections, questions and answers; and KeepAlives that say that a connection is over."""
    if data[1] == MessageType.KEEP_ALIVE:
        return bool(flags_of(data) & MessageFlag.RESET)
    return data[1] in ALWAYS_TAPPED


class Demonstration(Simulation):
    """A simulation whose topology and faults are chosen instead of drawn."""

    def __init__(self, seed: int) -> None:
        self.options = SimulationOptions(profile=PROFILE.name)
        self.profile = PROFILE
        self.world = world = World(seed)
        self.topology = _topology()
        self.network = self.tap = TappedNetwork(world, PROFILE.quality)
        self.cluster = Cluster(
            world, self.network, PROFILE, self.topology, make_core=make_replica, make_program=make_program
        )
        kills = [CrashPrimary(KILL_NS, SERVER_GROUP), CrashPrimary(POWER_LOSS_NS, SERVER_GROUP)]
        self.injector = Injector(self.cluster, kills)
        world.at(POWER_LOSS_NS - 1, self._lose_certificates)
        self.quiesced = False

    def _lose_certificates(self, _: None) -> None:
        """A host without power closes no connection: only silence tells (D-23)."""
        self.cluster.profile = replace(PROFILE, certificate=0.0)


def _topology() -> Topology:
    def group(number: int, name: str, kind: str, servers: tuple[int, ...], replicas: int) -> GroupSpec:
        config = GroupConfig(number, Replication.SEMI_ACTIVE, ThreadMode.TOKEN)
        return GroupSpec(number, name, kind, servers, replicas, REQUESTS_PER_CLIENT, "locked", config)

    clients = [group(index + 1, name, CLIENT, (SERVER_GROUP,), 1) for index, name in enumerate(CLIENTS)]
    return Topology("demo", (group(SERVER_GROUP, BANK, SERVER, (), REPLICAS), *clients))


@dataclass(frozen=True)
class Verdict:
    requests: int
    replies: int
    confirmed: int
    duplicated: int
    changed: int
    """Clients read something else than the bank's state explains."""
    broken: int
    findings: tuple[str, ...]
    """Everything that the checkers have to say."""

    @property
    def lost(self) -> int:
        return self.requests - self.replies - self.confirmed

    @property
    def clean(self) -> bool:
        return not (self.lost or self.duplicated or self.changed or self.broken or self.findings)


def judge(run: Demonstration) -> Verdict:
    evidence = run.evidence()
    violations = check_all(evidence)
    findings = [*run.cluster.core_failures, *(one.explanation for one in violations)]
    if not run.quiesced:
        findings.append(f"It did not come to rest: {run.describe_unrest()}.")
    programs: dict[str, Any] = {
        group.spec.name: (group.primary() or run.cluster.processes[0]).program
        for group in run.cluster.groups.values()
    }
    outcomes = [outcome for name in CLIENTS for _, outcome in programs[name].history]
    resets = {
        one.connection for one in evidence.records if type(one) is ConnectionEnded and one.how == "reset"
    }
    return Verdict(
        requests=REQUESTS_PER_CLIENT * len(CLIENTS),
        replies=sum(isinstance(outcome, Reply) for outcome in outcomes),
        confirmed=sum(outcome == ACCEPTED_OUTCOME for outcome in outcomes),
        duplicated=len(getattr(programs[BANK], "duplicates", ())),
        changed=sum(one.property in CHANGES for one in violations),
        broken=len(resets),
        findings=tuple(findings),
    )
