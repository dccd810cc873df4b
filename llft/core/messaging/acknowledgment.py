"""FirstAck and SecondAck (lines 47-48, 60-72).

The primary of the receiving group acknowledges a message with the next one it sends, or, having none,
with a FirstAck that it repeats until a backup of the sending group (or its only member) answers
with a SecondAck. A backup answers only for a message that it has generated itself: so the SecondAck also
says that the sending group does not depend on its primary for that message.
"""

from __future__ import annotations

from llft.config import Replication
from llft.core.messaging.connection import Connection
from llft.core.messaging.messaging import Messaging
from llft.instant import NEVER
from llft.wire.messages import Header, MessageType


class Acknowledgment:
    def __init__(self, messaging: Messaging) -> None:
        self.messaging = messaging

    def send_first_ack(self, connection: Connection) -> None:
        """Lines 47-48: for the last message received without a gap, until a SecondAck comes."""
        messaging = self.messaging
        if connection.second_acked >= connection.received_up_to:
            connection.ack_due_ns = NEVER
            return
        if connection.settled:
            messaging.send_control(connection, MessageType.FIRST_ACK)
        wait_ns = 2 * messaging.config.timeouts.retransmit_interval_ns
        messaging.arm(connection, "ack_due_ns", messaging.outbox.now_ns + wait_ns)

    def on_first_ack(self, connection: Connection, header: Header) -> None:
        """Lines 60-68."""
        base = connection.out_bases.get(header.ack_view_num)
        if base is None or header.ack == 0:
            return
        position = base + header.ack
        standing = self.messaging.standing
        if not self.has_generated(connection, position):
            return
        if standing.am_primary and position == connection.generated:
            connection.first_acks_heard += 1
            if connection.first_acks_heard > self.messaging.config.timeouts.max_ack:
                self.messaging.flow.on_too_many_first_acks()
                return
        if standing.am_the_only_primary or (standing.am_backup and standing.has_state):
            self._send_second_ack(connection, position)

    def has_generated(self, connection: Connection, position: int) -> bool:
        """Line 64. A semi-passive backup generates nothing; it can once it knows the order of it."""
        if self.messaging.config.replication is Replication.SEMI_PASSIVE:
            return position <= max(connection.generated, connection.ordered_sends)
        return position <= connection.generated

    def _send_second_ack(self, connection: Connection, position: int) -> None:
        """Line 68. The ack field names a message of our own group, in the numbers of its view."""
        header = self.messaging.header(connection, MessageType.SECOND_ACK)
        header.ack_view_num = connection.out_view_num
        header.ack = max(position - connection.out_base, 0)
        header.back = 0
        self.messaging.send(connection, header, carry=False)

    def on_second_ack(self, connection: Connection, header: Header) -> None:
        """Lines 69-72."""
        if header.ack == 0 or header.ack_view_num != connection.in_view.primary_view_num:
            return
        position = header.view_base + header.ack
        if position <= connection.received_up_to:
            connection.second_acked = max(connection.second_acked, position)
        elif position <= connection.received_up_to + self.messaging.config.limits.window_messages:
            connection.want(position)
            self.messaging.nack_soon(connection)

    def on_keep_alive(self, connection: Connection, header: Header) -> None:
        """The remote primary has sent messages up to this one: those not here were lost. What it has not got
        of ours, which left long ago, was lost, too (D-44)."""
        if header.msg_seq_num and header.view_base == connection.in_base:
            connection.want(header.view_base + header.msg_seq_num)
            self.messaging.nack_soon(connection)
        if self.messaging.standing.am_primary and connection.acked < connection.transmitted:
            timeouts, now_ns = self.messaging.config.timeouts, self.messaging.outbox.now_ns
            left_ns = connection.retransmit_ns - timeouts.retransmit_interval_ns
            if now_ns - left_ns > timeouts.nack_interval_ns:
                self.messaging.arm(connection, "retransmit_ns", now_ns)
