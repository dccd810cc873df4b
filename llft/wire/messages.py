"""The messages of the paper as values, before and after the codec.

Every datagram is a Header, the source's own order information, reflected order
information of the destination group, and a payload. For Request and Reply the payload
is the application's bytes; for the others it is the encoding of one of the bodies here.

Numbers on a connection (D-01): msgSeqNum starts at 1 in every primary view. The
header also carries `view_base`, the number of messages that the group sent on this
connection before the view's message 1; `view_base + msg_seq_num` is the message's
*position*, counted from the connection's birth, which never changes. So a message
that was sent in one view and is sent again in the next one is recognised (D-08).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Final

from llft.identifiers import NO_BIRTH, NO_VIEW, BirthId, GroupId, Member, Role, ViewId

WIRE_VERSION: Final = 4

UNSETTLED: Final = (1 << 64) - 1
"""`view_start` of a view whose virtual synchrony point is not determined yet."""


class MessageType(IntEnum):
    """The paper's message types, and the acknowledgments they need."""

    REQUEST = 1
    REPLY = 2
    FIRST_ACK = 3
    SECOND_ACK = 4
    NACK = 5
    HEARTBEAT = 6
    KEEP_ALIVE = 7
    PROPOSE_PRIMARY = 8
    PROPOSE_PRIMARY_ACK = 9
    NEW_PRIMARY_VIEW = 10
    NEW_PRIMARY_VIEW_ACK = 11
    PROPOSE_BACKUP = 12
    ACCEPT_BACKUP = 13
    REMOVE_BACKUP = 14
    MEMBERSHIP_ACK = 15
    STATE = 16
    STATE_ACK = 17
    HELD = 18
    """A backup holds the order information that it was asked for (D-75): to its primary, and to groups."""


class MessageFlag(IntFlag):
    """Connection life (D-02) on Request and Reply; wishes of the sender elsewhere."""

    NONE = 0
    CONNECT = 1
    HALF_CLOSE = 2
    RESET = 4
    ANSWER_AT_ONCE = 8
    """On an intra-group KeepAlive or Heartbeat: the primary waits for your watermark."""
    LEAVING = 16
    """On a backup's Heartbeat: remove me, I go on purpose."""
    SWITCH = 32
    """On a primary's Heartbeat: the backup of rank 2 shall propose itself now."""
    PASSED_ON = 64
    """A Request or Reply that a primary repeats to its own backups, under a base of its choice."""
    ONE_ANSWERS = 128
    """On an intra-group KeepAlive: the backup of rank 2 was asked for its watermark, alone."""
    WITHOUT_PAST = 256
    """On a backup's Heartbeat: its program's past is elsewhere yet, it could not take over (D-70)."""
    ON_DISK = 512
    """On a backup's Heartbeat, in a durable group: what it has performed is in its history (D-71)."""
    COMMITS = 1024
    """On an intra-group KeepAlive to one backup: by its holding this, it is committed (D-75)."""


@dataclass(slots=True)
class Header:
    """The paper's header fields, plus what D-04, D-06, D-08, D-10 and D-12 need.

    `back` is a Lamport timestamp on an inter-group connection (lines 76-84).
    """

    message_type: MessageType
    source_group_id: GroupId
    dest_group_id: GroupId
    conn_seq_num: int = 0
    role: Role = Role.CLIENT
    source_view: ViewId = NO_VIEW
    dest_view: ViewId = NO_VIEW
    view_base: int = 0
    view_start: int = UNSETTLED
    waits_for_commit: bool = False
    """The source group waits for the destination's output commit (D-10): it wants to be told of it soon."""
    flags: MessageFlag = MessageFlag.NONE
    fragment_index: int = 0
    fragment_count: int = 1
    msg_seq_num: int = 0
    ack_view_num: int = 0
    ack: int = 0
    back: int = 0
    timestamp: int = 0
    order_watermark: int = 0
    """Every member of the source group has the group's order information up to here."""
    order_committed: int = 0
    """Enough backups for the output commit level (D-10) have it up to here."""


@dataclass(slots=True)
class Message:
    """A decoded datagram. Order information is opaque bytes at offsets of the owning
    group's order stream; only members of that group ever parse it."""

    header: Header
    order_start: int = 0
    order_bytes: bytes = b""
    reflected_start: int = 0
    reflected_bytes: bytes = b""
    payload: bytes = b""


