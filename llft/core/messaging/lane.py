"""The hot lane: in-order send and receive, acks, order information, watermarks.

Everything that happens to a message when nothing goes wrong is here, on bytes, without
building message objects; everything else (`receive` returned None) leaves the lane for
the Messaging Protocol's ordinary handlers. `Lane` is the whole interface between the two.

A datagram is recognised by its static prefix: who speaks to whom, on which connection, under
which views. The prefix enters `by_prefix` when the ordinary path has accepted a message with
it, and leaves when a view changes; so the lane need not check any of that again.
"""

from __future__ import annotations

from typing import Final

from llft.config import Timeouts
from llft.core.lamport import LamportClock
from llft.core.messaging.connection import Connection
from llft.core.messaging.kept import ReceivedMessage, SentMessage, fragment_key
from llft.core.messaging.order_stream import OrderStream
from llft.core.messaging.reflection import HeldOrder
from llft.core.standing import Standing
from llft.identifiers import NO_VIEW, GroupId, Role
from llft.instant import NEVER
from llft.wire.fragment import Reassembly
from llft.wire.header import DYNAMIC, HEADER_BYTES, PREFIX_BYTES, pack_prefix
from llft.wire.messages import Header, MessageType
from llft.wire.order import Entry, OrderEncoder

_unpack_dynamic: Final = DYNAMIC.unpack_from
_pack_dynamic: Final = DYNAMIC.pack
_new_tuple: Final = tuple.__new__
"""Half the price of calling the named tuple, which would only pass its arguments on."""


def acknowledged(connection: Connection) -> int:
    """The `ack` field: in the numbers of the remote view, 0 while its base is not known."""
    if connection.in_base < 0:
        return 0
    ack = connection.received_up_to - connection.in_base
    return ack if ack > 0 else 0


def ack_delay_ns(connection: Connection, timeouts: Timeouts) -> int:
    """A message that came alone is answered soon, as a rule; the first and the last one often are not."""
    alone = connection.received_up_to == connection.ack_told + 1
    patient = alone and connection.established and not connection.half_closed_there
    return timeouts.first_ack_patience_ns if patient else timeouts.first_ack_delay_ns


def acknowledge(connection: Connection, acked: int) -> None:
    """The remote group has more than it had."""
    connection.acked = acked
    connection.first_acks_heard = 0
    if acked >= connection.transmitted:
        connection.retransmit_ns = NEVER  # the next message has its whole interval


