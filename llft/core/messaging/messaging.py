"""The Low Latency Messaging Protocol: reliable, ordered messages between groups.

States live in `Connection`; this module moves messages between the wire and the connections, and
owns the timers. Laws:
 - Only a primary that has settled its view with the remote group sends Requests and Replies.
 - The first message on a new connection leaves only when a backup knows of the connection; else a
   new primary would not know whom to ask about the old one (docs/DEVIATIONS.md, D-24).
 - A message leaves only if all order information not yet known to be elsewhere fits on it.
 - A connection accepts messages of one view of the remote group at a time.

Paper: figure "Pseudocode for the Messaging Protocol". Acknowledgments are in `acknowledgment`,
retransmission and Nacks in `retention`, the fault-free path in `lane`.
"""

from __future__ import annotations

from collections.abc import Callable

from llft.config import GroupConfig
from llft.core.messaging import nacking
from llft.core.messaging.connection import CONNECT, Connection
from llft.core.messaging.connection_table import ConnectionTable
from llft.core.messaging.flow_control import IntraGroupFlowControl, may_receive
from llft.core.messaging.headers import header_of, names_base, reset_of, vouched_for
from llft.core.messaging.indexes import Indexes
from llft.core.messaging.keep_alives import KeepAlives
from llft.core.messaging.kept import ReceivedMessage, SentMessage, fragment_key
from llft.core.messaging.lane import Lane, ack_delay_ns, acknowledge
from llft.core.messaging.reflection import HeldOrder
from llft.core.messaging.watermark import Watermarks
from llft.core.outbox import Outbox
from llft.core.standing import BACKUP, PRIMARY, RECOVERING, Standing
from llft.errors import PeerError
from llft.identifiers import NO_VIEW, ConnectionId, GroupId, Role, ViewId
from llft.instant import NEVER
from llft.journal.record import Collected
from llft.wire.codec import encode, encode_body
from llft.wire.fragment import Reassembly, slices
from llft.wire.header import HEADER_BYTES
from llft.wire.messages import UNSETTLED, Body, Header, Message, MessageFlag, MessageType


