"""Settings of a group and of its protocols. Every value has a working default."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from llft.instant import MS


class Replication(Enum):
    SEMI_ACTIVE = "semi-active"
    SEMI_PASSIVE = "semi-passive"


class PartitionPolicy(Enum):
    """D-11: what a primary does that has lost sight of most of its members."""

    PRECEDENCE = "precedence"
    MAJORITY = "majority"


class Checkpoints(Enum):
    """Where the state of a program comes from (docs/CHECKPOINTS.md)."""

    AUTO = "auto"
    IMAGE = "image"
    HOOKS = "hooks"
    NONE = "none"


class ThreadMode(Enum):
    """D-16: the token, or the paper's Consistent Multi-Threading Service."""

    TOKEN = "token"
    ORDERED = "ordered"


BACKUP_INTERVALS: Final = 2
"""A backup beats so many times more rarely than a primary: it is given more time, and one that is missed
later holds nobody up. The primary hears all of them."""


PAUSE_INTERVALS: Final = 3
"""A process that did nothing for so many heartbeats distrusts what it believes (D-32). A primary that is
silent for less must not be replaced (D-36)."""

SEEN_ALIVE_TIMEOUTS: Final = 2
"""So much longer a primary may be silent of which the kernel says that it lives and is not stopped (D-73): it
does not get a processor, or is frozen. Fewer than the next in rank waits, who may not see it."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """All in nanoseconds, all bounds on waiting. MAX_COUNT and MAX_ACK are the paper's."""

    heartbeat_interval_ns: int = 5 * MS
    primary_timeout_ns: int = 20 * MS
    """Of the backup with rank 2; rank r waits (2r - 3) times as long."""
    backup_timeout_ns: int = 60 * MS
    retransmit_interval_ns: int = 5 * MS
    first_ack_delay_ns: int = 2 * MS
    first_ack_patience_ns: int = 3 * MS
    """For a message that came alone: as a rule the program's answer acknowledges it. Below the time after
    which it would be sent again."""
    nack_interval_ns: int = 3 * MS
    keep_alive_interval_ns: int = 20 * MS
    propose_interval_ns: int = 4 * MS
    join_interval_ns: int = 40 * MS
    recovery_bound_ns: int = 150 * MS
    connect_bound_ns: int = 1500 * MS
    idle_connection_bound_ns: int = 60_000 * MS
    switch_bound_ns: int = 60 * MS
    lag_bound_ns: int = 400 * MS
    state_update_interval_ns: int = 50 * MS
    pulse_bound_ns: int = 1000 * MS
    """So long a process beats that does not get its interpreter's lock (`runtime.native`)."""
    max_count: int = 6
    join_max_count: int = 12
    max_ack: int = 8


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on memory, checked before it is taken."""

    datagram_bytes: int = 1400
    message_bytes: int = 64 * 1024 * 1024
    window_messages: int = 256
    window_bytes: int = 16 * 1024 * 1024
    """More than a sender says before backups tell that they have it: they do so with their heartbeats."""
    order_lag_bytes: int = 256 * 1024
    order_carried_bytes: int = 400
    """At most so many bytes of order information ride on one datagram."""
    joiner_log_messages: int = 4096
    state_update_operations: int = 1000
    """Semi-passive: after so many entries of the order log backups get the state before its time."""


@dataclass(frozen=True, slots=True)
class GroupConfig:
    group_id: int
    replication: Replication = Replication.SEMI_ACTIVE
    threads: ThreadMode = ThreadMode.TOKEN
    partition: PartitionPolicy = PartitionPolicy.PRECEDENCE
    output_commit_level: int = 0
    durable: bool = False
    """Its members keep what they perform on disk; output waits for a backup's disk, too (D-71)."""
    outside: bool = False
    """A gateway: what it delivers leaves the system, so it waits for the output commit (D-10)."""
    timeouts: Timeouts = field(default_factory=Timeouts)
    limits: Limits = field(default_factory=Limits)

    @property
    def executes_alone(self) -> bool:
        """Whether backups execute nothing: then nobody but the primary knows what it did last."""
        return self.replication is Replication.SEMI_PASSIVE

    @property
    def waits_for_commit(self) -> bool:
        """Whether what it is sent is delivered when it is committed: what is on disk must not have seen what
        the sender may lose."""
        return self.outside or self.durable