class Lane:
    __slots__ = (
        "ack_delay_ns",
        "ack_patience_ns",
        "by_prefix",
        "carried_limit_bytes",
        "clock",
        "encoder",
        "group_watermark",
        "held",
        "order_committed",
        "orders",
        "reassembly",
        "standing",
        "unmarked",
    )

    def __init__(self, standing: Standing, reassembly: Reassembly) -> None:
        self.standing = standing
        self.reassembly = reassembly
        self.orders = OrderStream(early_limit_bytes=standing.config.limits.order_lag_bytes)
        self.encoder: OrderEncoder | None = None
        """Only a primary has one: it alone adds to the order log."""
        self.held: dict[GroupId, HeldOrder] = {}
        self.clock = LamportClock()
        self.by_prefix: dict[bytes, Connection] = {}
        self.group_watermark = 0
        """myGroupWatermark, as an offset of the order stream."""
        self.order_committed = 0
        self.unmarked: Connection | None = None
        """Delivered from, and the entry that says so is about to be recorded."""
        self.ack_delay_ns = standing.config.timeouts.first_ack_delay_ns
        self.ack_patience_ns = standing.config.timeouts.first_ack_patience_ns
        self.carried_limit_bytes = standing.config.limits.order_carried_bytes

    def expect(self, connection: Connection, data: bytes) -> None:
        """Messages like this one, which the ordinary path has taken, are for the lane from now on."""
        self.by_prefix.pop(connection.in_prefix, None)
        connection.in_prefix = data[:PREFIX_BYTES]
        self.by_prefix[connection.in_prefix] = connection

    def disregard(self, connection: Connection) -> None:
        """Views or the connection changed: what comes has to be looked at in full again."""
        self.by_prefix.pop(connection.in_prefix, None)
        connection.in_prefix = connection.out_prefix = b""

    def receive(self, data: bytes, now_ns: int) -> Connection | None:
        """Lines 21, 31-33 for the message that was expected, or its next fragment; None: not for the lane."""
        connection = self.by_prefix.get(data[:PREFIX_BYTES])
        if connection is None or len(data) < HEADER_BYTES:
            return None
        (
            flags, fragment_index, fragment_count, order_length, reflected_length,
            msn, ack_view_num, ack, payload_length,
            back, timestamp, watermark, committed, order_start, reflected_start,
        ) = _unpack_dynamic(data, PREFIX_BYTES)  # fmt: skip
        position = connection.in_base + msn
        start = HEADER_BYTES + order_length + reflected_length
        held = self.held[connection.remote_group_id]
        if (
            position != connection.received_up_to + 1
            or held.view != connection.in_view  # another connection has gone over to a newer one
            or flags
            or connection.nacks
            or connection.pending
            or ack_view_num != connection.out_view_num
            or len(data) != start + payload_length
            or not payload_length
        ):
            return None
        payload: bytes | None = data[start:]
        if fragment_count != 1 or fragment_index:
            payload = self._whole(connection, position, fragment_index, fragment_count, data[start:])
            if payload is None:
                return None
        connection.heard_ns = now_ns
        if payload:
            self._take(connection, (position, timestamp, payload, order_start + order_length), now_ns)
        acked = connection.out_base + ack
        if acked > connection.acked_in_view:
            connection.acked_in_view = acked
            if acked > connection.acked:
                acknowledge(connection, acked)
        if back > connection.remote_watermark:
            connection.remote_watermark = back
            connection.collect_sent(back)
        if order_length:
            held.hold(order_start, data[HEADER_BYTES : HEADER_BYTES + order_length])
        if watermark > held.watermark:
            held.on_watermark(watermark)
        if committed > held.committed:
            held.committed = committed
        if reflected_length:  # a primary need not carry it any more, a backup learns it
            if self.encoder is not None:
                self.orders.mark_reflected(reflected_start, reflected_start + reflected_length)
            else:
                self.orders.insert(reflected_start, data[start - reflected_length : start])
        return connection

    def _whole(
        self, connection: Connection, position: int, fragment_index: int, fragment_count: int, part: bytes
    ) -> bytes | None:
        """D-12: a fragment that follows those before it. Empty: there are more; None: it does not follow."""
        key = fragment_key(connection, position, passed_on=False)
        if not self.reassembly.follows(key, fragment_index, fragment_count):
            return None
        return self.reassembly.add(key, fragment_index, fragment_count, part) or b""

    def _take(self, connection: Connection, message: tuple[int, int, bytes, int], now_ns: int) -> None:
        """Position, timestamp, payload, and where the order information ends that it depends on."""
        position, timestamp, payload, order_end = message
        if self.reassembly.has_begun:
            self.reassembly.drop(fragment_key(connection, position, passed_on=False))
        connection.received_up_to = position
        connection.received_bytes += len(payload)
        connection.received.append(
            _new_tuple(ReceivedMessage, (position, timestamp, connection.in_view, 0, payload, order_end))
        )
        delay_ns = self.ack_patience_ns if position == connection.ack_told + 1 else self.ack_delay_ns
        connection.ack_due_ns = min(connection.ack_due_ns, now_ns + delay_ns)

    def deliver(self, connection: Connection, size: int) -> bytes:
        """Lines 34-43, primary and backup alike: the order has been determined."""
        before = connection.delivered_position
        data = connection.take(size)
        if connection.delivered_position != before:
            self.clock.on_deliver(connection.delivered_timestamp)
            self.unmarked = connection
        return data

    def mark(self, connection: Connection) -> None:
        """Its front message is delivered by the entry that is recorded next."""
        self.unmarked = connection

    def record(self, entry: Entry) -> None:
        """Lines 8, 37 and the determinizer's line 28: append to the order log."""
        encoder = self.encoder
        assert encoder is not None, "only a primary records order information"
        encoder.append(entry)
        connection = self.unmarked
        if connection is not None:
            self.unmarked = None
            connection.marks.append(
                (encoder.offset, connection.delivered_position, connection.delivered_timestamp)
            )

    def flush(self) -> None:
        """Seal what was recorded: its bytes are about to leave, or to be counted."""
        if self.encoder is not None and self.encoder.offset != self.orders.end:
            self.orders.append(self.encoder.take())

    def datagram(self, connection: Connection, message: SentMessage) -> bytes:
        """Lines 2-6, 9-14: the message as it leaves, with what is known now."""
        self.flush()
        orders = self.orders
        order_bytes = orders.suffix() if orders.unreflected < orders.end else b""
        held = self.held[connection.remote_group_id]
        reflected_start, reflected = (
            held.next_reflection(self.carried_limit_bytes // 2) if held.unreflected else (0, b"")
        )
        payload = message.payload
        return b"".join(
            (
                connection.out_prefix or self.make_prefix(connection),
                _pack_dynamic(
                    message.flags, 0, 1, len(order_bytes), len(reflected),
                    message.position - connection.out_base,
                    connection.in_view.primary_view_num if connection.in_base >= 0 else 0,
                    acknowledged(connection),
                    len(payload),
                    connection.members_timestamp, message.timestamp,
                    self.group_watermark, self.order_committed,
                    orders.unreflected, reflected_start,
                ),
                order_bytes, reflected, payload,
            )
        )  # fmt: skip

    def make_prefix(self, connection: Connection) -> bytes:
        """The static part of every Request or Reply on this connection in these views."""
        standing = self.standing
        held = self.held.get(connection.remote_group_id)
        connection.out_prefix = pack_prefix(
            Header(
                MessageType.REQUEST if connection.role == Role.CLIENT else MessageType.REPLY,
                standing.group_id,
                connection.remote_group_id,
                connection.connection_id.conn_seq_num,
                connection.role,
                standing.view,
                held.view if held is not None else NO_VIEW,
                connection.out_base,
                standing.view_start,
                standing.config.waits_for_commit,
            )
        )
        return connection.out_prefix
