"""What becomes of a datagram: the lane first, else decode, check who is superseded, dispatch.

Line 18 (D-06): every message names the primary view of its source and what its sender believes of the
destination's. Whoever learns from either of a competing primary of its own group that wins, passes the
evidence on to its fellows, resets and rejoins.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from llft.core.membership.backup_change import on_membership_change
from llft.core.messaging.connection import Connection
from llft.core.standing import BACKUP, JOINING, PRIMARY, RECOVERING
from llft.errors import PeerError
from llft.identifiers import NO_VIEW, Role, ViewId
from llft.instant import NEVER
from llft.journal.record import Superseded
from llft.wire.codec import decode, decode_body, plain_held
from llft.wire.fragment import Reassembly
from llft.wire.messages import UNSETTLED, Header, Message, MessageFlag, MessageType

if TYPE_CHECKING:
    from llft.core.replica import Replica

_FROM_A_SETTLED_PRIMARY: Final = (MessageType.HEARTBEAT, MessageType.ACCEPT_BACKUP, MessageType.REMOVE_BACKUP)
"""Of the intra-group messages, those that show that a view is established."""
_HELD: Final = bytes((MessageType.HELD,))


class Inbox:
    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.standing = replica.standing
        self.messaging = replica.messaging
        self.malformed = 0
        self.misdirected = 0
        limits = replica.config.limits
        self.reassembly = Reassembly(2 * limits.message_bytes, 64)
        self._local: dict[MessageType, Callable[[Header, Any], None]] = {
            MessageType.HEARTBEAT: replica.intra.on_heartbeat,
            MessageType.NACK: replica.intra.on_local_nack,
            MessageType.PROPOSE_PRIMARY: replica.primary_change.on_propose_primary,
            MessageType.PROPOSE_PRIMARY_ACK: lambda _, body: replica.primary_change.on_propose_primary_ack(
                body
            ),
            MessageType.PROPOSE_BACKUP: self._on_propose_backup,
            MessageType.ACCEPT_BACKUP: self._on_membership,
            MessageType.REMOVE_BACKUP: self._on_membership,
            MessageType.MEMBERSHIP_ACK: lambda _, body: replica.commit.on_membership_ack(body),
            MessageType.STATE: self._on_state,
            MessageType.STATE_ACK: lambda _, body: replica.transfer.on_state_ack(body),
            MessageType.HELD: replica.asking.holding.on_held,
        }

    def statistics(self) -> dict[str, int]:
        return {"malformed": self.malformed, "misdirected": self.misdirected}

    def on_datagram(self, data: bytes) -> None:
        if self.standing.has_state:
            connection = self.messaging.lane.receive(data, self.replica.now_ns)
            if connection is not None:
                self._after_lane(connection)
                return
        try:
            if data[1:2] != _HELD or not self._on_plain_held(data):
                self._dispatch(decode(data), data)
        except PeerError:
            self.malformed += 1

    def _on_plain_held(self, data: bytes) -> bool:
        """What a gateway hears for every reply, without a message made of it; False: it is to be looked at in
        full."""
        found = plain_held(data)
        if found is None or not self.standing.has_state:
            return False
        prefix, end = found
        own = self.standing.group_id
        if prefix.dest_group_id != own or prefix.source_group_id == own or prefix.dest_view != NO_VIEW:
            return False
        self.replica.asking.holding.note_remote(prefix.source_group_id, prefix.source_view, end, data)
        return True

    def _after_lane(self, connection: Connection) -> None:
        self.messaging.indexes.touched.note(connection.fd)
        self.messaging.keep_alives.disturb(connection, self.replica.now_ns)
        if self.standing.role == PRIMARY and connection.ack_due_ns != NEVER:
            self.messaging.arm(connection, "ack_due_ns", connection.ack_due_ns)
        if connection.closed_here:
            self._drop_late(connection)

    def _drop_late(self, connection: Connection) -> None:
        """It came after the application had closed the connection."""
        if connection.received:
            self.replica.drop_unread(connection)
            self.replica.mark_delivered(connection)

    def _dispatch(self, message: Message, data: bytes) -> None:
        header = message.header
        own = self.standing.group_id
        if header.dest_group_id != own:
            self.misdirected += 1
        elif header.source_group_id == own and header.conn_seq_num == 0:
            self._on_local(message, data)
        elif not self.standing.has_state:
            self.replica.joiner_log.append(data)  # backup change, line 1
        elif self._is_superseded_by(header.dest_view):
            self._superseded(header.dest_view, data)
        else:
            self._on_remote(message, data)

    # -- line 18 -----------------------------------------------------------------------------

    def _is_superseded_by(self, view: ViewId) -> bool:
        return self.standing.role != JOINING and view.supersedes(self.standing.view)

    def _superseded(self, by: ViewId, data: bytes) -> None:
        """Lines 19-20."""
        self.replica.outbox.record(Superseded, by)
        self.replica.outbox.multicast(self.standing.group_id, data)
        self.replica.reset_and_rejoin(f"superseded by {by}")

    # -- the intra-group connection ------------------------------------------------------------

    def _on_local(self, message: Message, data: bytes) -> None:
        header = message.header
        if header.message_type in _FROM_A_SETTLED_PRIMARY and self._is_superseded_by(header.source_view):
            self._superseded(header.source_view, data)
            return
        if header.message_type == MessageType.KEEP_ALIVE:
            self.replica.intra.on_order(message)
            return
        if message.order_bytes and header.message_type == MessageType.HEARTBEAT:
            self.replica.intra.on_order(message)
        handler = self._local.get(header.message_type)
        payload = self._whole_payload(message)
        if handler is None or payload is None:
            return
        handler(header, decode_body(header.message_type, payload))

    def _whole_payload(self, message: Message) -> bytes | None:
        header = message.header
        if header.fragment_count == 1:
            return message.payload
        key = (
            header.message_type,
            header.source_group_id,
            header.conn_seq_num,
            header.source_view,
            message.reflected_start,
        )
        return self.reassembly.add(key, header.fragment_index, header.fragment_count, message.payload)

    def _on_propose_backup(self, header: Header, body: Any) -> None:
        self.replica.primary_change.on_withdrawn(body.withdrawn)
        if self.standing.role == JOINING:
            self.replica.joining.on_other_joiner(body)
        elif self.standing.role == PRIMARY:
            self.replica.commit.on_propose_backup(body)

    def _on_membership(self, header: Header, body: Any) -> None:
        replica = self.replica
        if self.standing.role == JOINING:
            if header.message_type == MessageType.ACCEPT_BACKUP:
                replica.joining.on_accept_backup(header, body)
            return
        replica.primary_change.on_removed(header, body)
        on_membership_change(self.standing, replica.detector, replica, replica.outbox, header, body)

    def _on_state(self, header: Header, body: Any) -> None:
        if header.source_view == self.standing.view:
            if not self.standing.has_state:
                self.standing.view_start = header.view_start
                self.replica.view_change.settled_view = header.source_view
                self.replica.view_change.settled_start = header.view_start
            self.replica.on_state(body)

    # -- inter-group connections ---------------------------------------------------------------

    def _on_remote(self, message: Message, data: bytes) -> None:
        header = message.header
        if message.reflected_bytes and self.standing.role == BACKUP:
            self.messaging.on_reflection(message)  # D-49: whatever view the remote group is in
        if header.message_type in (MessageType.REQUEST, MessageType.REPLY):
            connection = self.messaging.on_application_message(message, data)
            if connection is not None:
                self.messaging.indexes.touched.note(connection.fd)
                self.messaging.keep_alives.disturb(connection, self.replica.now_ns)
                if connection.closed_here:
                    self._drop_late(connection)
            return
        if header.message_type == MessageType.HELD:
            held: Any = decode_body(MessageType.HELD, message.payload)
            self.replica.asking.holding.on_remote_held(header, held)
            return
        connection = self.messaging.find(header)
        if connection is not None:
            self.messaging.indexes.touched.note(connection.fd)
            if header.message_type != MessageType.KEEP_ALIVE:
                self.messaging.keep_alives.disturb(connection, self.replica.now_ns)
        if header.message_type == MessageType.NEW_PRIMARY_VIEW:
            body: Any = decode_body(MessageType.NEW_PRIMARY_VIEW, message.payload)
            self.replica.view_change.on_new_primary_view(connection, header, body)
        elif connection is None:
            self._on_unknown_connection(header)
        elif header.flags & MessageFlag.RESET:
            self._on_reset(connection, header)
        elif header.message_type == MessageType.NEW_PRIMARY_VIEW_ACK:
            self._on_new_primary_view_ack(connection, message)
        elif connection.reset_reason:
            if self.standing.role == PRIMARY:
                self.messaging.send_reset(header)
        elif self._is_wanted_in_recovery(connection, header):
            self._on_control(connection, message)
        elif self.messaging.accepts_view(connection, header):
            self.messaging.on_piggyback(connection, message)
            self._on_control(connection, message)

    def _is_wanted_in_recovery(self, connection: Connection, header: Header) -> bool:
        """Two groups recover together, and each misses what the other's old primary had said (D-30): it is
        given, though the view that asks is not followed while something of the one before is missing."""
        return (
            header.message_type == MessageType.NACK
            and header.view_start == UNSETTLED
            and self.standing.role == RECOVERING
            and connection.in_view != NO_VIEW
            and header.source_view.supersedes(connection.in_view)
        )

    def _on_new_primary_view_ack(self, connection: Connection, message: Message) -> None:
        payload = self._whole_payload(message)
        if payload is not None:
            body: Any = decode_body(MessageType.NEW_PRIMARY_VIEW_ACK, payload)
            self.replica.view_change.on_new_primary_view_ack(connection, message.header, body)

    def _on_control(self, connection: Connection, message: Message) -> None:
        header = message.header
        if header.message_type == MessageType.FIRST_ACK:
            self.replica.acknowledgment.on_first_ack(connection, header)
        elif header.message_type == MessageType.SECOND_ACK:
            self.replica.acknowledgment.on_second_ack(connection, header)
        elif header.message_type == MessageType.NACK and self.standing.role in (PRIMARY, RECOVERING):
            body: Any = decode_body(MessageType.NACK, message.payload)
            self.replica.retention.on_remote_nack(connection, header, body)
        elif header.message_type == MessageType.KEEP_ALIVE:
            self.replica.acknowledgment.on_keep_alive(connection, header)

    def _on_unknown_connection(self, header: Header) -> None:
        """Over here, or (for a connection of our own) given up with an old primary: say so."""
        if header.flags & MessageFlag.RESET or self.standing.role != PRIMARY:
            return
        connection_id = self.messaging.identify(header)
        if connection_id in self.messaging.table.finished or header.role == Role.SERVER:
            self.messaging.send_reset(header)
        else:  # its CONNECT was acknowledged by a primary that is gone, and accepted by none
            connection = self.messaging.create(connection_id, self.replica.now_ns)
            connection.want(1)
            self.messaging.nack_soon(connection)

    def _on_reset(self, connection: Connection, header: Header) -> None:
        """The remote group has no such connection any more."""
        if connection.in_view.supersedes(header.source_view) or connection.reset_reason:
            return
        held = self.messaging.held_for(connection.remote_group_id)
        if held.view.supersedes(header.source_view):
            return
        held.adopt_view(header.source_view, header.view_start)
        held.on_watermark(header.order_watermark)
        recovery = self.replica.view_change.recovery
        if not connection.fd and self.standing.role == BACKUP:
            self.messaging.drop_embryo(connection)
        elif recovery is not None:
            recovery.on_gone(connection.connection_id)
        elif self.standing.role == PRIMARY:
            self.replica.view_change.end_connection(connection)