class Messaging:
    def __init__(self, config: GroupConfig, standing: Standing, outbox: Outbox) -> None:
        self.config = config
        self.standing = standing
        self.outbox = outbox
        self.reassembly = Reassembly(2 * config.limits.message_bytes, 256)
        self.lane = Lane(standing, self.reassembly)
        self.table = ConnectionTable(config.group_id)
        self.indexes = Indexes(self.table)
        self.keep_alives = KeepAlives(config.timeouts, self.arm)
        self.watermarks = Watermarks()
        self.flow = IntraGroupFlowControl(config.limits.order_lag_bytes)
        self.pending_accept: list[ConnectionId] = []
        """Connections whose CONNECT has come, in order of arrival."""
        self.silent = False
        """True while this primary must not speak to the outside (doubt, switch, minority)."""
        self.waiting_for_backups = self.waiting_for_all = False
        """Something is held back until a backup reports its watermark, or until all have."""
        self.recoverable_view: ViewId = NO_VIEW
        """While recovering: the old view, if its start is known. What is reflected of it is wanted."""
        self.on_unagreed_view: Callable[[Connection, Header], None] = lambda connection, header: None
        """Told of messages of a newer view of the remote group that has not asked us about its past."""
        self.on_lost_messages: Callable[[Connection], None] = lambda connection: None
        """Told when a view of the remote group has not got what a branch of it, pruned since, had."""
        self.soonest_ns = NEVER
        self.dropped = self.peak_sent_count = self.peak_order_bytes = 0
        limits = config.limits
        carried = limits.order_carried_bytes + limits.order_carried_bytes // 2
        self.fragment_room = max(limits.datagram_bytes - HEADER_BYTES - carried, 64)
        self.plain_room = max(limits.datagram_bytes - HEADER_BYTES, self.fragment_room)
        """Payload of one datagram with all the order information it may have to carry, and without any."""
        self.largest_payload = min(limits.message_bytes, self.fragment_room * 65_535)

    # -- connections -------------------------------------------------------------------------

    def held_for(self, group_id: GroupId) -> HeldOrder:
        held = self.lane.held.get(group_id)
        if held is None:
            held = self.lane.held[group_id] = HeldOrder()
        return held

    def create(self, connection_id: ConnectionId, now_ns: int) -> Connection:
        connection = self.table.create(connection_id, self.standing.view)
        self.indexes.embryos.note(connection)
        self.held_for(connection.remote_group_id)
        connection.heard_ns = now_ns
        self.arm(connection, "keep_alive_ns", now_ns + self.config.timeouts.keep_alive_interval_ns)
        return connection

    def forget(self, connection: Connection) -> None:
        self.table.forget(connection)
        self.indexes.touched.note(connection.fd)
        self.indexes.due.forget(connection)
        self.uncache(connection)
        if connection.connection_id in self.pending_accept:
            self.pending_accept.remove(connection.connection_id)
        if not self.table.is_connected_with(connection.remote_group_id):
            self.held_for(connection.remote_group_id).clear()

    def drop_embryo(self, connection: Connection) -> None:
        """At a backup: the client group gave up before its connection was accepted. If the primary
        did accept it, the log will say so."""
        del self.table.by_id[connection.connection_id]
        self.indexes.due.forget(connection)
        self.uncache(connection)
        if connection.connection_id in self.pending_accept:
            self.pending_accept.remove(connection.connection_id)

    def uncache(self, connection: Connection | None = None) -> None:
        """A view or a connection changed: datagrams must be looked at in full again."""
        if connection is None:
            self.indexes.touched.note_everything()
        for other in self.table if connection is None else (connection,):
            self.lane.disregard(other)

    def arm(self, connection: Connection, timer: str, at_ns: int) -> None:
        setattr(connection, timer, at_ns)
        self.indexes.due.arm(connection, at_ns)
        self.soonest_ns = min(self.soonest_ns, at_ns)

    # -- sending (lines 1-17) ----------------------------------------------------------------

    def push(self, connection: Connection) -> None:
        """Multicast what was generated and may leave now."""
        while connection.transmitted < connection.generated:
            message = connection.find_sent(connection.transmitted + 1)
            if message is not None:
                if not self.may_transmit(connection):
                    self.indexes.held_back.note(connection)
                    return
                self.transmit(connection, message)
            connection.transmitted += 1

    def may_transmit(self, connection: Connection) -> bool:
        if not (self.standing.role == PRIMARY and connection.settled) or self.silent:
            return False
        self.lane.flush()
        if connection.birth_order_end and not self._birth_is_known(connection):
            self.waiting_for_backups = True
            return False
        orders = self.lane.orders
        if orders.end - orders.unreflected > self.config.limits.order_carried_bytes:
            self.waiting_for_backups = self.waiting_for_all = True
            return False
        return True

    def _birth_is_known(self, connection: Connection) -> bool:
        if self.watermarks.committed(1, self.lane.orders.end) >= connection.birth_order_end:
            connection.birth_order_end = 0
        return connection.birth_order_end == 0

    def transmit(self, connection: Connection, message: SentMessage) -> None:
        """Line 16, and line 46 when it is a retransmission."""
        self._seek_commit(connection)
        now_ns = self.outbox.now_ns
        if len(message.payload) <= self._room(connection):
            self.outbox.multicast(connection.remote_group_id, self.lane.datagram(connection, message))
        else:
            self.transmit_fragments(connection, message, ())
        connection.ack_due_ns, connection.ack_told = NEVER, connection.received_up_to
        self.keep_alives.on_transmit(connection, now_ns)
        if connection.retransmit_ns == NEVER:
            self.arm(connection, "retransmit_ns", now_ns + self.config.timeouts.retransmit_interval_ns)

    def _seek_commit(self, connection: Connection) -> None:
        """D-10: what depends on nobody is committed as it leaves; else backups are asked at once if the other
        end waits for their answer, for a heartbeat would be late."""
        lane = self.lane
        lane.flush()
        if self.config.output_commit_level == 0 or not self.watermarks.somebody_counts:
            lane.order_committed = max(lane.order_committed, lane.orders.end)
        elif lane.order_committed < lane.orders.end and self.held_for(connection.remote_group_id).waits:
            self.waiting_for_backups = True

    def _room(self, connection: Connection) -> int:
        """Payload that fits into one datagram with the order information that it has to carry now."""
        orders, limits = self.lane.orders, self.config.limits
        held = self.held_for(connection.remote_group_id)
        carried = orders.end - orders.unreflected + held.next_reflected(limits.order_carried_bytes // 2)
        return max(limits.datagram_bytes - HEADER_BYTES - carried, self.fragment_room)

    def transmit_fragments(
        self, connection: Connection, message: SentMessage, wanted: tuple[int, ...]
    ) -> None:
        """D-12: a large message leaves in several datagrams; `wanted` limits it to some of them."""
        parts = slices(message.payload, self.fragment_room, self.plain_room)
        for index, part in enumerate(parts):
            if wanted and index not in wanted:
                continue
            header = self.header(connection, self.application_type(connection))
            header.flags = MessageFlag(message.flags)
            header.fragment_index, header.fragment_count = index, len(parts)
            header.msg_seq_num, header.timestamp = message.position - connection.out_base, message.timestamp
            self.send(connection, header, part, carry=index == 0)

    def application_type(self, connection: Connection) -> MessageType:
        return MessageType.REQUEST if connection.role == Role.CLIENT else MessageType.REPLY

    def header(self, connection: Connection, message_type: MessageType) -> Header:
        """The header of any message on an inter-group connection (lines 2-6, 9-13)."""
        return header_of(self, connection, message_type)

    def send(self, connection: Connection, header: Header, payload: bytes = b"", *, carry: bool) -> None:
        """Line 14: piggyback our own order information and reflect the remote group's."""
        message = Message(header, payload=payload)
        if carry:
            limit = self.config.limits.order_carried_bytes
            self.lane.flush()
            orders = self.lane.orders
            message.order_start = orders.unreflected
            message.order_bytes = orders.slice(
                orders.unreflected, min(orders.end, orders.unreflected + limit)
            )
            held = self.held_for(connection.remote_group_id)
            message.reflected_start, message.reflected_bytes = held.next_reflection(limit // 2)
        elif header.fragment_count > 1:
            # The fragment that comes last must say what the message depends on, whichever it is (D-10).
            message.order_start = self.lane.orders.end
        self.outbox.multicast(connection.remote_group_id, encode(message))

    def send_control(
        self,
        connection: Connection,
        message_type: MessageType,
        body: Body | None = None,
        flags: MessageFlag = MessageFlag.NONE,
    ) -> None:
        header = self.header(connection, message_type)
        header.flags = flags
        primary = self.standing.role == PRIMARY
        self.send(connection, header, encode_body(body) if body is not None else b"", carry=primary)

    def send_reset(self, header: Header) -> None:
        """Answer a message on a connection that does not exist here (any more)."""
        self.outbox.multicast(header.source_group_id, encode(Message(reset_of(self, header))))

    # -- receiving (lines 18-33) -----------------------------------------------------------

    def find(self, header: Header) -> Connection | None:
        return self.table.by_id.get(self.identify(header))

    def identify(self, header: Header) -> ConnectionId:
        """Which connection a header speaks of, whichever end sent it."""
        return self.table.on_one_end(
            header.source_group_id, header.dest_group_id, header.conn_seq_num, header.role
        )

    def on_application_message(self, message: Message, data: bytes) -> Connection | None:
        """Lines 21-33. The caller has dealt with line 18 (who is superseded)."""
        header = message.header
        connection = self.find(header)
        if connection is None:
            connection = self._embryo(header)
            if connection is None:
                return None
        if connection.reset_reason:
            if self.standing.role == PRIMARY:
                self.send_reset(header)
            return connection
        if not self.accepts_view(connection, header):
            self.dropped += 1
            return connection
        payload = self._whole_payload(connection, message)
        position = header.view_base + header.msg_seq_num
        if payload is not None and header.msg_seq_num:
            self._accept(connection, message, position, payload)
        self.on_piggyback(connection, message)
        if self._is_ordinary(connection, header):
            self.lane.expect(connection, data)
        return connection

    def _embryo(self, header: Header) -> Connection | None:
        """A Request on a connection that is not known yet: its CONNECT may come later."""
        connection_id = self.identify(header)
        if header.role == Role.SERVER or connection_id in self.table.finished:
            if self.standing.role == PRIMARY:
                self.send_reset(header)
            return None
        return self.create(connection_id, self.outbox.now_ns)

    def _accept(self, connection: Connection, message: Message, position: int, payload: bytes) -> None:
        header = message.header
        if position <= connection.received_up_to:
            self.ack_soon(connection)
            return  # line 30: a retransmission of what is here
        if not may_receive(connection, position, len(payload), self.config.limits):
            self.dropped += 1
            return
        order_end = message.order_start + len(message.order_bytes)
        flags = int(header.flags & ~MessageFlag.PASSED_ON)
        connection.accept(
            ReceivedMessage(position, header.timestamp, connection.in_view, flags, payload, order_end)
        )
        self.notice_connect(connection)
        self.nack_soon(connection)
        self.ack_soon(connection)

    def notice_connect(self, connection: Connection) -> None:
        """A connection can be accepted once its first message is here."""
        first = connection.received[0] if connection.received else None
        if first is not None and first.flags & CONNECT and not connection.fd:
            if connection.connection_id not in self.pending_accept:
                self.pending_accept.append(connection.connection_id)

    def nack_soon(self, connection: Connection) -> None:
        if connection.nacks:
            nacking.ask_soon(self, connection)

    def ack_soon(self, connection: Connection) -> None:
        due_ns = self.outbox.now_ns + ack_delay_ns(connection, self.config.timeouts)
        if connection.ack_due_ns > due_ns:
            self.arm(connection, "ack_due_ns", due_ns)

    def _whole_payload(self, connection: Connection, message: Message) -> bytes | None:
        header = message.header
        position = header.view_base + header.msg_seq_num
        key = fragment_key(connection, position, passed_on=bool(header.flags & MessageFlag.PASSED_ON))
        if header.fragment_count == 1:
            self.reassembly.drop(key)  # it had been cut before, with more order information on it
            return message.payload
        if position <= connection.received_up_to:
            return b""
        try:
            whole = self.reassembly.add(key, header.fragment_index, header.fragment_count, message.payload)
        except PeerError:
            self.reassembly.drop(key)
            return None
        if whole is None and header.fragment_index == header.fragment_count - 1:
            connection.want(position)
            self.nack_soon(connection)
        return whole

    def _is_ordinary(self, connection: Connection, header: Header) -> bool:
        return (
            header.source_view == connection.in_view
            and header.dest_view == self.standing.view
            and self.standing.view_start != UNSETTLED
            and header.view_base == connection.in_base
            and connection.fd != 0
        )

    # -- views of the remote group -------------------------------------------------------------

    def accepts_view(self, connection: Connection, header: Header) -> bool:
        """Whether a message of this view of the remote group may be accepted. A primary changes only in
        answer to a NewPrimaryView, others only on the word of their own group (D-47)."""
        view = header.source_view
        if connection.in_view == NO_VIEW:
            self.adopt_remote_view(connection, header)
            return True
        if connection.in_view == view:
            if connection.frozen:
                return False
            if connection.in_base < 0 and names_base(header):
                connection.in_base = header.view_base
            self.held_for(connection.remote_group_id).adopt_view(view, header.view_start)
            return True
        if not view.supersedes(connection.in_view):
            return False
        if self.standing.role == PRIMARY:
            self.on_unagreed_view(connection, header)
            return False
        if header.message_type > MessageType.REPLY or not vouched_for(connection, header, self.standing.view):
            return False
        self.discard_from(connection, connection.ordered_position + 1 + (connection.ordered_partial > 0))
        self.adopt_remote_view(connection, header)
        return True

    def discard_from(self, connection: Connection, first: int) -> None:
        """Forget what came in a superseded view and is not needed; its sender has it still."""
        connection.discard_undelivered(first)
        if not connection.received and connection.connection_id in self.pending_accept:
            self.pending_accept.remove(connection.connection_id)

    def adopt_remote_view(self, connection: Connection, header: Header) -> None:
        """Lines 39-40: expect messages of this view, whatever their numbers."""
        connection.in_view = header.source_view
        connection.frozen = False
        connection.in_base = header.view_base if names_base(header) else -1
        connection.acked_in_view = 0
        connection.acked = min(connection.acked, connection.collected_up_to)
        if connection.sent and self.standing.role == PRIMARY:  # the new primary may not have all of it
            wait_ns = self.config.timeouts.retransmit_interval_ns
            self.arm(connection, "retransmit_ns", self.outbox.now_ns + wait_ns)
        self.held_for(connection.remote_group_id).adopt_view(header.source_view, header.view_start)
        self.uncache(connection)

    # -- piggybacked information (line 33) -------------------------------------------------------

    def on_piggyback(self, connection: Connection, message: Message) -> None:
        """Acks, watermarks and order information, which any message of the accepted view brings."""
        header = message.header
        connection.heard_ns = self.outbox.now_ns
        base = connection.out_bases.get(header.ack_view_num)
        late = self.standing.role == PRIMARY and header.ack_view_num != connection.out_view_num
        if base is not None and not late and header.message_type != MessageType.SECOND_ACK:
            self._on_ack(connection, header, base + header.ack)
        if header.back > connection.remote_watermark:
            connection.remote_watermark = header.back
            connection.collect_sent(header.back)
            self.outbox.note((Collected, connection.connection_id, "sent", header.back))
        held = self.held_for(connection.remote_group_id)
        self.waiting_for_backups |= held.note_waiting(header) and self.standing.role == PRIMARY
        if held.view == header.source_view:
            if message.order_bytes:
                held.hold(message.order_start, message.order_bytes)
            held.on_watermark(header.order_watermark)
            held.committed = max(held.committed, header.order_committed)
        if message.reflected_bytes and self.standing.role != BACKUP:
            self.on_reflection(message)

    def _on_ack(self, connection: Connection, header: Header, acked: int) -> None:
        connection.acked_in_view = max(connection.acked_in_view, acked)
        if acked > connection.acked:
            acknowledge(connection, acked)
        if connection.acked_in_view < connection.collected_up_to and header.view_start != UNSETTLED:
            self.on_lost_messages(connection)

    def on_reflection(self, message: Message) -> None:
        """Our own order information, as the remote group got it in the view it believes in. A backup that
        does not know yet where the view begins waits: it may hold bytes of the old view beyond that."""
        believed, start, data = message.header.dest_view, message.reflected_start, message.reflected_bytes
        if self.standing.role == RECOVERING:
            ours = believed == self.recoverable_view != NO_VIEW
        else:
            ours = believed == self.standing.view and self.standing.view_start != UNSETTLED
        if ours and self.standing.role == PRIMARY:
            self.lane.orders.mark_reflected(start, start + len(data))
        elif ours:
            self.lane.orders.insert(start, data)

    # -- watermarks --------------------------------------------------------------------------

    def apply_group_watermark(self, watermark: int) -> None:
        """Lines 82-84 for all connections, and the order stream below it."""
        if watermark > self.lane.group_watermark:
            self.lane.group_watermark = watermark
            self.lane.orders.discard(watermark)
        for connection in self.indexes.marked:
            timestamp = connection.collect_delivered(self.lane.group_watermark)
            if timestamp:
                if self.standing.role == PRIMARY:
                    self.keep_alives.on_collected(connection, self.outbox.now_ns)
                self.outbox.note((Collected, connection.connection_id, "delivered", timestamp))
