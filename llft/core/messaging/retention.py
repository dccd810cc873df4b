"""Retransmission and negative acknowledgment (lines 44-52, 73-75).

A primary asks the remote group for what it misses, a backup asks its own primary. Who has the
message, sent or received, sends it again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from llft.core.messaging.connection import Connection
from llft.core.messaging.kept import ReceivedMessage, SentMessage, fragment_key
from llft.core.messaging.messaging import Messaging
from llft.core.standing import PRIMARY, RECOVERING
from llft.identifiers import NO_VIEW, Role, ViewId
from llft.instant import NEVER
from llft.wire.codec import encode, encode_body
from llft.wire.fragment import slices
from llft.wire.messages import UNSETTLED, Header, Message, MessageFlag, MessageType, NackBody

_NACKED_AT_ONCE: Final = 64
_FRAGMENTS_NACKED_AT_ONCE: Final = 128
_RETRANSMITTED_AT_ONCE: Final = 16


class Retention:
    def __init__(self, messaging: Messaging, send_local: Callable[[MessageType, NackBody], None]) -> None:
        self.messaging = messaging
        self.send_local = send_local

    # -- periodic processing (lines 44-52) ---------------------------------------------------

    def retransmit_unacked(self, connection: Connection) -> None:
        """Lines 44-46."""
        messaging = self.messaging
        connection.retransmit_ns = NEVER
        if connection.acked >= connection.transmitted or not messaging.may_transmit(connection):
            if connection.acked < connection.generated and messaging.standing.role == PRIMARY:
                self.retransmit_later(connection)
            return
        first = connection.acked + 1
        for position in range(first, min(first + _RETRANSMITTED_AT_ONCE, connection.transmitted + 1)):
            message = connection.find_sent(position)
            if message is not None:
                messaging.transmit(connection, message)
        wait_ns = 2 * messaging.config.timeouts.retransmit_interval_ns
        messaging.arm(connection, "retransmit_ns", messaging.outbox.now_ns + wait_ns)

    def retransmit_later(self, connection: Connection) -> None:
        messaging = self.messaging
        wait_ns = messaging.config.timeouts.retransmit_interval_ns
        messaging.arm(connection, "retransmit_ns", messaging.outbox.now_ns + wait_ns)

    def send_nacks(self, connection: Connection) -> None:
        """Lines 49-52."""
        messaging = self.messaging
        connection.nacked_ns = NEVER
        for position in [p for p in connection.nacks if p <= connection.received_up_to]:
            del connection.nacks[position]
        if not connection.nacks:
            return
        positions = tuple(self._missing(connection))
        for position, _ in positions:
            connection.nacks[position] = messaging.outbox.now_ns
        client, server, number = connection.connection_id
        body = NackBody(messaging.standing.birth_id, client, server, number, positions)
        if messaging.standing.role == PRIMARY:
            if connection.settled:  # else the question is still what of the old view counts
                messaging.send_control(connection, MessageType.NACK, body)
        elif messaging.standing.role == RECOVERING:
            self._nack_in_recovery(connection, body)
        if messaging.standing.role != PRIMARY:  # while recovering, whoever has it may give it
            if messaging.standing.role == RECOVERING:  # fragments of theirs do not add up with the sender's
                whole = tuple([(position, ()) for position, _ in positions])
                body = NackBody(messaging.standing.birth_id, client, server, number, whole)
            self.send_local(MessageType.NACK, body)
        wait_ns = messaging.config.timeouts.nack_interval_ns
        messaging.arm(connection, "nacked_ns", messaging.outbox.now_ns + wait_ns)

    def _nack_in_recovery(self, connection: Connection, body: NackBody) -> None:
        """What is missing was read by the old primary, in the view that the log names: in that view it is
        wanted, whatever is believed of the remote group by now (D-47)."""
        header = self.messaging.header(connection, MessageType.NACK)
        if connection.in_view != NO_VIEW:
            header.dest_view = connection.in_view
        self.messaging.send(connection, header, encode_body(body), carry=False)

    def _missing(self, connection: Connection) -> list[tuple[int, tuple[int, ...]]]:
        """What to ask for: messages, or fragments of them, no more than fits into a datagram."""
        messaging = self.messaging
        passed_on = messaging.standing.role not in (PRIMARY, RECOVERING)
        asked: list[tuple[int, tuple[int, ...]]] = []
        room = _FRAGMENTS_NACKED_AT_ONCE
        for position in sorted(connection.nacks)[:_NACKED_AT_ONCE]:
            key = fragment_key(connection, position, passed_on=passed_on)
            fragments = messaging.reassembly.missing(key)[:room]
            asked.append((position, fragments))
            room -= len(fragments)
            if room <= 0:
                break
        return asked

    # -- on receiving a Nack (lines 73-75) ---------------------------------------------------

    def on_remote_nack(self, connection: Connection, header: Header, body: NackBody) -> None:
        """The remote group misses messages that our group sent."""
        messaging = self.messaging
        names_old_view = header.dest_view not in (messaging.standing.view, NO_VIEW)
        recovers = header.view_start == UNSETTLED and names_old_view
        if messaging.standing.role == RECOVERING or not connection.settled or recovers:
            self._repeat_old_view(connection, header.dest_view, body)
            return
        if not messaging.may_transmit(connection):
            return
        for position, fragments in body.positions:
            message = connection.find_sent(position)
            if message is None and connection.acked_in_view < position <= connection.collected_up_to:
                if not connection.half_closed_there and header.view_start != UNSETTLED:
                    messaging.on_lost_messages(connection)  # a branch pruned since said that all had it
                    return
            if message is None or position > connection.transmitted:
                continue
            if fragments:
                messaging.transmit_fragments(connection, message, fragments)
            else:
                messaging.transmit(connection, message)

    def _repeat_old_view(self, connection: Connection, view: ViewId, body: NackBody) -> None:
        """A remote group that recovers as we do, or did, may need what our old primary sent to it, and this
        replica has generated it. It goes out in the name and numbers of the view that they believe in. Of our
        own view that is what was said in it before, and as long as nobody has agreed with it what the views
        before it had said: whoever waits for that could not agree without."""
        limit = connection.generated_before_successor(view)
        base = connection.out_bases.get(view.primary_view_num)
        if limit is None or base is None:
            return
        if view == self.messaging.standing.view:
            limit = min(limit, max(connection.transmitted, _generated_before(connection, view)))
        for position, fragments in body.positions:
            message = connection.find_sent(position)
            if message is not None and base < position <= limit:
                self._send_in_name_of(view, base, connection, message, fragments)

    def _send_in_name_of(
        self, view: ViewId, base: int, connection: Connection, message: SentMessage, wanted: tuple[int, ...]
    ) -> None:
        parts = slices(message.payload, self.messaging.fragment_room, self.messaging.plain_room)
        for index, part in enumerate(parts):
            if wanted and index not in wanted:
                continue
            header = self.messaging.header(connection, self.messaging.application_type(connection))
            header.source_view, header.view_base = view, base
            header.view_start = UNSETTLED
            header.flags = MessageFlag(message.flags)
            header.fragment_index, header.fragment_count = index, len(parts)
            header.msg_seq_num = message.position - base
            header.timestamp = message.timestamp
            self.messaging.send(connection, header, part, carry=False)

    def on_local_nack(self, connection: Connection, body: NackBody) -> None:
        """A backup misses messages that the remote group sent and its primary received."""
        for position, fragments in body.positions:
            message = connection.find_received(position)
            if message is not None:
                self._pass_on(connection, message, fragments)
            elif position > connection.received_up_to:
                connection.want(connection.received_up_to + 1)
                self.messaging.nack_soon(connection)

    def _pass_on(self, connection: Connection, message: ReceivedMessage, wanted: tuple[int, ...]) -> None:
        """Retransmit a received message on the intra-group connection, as its sender would."""
        messaging = self.messaging
        base = message.position - 1
        parts = slices(message.payload, messaging.fragment_room, messaging.plain_room)
        held = messaging.held_for(connection.remote_group_id)
        for index, part in enumerate(parts):
            if wanted and index not in wanted:
                continue
            header = Header(
                MessageType.REPLY if connection.role == Role.CLIENT else MessageType.REQUEST,
                connection.remote_group_id,
                messaging.standing.group_id,
                connection.connection_id.conn_seq_num,
                Role.SERVER if connection.role == Role.CLIENT else Role.CLIENT,
                connection.in_view,
                messaging.standing.view,
                base,
                held.view_start,
                held.waits,
                MessageFlag(message.flags) | MessageFlag.PASSED_ON,
                index,
                len(parts),
                message.position - base,
                timestamp=message.timestamp,
            )
            passed_on = Message(header, order_start=message.order_end, payload=part)
            messaging.outbox.multicast(messaging.standing.group_id, encode(passed_on))


def _generated_before(connection: Connection, view: ViewId) -> int:
    """Up to where views before this one had generated messages."""
    return next((position for known, position in connection.generated_at if known == view), 0)
