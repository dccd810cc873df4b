"""Profiles: which faults a simulation has, and how the groups are made.

A profile is data. `in_model` says whether it stays within the paper's fault model: crash and timing
faults with sufficient replication, message loss, and partitions that heal. There
every property must hold. Outside the model the audit must *report* what was lost, and the
checkers know from the profile that a loss is no violation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from llft.config import PartitionPolicy, Replication, ThreadMode
from llft.errors import MisuseError
from llft.instant import MS, SECOND
from llft.simulator.network import PERFECT, LinkQuality
from llft.simulator.topology import TOPOLOGIES

__all__ = ["PROFILES", "TOPOLOGIES", "Profile", "find_profile"]

MINOR_MISHAPS = LinkQuality(loss=0.006, duplication=0.003, reorder=0.004, corruption=0.001, spike=0.001)


@dataclass(frozen=True, slots=True)
class Profile:
    name: str
    description: str
    in_model: bool = True
    faults: tuple[tuple[str, int], ...] = ()
    """Kinds of faults (names of classes in `faults`) with their weights."""
    fault_gap_ns: tuple[int, int] = (45 * MS, 115 * MS)
    horizon_ns: int = 320 * MS
    """No fault begins after this; then the world must quiesce."""
    quality: LinkQuality = PERFECT
    burst_loss: float = 0.2
    certificate: float = 0.7
    """Probability that a survivor gets a death certificate (D-23)."""
    starves: bool = False
    """Whoever pauses does not get a processor: its kernel does not say that it is stopped (D-73)."""
    skew_limit_ns: int = 20 * MS
    drift_limit_ppm: int = 100
    slow_share: float = 0.0
    """Of the replicas that are slow for good."""
    topology: str = "mixed"
    replicas: tuple[int, int] = (2, 3)
    client_replicas: tuple[int, int] = (2, 3)
    cold_start: float = 0.0
    """Probability that a group's members search for each other at birth instead of one
    being told that it is the first."""
    partition: PartitionPolicy = PartitionPolicy.PRECEDENCE
    output_commit_level: int = 0
    outside_clients: bool = False
    idle_connection_bound_ns: int = 1500 * MS
    keeps_past: bool = False
    """Servers keep birth logs, take checkpoints, and join by them (semi-active, under the token)."""
    durable: bool = False
    """And have their histories on disk."""
    threads: ThreadMode | None = None
    replication: Replication | None = None
    """Of servers; None: drawn."""


CRASHES = (("CrashPrimary", 6), ("CrashBackup", 2))

LOST_CLIENT = Profile(
    "lost-client",
    "a client of one member dies together with the server's primary; output commit level 0",
    in_model=False,
    faults=(("LoseClient", 1),),
    fault_gap_ns=(100 * MS, 200 * MS),
    horizon_ns=300 * MS,
    quality=LinkQuality(loss=0.05),
    topology="many-clients",
    outside_clients=True,
    idle_connection_bound_ns=200 * MS,
)

PROFILES: dict[str, Profile] = {
    profile.name: profile
    for profile in (
        Profile(
            "default",
            "every in-model fault kind, both replication types, both thread modes, 2 to 5 replicas",
            faults=(
                ("CrashPrimary", 3),
                ("CrashBackup", 2),
                ("CrashPrimaries", 2),
                ("PausePrimary", 2),
                ("PauseBackup", 1),
                ("Partition", 1),
                ("LossBurst", 2),
                ("SlowReplica", 1),
                ("ClockJump", 1),
                ("Join", 1),
                ("Leave", 1),
                ("SwitchPrimary", 1),
            ),
            quality=MINOR_MISHAPS,
            slow_share=0.1,
            client_replicas=(1, 3),
        ),
        Profile("calm", "no faults at all", horizon_ns=100 * MS),
        Profile(
            "loss",
            "5 % of the datagrams lost, bursts of 25 %, primaries crash",
            faults=(*CRASHES, ("LossBurst", 4)),
            quality=LinkQuality(loss=0.05),
            burst_loss=0.25,
        ),
        Profile(
            "reorder",
            "datagrams overtake each other, arrive twice and late; primaries crash",
            faults=CRASHES,
            quality=LinkQuality(duplication=0.05, reorder=0.15, spike=0.01),
        ),
        Profile(
            "corruption",
            "datagrams are damaged: bits flipped, ends cut off; primaries crash",
            faults=CRASHES,
            quality=LinkQuality(corruption=0.05),
        ),
        Profile("crash", "crashes and restarts on a good network", faults=CRASHES),
        Profile(
            "double-crash",
            "the primaries of two connected groups crash at the same instant",
            faults=(("CrashPrimaries", 5), ("CrashPrimary", 2)),
            quality=MINOR_MISHAPS,
            topology="replicated-clients",
        ),
        Profile(
            "pause",
            "processes stop for a while and go on as if nothing had happened",
            faults=(("PausePrimary", 5), ("PauseBackup", 2), ("CrashPrimary", 2)),
            quality=MINOR_MISHAPS,
        ),
        Profile(
            "partition",
            "the network splits, also in one direction only, and heals; the precedence rule decides",
            faults=(("Partition", 5), ("CrashPrimary", 3)),
            fault_gap_ns=(120 * MS, 250 * MS),
            horizon_ns=1200 * MS,
        ),
        Profile(
            "partition-majority",
            "the network splits and heals; a primary without a majority stops answering",
            faults=(("Partition", 5), ("CrashPrimary", 3)),
            fault_gap_ns=(120 * MS, 250 * MS),
            horizon_ns=1200 * MS,
            replicas=(3, 5),
            client_replicas=(3, 3),
            partition=PartitionPolicy.MAJORITY,
        ),
        Profile(
            "clock",
            "clocks skewed by up to a minute, drifting, set forward and back; primaries crash",
            faults=(*CRASHES, ("ClockJump", 6)),
            skew_limit_ns=60 * SECOND,
            drift_limit_ppm=50_000,
        ),
        Profile(
            "churn",
            "replicas join and leave and the primary is switched, under load",
            faults=(("SwitchPrimary", 4), ("Join", 3), ("Leave", 4), ("CrashPrimary", 3)),
            fault_gap_ns=(30 * MS, 100 * MS),
            quality=LinkQuality(loss=0.002),
            cold_start=0.2,
        ),
        Profile(
            "slow",
            "some replicas 5 to 20 times slower than others; primaries crash",
            faults=(*CRASHES, ("SlowReplica", 5)),
            slow_share=0.3,
        ),
        Profile(
            "join-storm",
            "replicas join by checkpoints and logs while their servers crash, and the other way round",
            faults=(
                ("CrashPrimary", 4),
                ("CrashSource", 4),
                ("Join", 4),
                ("CrashBackup", 3),
                ("Leave", 2),
                ("PauseBackup", 1),
            ),
            fault_gap_ns=(25 * MS, 70 * MS),
            quality=MINOR_MISHAPS,
            replicas=(3, 4),
            keeps_past=True,
            threads=ThreadMode.TOKEN,
        ),
        Profile(
            "restart",
            "all processes die at once, again and again, and the servers go on from disk",
            faults=(("CrashPrimary", 2), ("PowerLoss", 5), ("CrashBackup", 1), ("Join", 1)),
            fault_gap_ns=(25 * MS, 80 * MS),
            quality=MINOR_MISHAPS,
            skew_limit_ns=2 * SECOND,
            slow_share=0.4,
            output_commit_level=1,
            outside_clients=True,
            keeps_past=True,
            durable=True,
            threads=ThreadMode.TOKEN,
            replication=Replication.SEMI_ACTIVE,
        ),
        Profile(
            "commit",
            "every fault but partitions, at output commit level 1: outside clients wait for a backup",
            faults=(
                ("CrashPrimary", 3),
                ("CrashBackup", 2),
                ("PausePrimary", 2),
                ("PauseBackup", 1),
                ("LossBurst", 2),
                ("SlowReplica", 1),
                ("Join", 1),
                ("Leave", 1),
                ("SwitchPrimary", 1),
            ),
            quality=replace(MINOR_MISHAPS, corruption=0.01),
            slow_share=0.1,
            topology="many-clients",
            output_commit_level=1,
            outside_clients=True,
        ),
        LOST_CLIENT,
        replace(
            LOST_CLIENT,
            name="lost-client-level1",
            description="a client of one member dies with the server's primary; output commit level 1",
            output_commit_level=1,
        ),
        replace(
            LOST_CLIENT,
            name="lost-client-lossy",
            description="as lost-client-level1, again and again, while a quarter of all datagrams is lost",
            output_commit_level=1,
            fault_gap_ns=(20 * MS, 50 * MS),
            quality=LinkQuality(loss=0.25),
        ),
        Profile(
            "double-crash-loss",
            "the primaries of two connected groups crash together while datagrams are being lost",
            in_model=False,
            faults=(("CrashPrimaries", 1),),
            quality=LinkQuality(loss=0.1),
            topology="replicated-clients",
        ),
        Profile(
            "starve",
            "processes get no processor for a while, and their hosts' kernels say so; the network loses",
            faults=(("PausePrimary", 5), ("PauseBackup", 2), ("CrashPrimary", 2)),
            quality=MINOR_MISHAPS,
            certificate=0.9,
            starves=True,
        ),
    )
}


def find_profile(name: str) -> Profile:
    if name not in PROFILES:
        raise MisuseError("unknown profile", f"choose one of {', '.join(PROFILES)}", name=name)
    return PROFILES[name]
