"""The intra-group connection: heartbeats, watermarks, local Nacks, order information among members.

Laws:
 - A backup takes order information only from the primary of the view it follows, or reflected under it.
 - A primary's Heartbeat goes to every process of the group, member or not: so a competing primary of a
   healed partition learns of it, and a removed backup that it is none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from llft.config import BACKUP_INTERVALS
from llft.core.standing import BACKUP, PRIMARY, RECOVERING
from llft.identifiers import NO_BIRTH, BirthId, ConnectionId
from llft.instant import NEVER
from llft.journal.record import HeartbeatArrived
from llft.wire.codec import encode, encode_body
from llft.wire.fragment import slices
from llft.wire.messages import (
    UNSETTLED,
    Body,
    Header,
    HeartbeatBody,
    Message,
    MessageFlag,
    MessageType,
    NackBody,
)

if TYPE_CHECKING:
    from llft.core.replica import Replica

_CHUNKS_AT_ONCE: Final = 16
_ASKING: Final = MessageFlag.ANSWER_AT_ONCE
_ONE: Final = MessageFlag.ONE_ANSWERS
_SPARED: Final = 2
"""Once in so many intervals a Heartbeat goes by itself, whatever others there were: the pulse needs one."""


class IntraGroup:
    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.standing = replica.standing
        self.messaging = replica.messaging
        self.outbox = replica.outbox
        self.timeouts = replica.config.timeouts
        self.beat = self.heard_beat = 0
        self.heartbeat_ns = NEVER
        self.beaten_ns = 0
        self.asked_ns = self.passed_over_ns = 0
        """When this backup was asked last for its watermark, and when another one was."""
        self.order_nack_ns = NEVER
        self.order_known_to_exist = 0
        own = replica.standing.birth_id
        self.nonce = (own.start_ns & 0xFFFF_FFFF) << 28 ^ own.pid << 20
        """Tells fragmented messages of different senders and times apart."""

    # -- sending -----------------------------------------------------------------------------

    def header(self, message_type: MessageType, flags: MessageFlag) -> Header:
        standing = self.standing
        lane = self.messaging.lane
        return Header(
            message_type,
            standing.group_id,
            standing.group_id,
            source_view=standing.view,
            dest_view=standing.view,
            view_start=standing.view_start,
            flags=flags,
            order_watermark=lane.group_watermark,
            order_committed=lane.order_committed,
        )

    def datagrams(self, header: Header, payload: bytes) -> list[bytes]:
        """One message, in fragments if it must be; they share a nonce, where others say what is reflected.
        All else in the header, the timestamp too, is for whoever gets the whole."""
        parts = slices(payload, self.messaging.fragment_room)
        self.nonce += 1
        header.fragment_count = len(parts)
        encoded = []
        for index, part in enumerate(parts):
            header.fragment_index = index
            encoded.append(encode(Message(header, reflected_start=self.nonce, payload=part)))
        return encoded

    def send(
        self,
        message_type: MessageType,
        body: Body,
        flags: MessageFlag = MessageFlag.NONE,
        to: BirthId | None = None,
    ) -> None:
        for data in self.datagrams(self.header(message_type, flags), encode_body(body)):
            if to is None:
                self.outbox.multicast(self.standing.group_id, data)
            else:
                self.outbox.transmit(to, data)

    def send_order(self, start: int, end: int, flags: MessageFlag = MessageFlag.NONE) -> None:
        """KeepAlives on the intra-group connection that carry a piece of our order information."""
        for offset, chunk in self._pieces(start, end):
            self._send_piece(offset, chunk, None, flags)

    def ask(self, start: int, end: int, one: BirthId) -> None:
        """The same, but the last of it goes with a Heartbeat that is answered at once: by all backups, or by
        `one` of them, to whom alone all this is sent then."""
        to = None if one == NO_BIRTH else one
        *before, (offset, chunk) = self._pieces(start, end)
        for each, piece in before:
            self._send_piece(each, piece, to, MessageFlag.NONE)
        self.beat += 1
        header = self.header(MessageType.HEARTBEAT, _ASKING | self.replica.reticence.heartbeat_flags())
        body = encode_body(self.heartbeat_body(self.messaging.lane.group_watermark))
        self._send(Message(header, payload=body, order_start=offset, order_bytes=chunk), to)
        now_ns, interval_ns = self.outbox.now_ns, self.timeouts.heartbeat_interval_ns
        # To all, that was a beat: the next one of its own can wait, but not for ever (D-48). One that is due
        # may be a new primary's first.
        if to is None and now_ns < self.heartbeat_ns != NEVER:
            self.heartbeat_ns = min(now_ns + interval_ns, self.beaten_ns + _SPARED * interval_ns)

    def ask_one(self, start: int, end: int, one: BirthId) -> None:
        """The same, to a backup that says itself that it holds it (D-75)."""
        *before, (offset, chunk) = self._pieces(start, end)
        for each, piece in before:
            self._send_piece(each, piece, one, MessageFlag.NONE)
        self._send_piece(offset, chunk, one, MessageFlag.COMMITS)

    def _pieces(self, start: int, end: int) -> list[tuple[int, bytes]]:
        """Of our order information, for one datagram each; one of them at least, be it empty."""
        self.messaging.lane.flush()
        room = self.messaging.fragment_room
        orders = self.messaging.lane.orders
        start = max(start, orders.start)
        end = min(end, orders.end, start + _CHUNKS_AT_ONCE * room)
        offsets = range(start, end, room) or (start,)
        return [(offset, orders.slice(offset, min(offset + room, end))) for offset in offsets]

    def _send_piece(self, start: int, chunk: bytes, to: BirthId | None, flags: MessageFlag) -> None:
        header = self.header(MessageType.KEEP_ALIVE, flags)
        self._send(Message(header, order_start=start, order_bytes=chunk), to)

    def _send(self, message: Message, to: BirthId | None) -> None:
        if to is None:
            self.outbox.multicast(self.standing.group_id, encode(message))
        else:
            self.outbox.transmit_first(to, encode(message))

    # -- heartbeats (lines 56-59) ------------------------------------------------------------

    def on_heartbeat_timer(self) -> None:
        interval_ns = self.timeouts.heartbeat_interval_ns
        if self.standing.role == PRIMARY:
            self.replica.update_watermarks()
            self.replica.asking.announce()
        elif self.standing.role == BACKUP:
            interval_ns *= BACKUP_INTERVALS
            self.replica.primary_change.beforehand.own_view()
        if not self.lonely:
            self.send_heartbeat(self.replica.reticence.heartbeat_flags())
        self.beaten_ns, self.heartbeat_ns = self.outbox.now_ns, self.outbox.now_ns + interval_ns

    @property
    def lonely(self) -> bool:
        """A gateway that is alone: nobody joins it, and no other primary of its group can be met (D-19)."""
        return self.replica.config.outside and len(self.standing.membership) == 1

    def send_heartbeat(self, flags: MessageFlag = MessageFlag.NONE) -> None:
        standing, lane = self.standing, self.messaging.lane
        if standing.role in (PRIMARY, RECOVERING):
            self.beat += 1
            lane.flush()
            self._send_heartbeat(lane.group_watermark, flags, None)
        elif standing.role == BACKUP:
            self._send_heartbeat(self.replica.own_watermark(), flags, standing.view.birth_id)

    def _send_heartbeat(self, watermark: int, flags: MessageFlag, to: BirthId | None) -> None:
        self.send(MessageType.HEARTBEAT, self.heartbeat_body(watermark), flags, to)

    def heartbeat_body(self, watermark: int) -> HeartbeatBody:
        return HeartbeatBody(
            self.standing.birth_id,
            self.beat,
            self.heard_beat,
            self.messaging.lane.orders.end,
            watermark,
            self.replica.executed,
            self.standing.change_num,
        )

    def on_heartbeat(self, header: Header, body: HeartbeatBody) -> None:
        standing, hear = self.standing, self.replica.detector.hear
        interval_ns = hear(body.sender, self.outbox.now_ns) if standing.rank_of(body.sender) else 0
        if standing.role == PRIMARY:
            self._on_backup_heartbeat(header, body)
        elif body.sender == standing.view.birth_id and header.source_view == standing.view:
            self.outbox.note((HeartbeatArrived, body.sender, interval_ns))
            self._on_primary_heartbeat(header, body)

    def on_beats(self, heard_ns: list[int], order_watermark: int, body: HeartbeatBody) -> None:
        """At a backup: what a dialogue heard of the primary, and when (D-74); the last one says it all."""
        primary = self.standing.view.birth_id
        for at_ns in heard_ns:
            self.outbox.note((HeartbeatArrived, primary, self.replica.detector.hear(primary, at_ns)))
        if body.sender == primary:
            self._learn_from_primary(order_watermark, body)

    def _on_primary_heartbeat(self, header: Header, body: HeartbeatBody) -> None:
        self.replica.view_change.learn_view_start(header.view_start)
        self._learn_from_primary(header.order_watermark, body)
        self._note_question(header.flags)
        wanted = header.flags & MessageFlag.SWITCH and self.standing.rank == 2
        self.replica.reticence.switch_at = body.order_end if wanted else -1

    def _learn_from_primary(self, order_watermark: int, body: HeartbeatBody) -> None:
        self.heard_beat = max(self.heard_beat, body.beat)
        self.messaging.apply_group_watermark(min(order_watermark, self.replica.own_watermark()))
        self.note_order_end(body.order_end)

    def _note_question(self, flags: MessageFlag) -> None:
        if flags & _ONE and self.standing.rank != 2:
            self.passed_over_ns = self.outbox.now_ns
        elif flags & _ASKING:
            self.replica.asking.answer_wanted = True
            known_end = max(self.order_known_to_exist, self.messaging.lane.orders.end)
            self.replica.asking.durability.asked(known_end)
            self.asked_ns = self.outbox.now_ns

    def _on_backup_heartbeat(self, header: Header, body: HeartbeatBody) -> None:
        replica = self.replica
        if not self.standing.rank_of(body.sender):
            if body.sender != self.standing.birth_id:
                replica.commit.tell_removed(body.sender)
            return
        if header.source_view != self.standing.view:
            return
        replica.reticence.on_echo(body.echo)
        replica.timers.hear_majority(self.outbox.now_ns)
        has_past = not header.flags & MessageFlag.WITHOUT_PAST
        self.messaging.watermarks.report(body.sender, body.watermark, body.executed, has_past=has_past)
        replica.asking.durability.report(body.sender, header.flags, body.executed)
        replica.update_watermarks()
        if header.flags & MessageFlag.LEAVING:
            replica.commit.remove(body.sender)

    # -- order information among members -----------------------------------------------------

    def note_order_end(self, order_end: int) -> None:
        """The primary has recorded more than this backup knows: it is asked for it soon."""
        self.order_known_to_exist = max(self.order_known_to_exist, order_end)
        if order_end > self.messaging.lane.orders.end and self.order_nack_ns == NEVER:
            self.order_nack_ns = self.outbox.now_ns + self.timeouts.nack_interval_ns

    def on_order_nack_timer(self) -> None:
        self.order_nack_ns = NEVER
        end = self.messaging.lane.orders.end
        if self.order_known_to_exist > end and self.standing.has_state and self.standing.role == BACKUP:
            body = NackBody(self.standing.birth_id, order_start=end, order_end=self.order_known_to_exist)
            self.send(MessageType.NACK, body)
            self.order_nack_ns = self.outbox.now_ns + self.timeouts.nack_interval_ns

    def on_order(self, message: Message) -> None:
        """A KeepAlive, or a Heartbeat that brings order information."""
        header = message.header
        standing = self.standing
        if header.source_view != standing.view or not standing.has_state:
            return
        if standing.role == BACKUP:
            self.replica.view_change.learn_view_start(header.view_start)
        ours = self._is_of_our_history(header)
        if message.order_bytes and ours:
            self.messaging.lane.orders.insert(message.order_start, message.order_bytes)
        if header.flags & MessageFlag.COMMITS and ours and standing.role == BACKUP:
            self.replica.asking.holding.on_question(message.order_start + len(message.order_bytes))
        self._note_question(header.flags)

    def _is_of_our_history(self, header: Header) -> bool:
        """A recovering primary takes what its members know while it collects. A backup takes it from the
        settled primary only: what another member gave for the recovery may lie beyond the virtual
        synchrony point."""
        if self.standing.role == RECOVERING:
            recovery = self.replica.view_change.recovery
            return recovery is not None and recovery.awaits_members
        return self.standing.role == BACKUP and header.view_start == self.standing.view_start != UNSETTLED

    def on_local_nack(self, header: Header, body: NackBody) -> None:
        """Lines 73-75 on the intra-group connection. A backup answers only its recovering primary."""
        standing = self.standing
        if header.source_view != standing.view or not standing.has_state:
            return
        if standing.role not in (PRIMARY, RECOVERING) and body.sender != standing.view.birth_id:
            return
        if body.order_end > body.order_start:
            self.send_order(body.order_start, body.order_end)
            return
        connection_id = ConnectionId(body.client_group_id, body.server_group_id, body.conn_seq_num)
        connection = self.messaging.table.by_id.get(connection_id)
        if connection is not None:
            self.replica.retention.on_local_nack(connection, body)
