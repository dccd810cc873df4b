"""The records of a journal: what a replica did, for whoever audits it.

One contract for all who write and read journals. A record is a named tuple whose first
fields are always the same: when (the monotonic clock of the world that the replica runs in), which
group, which process, under which view. The schema version changes when a field does.
"""

from __future__ import annotations

from typing import NamedTuple

from llft.identifiers import BirthId, ConnectionId, Member, ViewId

SCHEMA_VERSION = 3


class Stamp(NamedTuple):
    """When, and who: the common beginning of every record."""

    time_ns: int
    group_id: int
    birth_id: BirthId
    view: ViewId


class RoleChanged(NamedTuple):
    """The replica's role: joining, backup, proposing, recovering, primary, left."""

    stamp: Stamp
    role: str
    reason: str


class ViewInstalled(NamedTuple):
    """The replica passed the order entry of a primary view change: the virtual synchrony point."""

    stamp: Stamp
    order_seq_num: int
    membership: tuple[Member, ...]


class MembershipChanged(NamedTuple):
    """The replica adopted a membership (AcceptBackup, RemoveBackup, ProposePrimary)."""

    stamp: Stamp
    change_num: int
    membership: tuple[Member, ...]


class Suspected(NamedTuple):
    """A fault detector expired (reason "timeout"), a certificate came ("certificate"), or its kernel says
    that it is stopped ("stopped")."""

    stamp: Stamp
    suspect: BirthId
    reason: str


class Superseded(NamedTuple):
    """The replica learned of a competing primary that wins (D-06), and resets."""

    stamp: Stamp
    by: ViewId


class Operated(NamedTuple):
    """One operation was performed: recorded by the primary, reproduced by a backup.

    `order_seq_num` is the number of its entry in the group's order log, from 1, `entry` the
    entry's text. Theorems 2 and 3 are statements about these.
    """

    stamp: Stamp
    order_seq_num: int
    entry: str


class Delivered(NamedTuple):
    """Bytes were handed to the application: `size` of them, up to `stream_offset` of that
    direction of the connection, with the running digest of the direction so far."""

    stamp: Stamp
    connection: ConnectionId
    fd: int
    size: int
    stream_offset: int
    digest: int


class Sent(NamedTuple):
    """The application wrote a message. Backups record it too (they generate, and do not send)."""

    stamp: Stamp
    connection: ConnectionId
    fd: int
    position: int
    timestamp: int
    size: int
    digest: int
    order_seq_num: int


class ClockRead(NamedTuple):
    """The group clock as the application saw it."""

    stamp: Stamp
    clock_id: int
    value_ns: int
    order_seq_num: int


class ConnectionEnded(NamedTuple):
    """A connection is over: "closed", or "reset" with why (D-07 names what was lost)."""

    stamp: Stamp
    connection: ConnectionId
    how: str
    reason: str


class StateTaken(NamedTuple):
    """A checkpoint was captured after this entry, for a joiner or as a semi-passive update."""

    stamp: Stamp
    order_seq_num: int
    size: int
    digest: int


class StateApplied(NamedTuple):
    """A checkpoint was adopted: restored by a joiner, or stored by a semi-passive backup."""

    stamp: Stamp
    order_seq_num: int
    size: int
    digest: int


class Diverged(NamedTuple):
    """A backup's own output differs from the primary's (D-09); it resets and rejoins."""

    stamp: Stamp
    connection: ConnectionId
    position: int
    expected: int
    found: int


class Collected(NamedTuple):
    """Messages were garbage collected from a list ("sent" or "delivered") up to a timestamp."""

    stamp: Stamp
    connection: ConnectionId
    which: str
    up_to_timestamp: int


class HeartbeatArrived(NamedTuple):
    """A heartbeat came, so long after the previous one of the same sender."""

    stamp: Stamp
    sender: BirthId
    interval_ns: int


class Latency(NamedTuple):
    """How long something took: "election", "recovery", "join", ..."""

    stamp: Stamp
    what: str
    duration_ns: int


class Called(NamedTuple):
    """A client's request, as the client saw it: written by load generators, not by replicas.

    The stamp has the group that was called, and the client's own birth id. `target` is the object, after the
    name of its sequential model: "account:client1". `call_order` is the request's place in the group's order
    of operations on the object, as its reply tells; 0: not told. `return_ns` is 0 if no reply came: then the
    request may have been performed, or not. Both times are of the client's clock.
    """

    stamp: Stamp
    client: str
    target: str
    operation: str
    result: str
    call_ns: int
    return_ns: int
    call_order: int


class Gap(NamedTuple):
    """The journal itself lost records here."""

    stamp: Stamp
    lost_count: int


Record = (
    RoleChanged
    | ViewInstalled
    | MembershipChanged
    | Suspected
    | Superseded
    | Operated
    | Delivered
    | Sent
    | ClockRead
    | ConnectionEnded
    | StateTaken
    | StateApplied
    | Diverged
    | Collected
    | HeartbeatArrived
    | Latency
    | Called
    | Gap
)

RECORD_TYPES: tuple[type[Record], ...] = (
    RoleChanged,
    ViewInstalled,
    MembershipChanged,
    Suspected,
    Superseded,
    Operated,
    Delivered,
    Sent,
    ClockRead,
    ConnectionEnded,
    StateTaken,
    StateApplied,
    Diverged,
    Collected,
    HeartbeatArrived,
    Latency,
    Called,
    Gap,
)