@dataclass(frozen=True, slots=True)
class OrderRange:
    """A piece of a group's order stream as somebody holds it: the view under which it
    was received, where that view began in the stream, and the bytes from `start`."""

    view: ViewId
    view_start: int
    start: int
    data: bytes

    @property
    def end(self) -> int:
        return self.start + len(self.data)


@dataclass(frozen=True, slots=True)
class NackBody:
    """What is missing. On an inter-group connection: messages by position, each with the
    fragments wanted (empty: all). On the intra-group connection: the same for the
    connection named, or a range of order information when `order_end > order_start`."""

    sender: BirthId = NO_BIRTH
    client_group_id: GroupId = 0
    server_group_id: GroupId = 0
    conn_seq_num: int = 0
    positions: tuple[tuple[int, tuple[int, ...]], ...] = ()
    order_start: int = 0
    order_end: int = 0


@dataclass(frozen=True, slots=True)
class HeartbeatBody:
    """Liveness and watermarks, primary to backups and backup to primary.

    `watermark` is the sender's myTimestampWatermark expressed as an offset of the order
    stream: it has the order information up to there and every message that it orders.
    `beat` numbers the sender's beats; `echo` is the last beat heard of the primary.
    """

    sender: BirthId
    beat: int = 0
    echo: int = 0
    order_end: int = 0
    watermark: int = 0
    executed: int = 0
    change_num: int = 0


@dataclass(frozen=True, slots=True)
class ProposePrimaryBody:
    """A self-appointed new primary's proposal. The header's source view is the proposed one."""

    sender: BirthId
    old_view: ViewId
    change_num: int
    old_membership: tuple[Member, ...] = ()
    membership: tuple[Member, ...] = ()


@dataclass(frozen=True, slots=True)
class MembershipAckBody:
    """Acknowledges ProposePrimary (with that type), AcceptBackup and RemoveBackup."""

    sender: BirthId
    view: ViewId
    change_num: int
    needs_state: bool
    order_end: int


@dataclass(frozen=True, slots=True)
class NewPrimaryViewBody:
    """Asks a remote group what it knows of the old primary. `settled` once the virtual
    synchrony point is fixed: then the answer must be a definite cut."""

    settled: bool
    order_end: int
    delivered_up_to: int = 0
    delivered_digest: int = 0
    """What the asker has delivered on this connection, and the running digest of that."""


@dataclass(frozen=True, slots=True)
class NewPrimaryViewAckBody:
    """The remote group's answer: (recvUpToMsn, lastSentMsn) as positions, the view under which it
    accepted the last of them, and the order information it holds. `definite` is false while
    the answering group is itself recovering and may accept more of the old view."""

    view: ViewId
    definite: bool
    checked: bool
    """What the asker has delivered, now that its view is settled, is what the answering group sent."""
    received_view: ViewId
    received_up_to: int
    received_digest: int
    """The running digest of those (`core.messaging.stream_digest`)."""
    last_sent: int
    held: tuple[OrderRange, ...] = ()


@dataclass(frozen=True, slots=True)
class ProposeBackupBody:
    """A process wants to join. A fingerprint of its program is compared by the primary. `former` is the
    identity that the same process had before it reset, if it had one: nobody waits for that. `withdrawn` is
    the view that it had proposed then, if that was not concluded: nobody is bound by it."""

    sender: BirthId
    former: BirthId = NO_BIRTH
    withdrawn: ViewId = NO_VIEW
    fingerprint: bytes = b""


@dataclass(frozen=True, slots=True)
class MembershipBody:
    """AcceptBackup and RemoveBackup: the old and the new membership."""

    subject: BirthId
    change_num: int
    next_precedence: int
    old_membership: tuple[Member, ...] = ()
    membership: tuple[Member, ...] = ()


@dataclass(frozen=True, slots=True)
class StateBody:
    """The checkpointed state of the primary at an offset of the order stream."""

    recipient: BirthId
    """NO_BIRTH: an update for all backups of a semi-passive group."""
    order_offset: int
    digest: int
    state: bytes = b""


@dataclass(frozen=True, slots=True)
class StateAckBody:
    sender: BirthId
    order_offset: int


Body = (
    NackBody
    | HeartbeatBody
    | ProposePrimaryBody
    | MembershipAckBody
    | NewPrimaryViewBody
    | NewPrimaryViewAckBody
    | ProposeBackupBody
    | MembershipBody
    | StateBody
    | StateAckBody
)
