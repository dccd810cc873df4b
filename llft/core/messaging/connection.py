"""One end of a virtual connection: the paper's variables and lists for each connection.

A message is known by its *position*, counted from the connection's birth: the view's base plus
msgSeqNum. Positions are the same at all replicas and in all views, so a message that travels
again in a new view (D-08) is recognised as the one that may already be here.

    sending     generated >= ... sent list ...  (collected once the remote group's watermark passed it)
    receiving   delivered list | received list | gap, out-of-order messages, placeholders = nacks

A replica *orders* before it *delivers*: the primary does both at once, a backup learns the
order from the log (`ordered_*`) and delivers when its application gets there.
"""

from __future__ import annotations

from collections import deque
from itertools import chain
from typing import Final

from llft.core.messaging.kept import ReceivedMessage, SentMessage
from llft.core.messaging.stream_digest import UNKNOWN_DIGEST, StreamDigest
from llft.identifiers import NO_VIEW, ConnectionId, GroupId, Role, ViewId
from llft.instant import NEVER
from llft.wire.checksum import crc32

CONNECT: Final = 1
HALF_CLOSE: Final = 2
"""Of MessageFlag, as plain integers for the hot lane."""

_PLACEHOLDERS_MAX: Final = 512
_new_tuple: Final = tuple.__new__  # half the price of calling the named tuple


class Connection:
    __slots__ = (
        "ack_due_ns",
        "acked",
        "acked_in_view",
        "ack_told",
        "birth_order_end",
        "calm_count",
        "calm_until_ns",
        "closed_here",
        "collected_digest",
        "connection_id",
        "delivered",
        "delivered_bytes",
        "delivered_digest",
        "delivered_position",
        "delivered_timestamp",
        "delivered_view",
        "due_ns",
        "established",
        "fd",
        "first_acks_heard",
        "forgotten",
        "frozen",
        "generated",
        "generated_at",
        "half_closed_here",
        "half_closed_there",
        "heard_ns",
        "in_base",
        "in_prefix",
        "in_view",
        "keep_alive_ns",
        "marks",
        "members_timestamp",
        "nacked_ns",
        "nacks",
        "number",
        "ordered_bytes",
        "ordered_partial",
        "ordered_position",
        "ordered_sends",
        "out_bases",
        "out_base",
        "over_at",
        "out_prefix",
        "out_view_num",
        "pending",
        "read_offset",
        "received",
        "received_bytes",
        "received_up_to",
        "remote_group_id",
        "remote_watermark",
        "reset_reason",
        "retransmit_ns",
        "role",
        "second_acked",
        "sent",
        "sent_bytes",
        "sent_digest",
        "settled",
        "transmitted",
    )

    def __init__(self, connection_id: ConnectionId, role: Role, *, view: ViewId) -> None:
        self.connection_id = connection_id
        self.role = role
        self.remote_group_id: GroupId = (
            connection_id.server_group_id if role == Role.CLIENT else connection_id.client_group_id
        )
        self.fd = 0
        self.number = 0  # in the order in which the table got to know its connections
        self._init_sending(view)
        self._init_receiving()
        self._init_life()

    def _init_sending(self, view: ViewId) -> None:
        self.sent: deque[SentMessage] = deque()
        self.sent_bytes = self.sent_digest = 0
        self.collected_digest = 0
        """Up to `collected_up_to`."""
        self.generated = 0
        self.generated_at: list[tuple[ViewId, int]] = [(view, 0)]
        """For each view of our group: how many messages had been generated when it began."""
        self.ordered_sends = 0
        self.transmitted = 0
        self.acked = 0
        self.acked_in_view = 0
        """The highest ack that came in the view accepted now."""
        self.first_acks_heard = 0
        self.out_base = 0
        self.out_view_num = view.primary_view_num
        self.out_bases: dict[int, int] = {view.primary_view_num: 0}
        self.out_prefix = b""
        self.remote_watermark = 0
        self.birth_order_end = 0
        self.settled = True

    def _init_receiving(self) -> None:
        self.received: deque[ReceivedMessage] = deque()
        self.received_up_to = self.received_bytes = 0
        self.pending: dict[int, ReceivedMessage] = {}
        self.nacks: dict[int, int] = {}
        """Positions of placeholders, and when each was last negatively acknowledged; 0: never."""
        self.delivered: deque[ReceivedMessage] = deque()
        self.forgotten = StreamDigest()
        self.delivered_position = 0
        self.delivered_timestamp = 0
        self.delivered_bytes = 0
        self.delivered_digest = 0
        self.delivered_view: ViewId = NO_VIEW
        self.ordered_bytes = 0
        self.ordered_position = 0
        self.ordered_partial = 0
        """Bytes of the message after `ordered_position` that are ordered already."""
        self.marks: deque[tuple[int, int, int]] = deque()
        """(order offset, position, timestamp): with the order log up to there, a member has
        every message up to that position."""
        self.members_timestamp = 0
        """The `back` field: every member of our group has all messages up to this timestamp."""
        self.read_offset = 0
        self.in_view: ViewId = NO_VIEW
        """The view of the remote group that messages are accepted from."""
        self.frozen = False
        """That view has ended; nothing more of it is accepted."""
        self.in_base = 0
        self.in_prefix = b""
        self.second_acked = 0
        self.ack_told = 0
        """The position that our last message acknowledged."""

    def _init_life(self) -> None:
        self.established = self.half_closed_here = self.half_closed_there = self.closed_here = False
        self.over_at = -1
        """When both ends are closed: the remote group's watermark that ends it for good."""
        self.reset_reason = ""
        self.ack_due_ns = self.retransmit_ns = self.nacked_ns = self.keep_alive_ns = NEVER
        self.heard_ns = 0
        self.calm_count = 0
        """KeepAlives since anything happened (D-44)."""
        self.calm_until_ns = 0
        """Until then it needs no KeepAlive, unless it waits."""
        self.due_ns = NEVER

    # -- sending ---------------------------------------------------------------------------

    def generate(self, payload: bytes, flags: int, timestamp: int) -> SentMessage:
        """Lines 1, 9, 12, 17: number the message, stamp it, append it to the sent list."""
        position = self.generated + 1
        self.generated = position
        message = _new_tuple(SentMessage, (position, timestamp, flags, payload, self.sent_digest))
        self.sent.append(message)
        self.sent_bytes += len(payload)
        return message

    def digest_of(self, payload: bytes, flags: int) -> int:
        """The running digest of everything written on this connection (D-09)."""
        self.sent_digest = crc32(payload, self.sent_digest ^ flags)
        return self.sent_digest

    def find_sent(self, position: int) -> SentMessage | None:
        if not self.sent:
            return None
        index = position - self.sent[0].position
        return self.sent[index] if 0 <= index < len(self.sent) else None

    def collect_sent(self, watermark: int) -> None:
        """Lines 76-81: the remote group's watermark says that all of its members have it."""
        sent = self.sent
        while sent and sent[0].timestamp <= watermark:
            message = sent.popleft()
            self.collected_digest = message.digest
            self.sent_bytes -= len(message.payload)
            if message.position > self.acked:
                self.acked = message.position

    def be_born(self, view: ViewId) -> None:
        """connect() or accept() was performed in this view: our side of the connection begins."""
        self.generated_at = [(view, 0)]
        self.out_base = 0
        self.out_view_num = view.primary_view_num
        self.out_bases = {view.primary_view_num: 0}
        self.out_prefix = b""

    @property
    def collected_up_to(self) -> int:
        """Messages up to this position are not here any more."""
        return self.sent[0].position - 1 if self.sent else self.generated

    def begin_view(self, view: ViewId, base: int) -> None:
        """Line 33: numbers restart in the new primary view, after `base` messages."""
        self.generated_at.append((view, self.generated))
        self.out_base = base
        self.out_view_num = view.primary_view_num
        self.out_bases[view.primary_view_num] = base
        self.out_prefix = b""

    def generated_before_successor(self, view: ViewId) -> int | None:
        """How many messages the group had sent when `view` ended; None if it is not of our lineage."""
        for index, (known, _) in enumerate(self.generated_at):
            if known == view:
                after = index + 1
                return self.generated_at[after][1] if after < len(self.generated_at) else self.generated
        return None

    # -- receiving -------------------------------------------------------------------------

    def accept(self, message: ReceivedMessage) -> None:
        """Lines 21-32. The caller has checked that the message is of the accepted view."""
        position = message.position
        expected = self.received_up_to + 1
        if position == expected:
            self._append_received(message)
            self.nacks.pop(position, None)
            self._close_gap()
        elif position > expected:
            if position not in self.pending:
                self.pending[position] = message
                self.nacks.pop(position, None)
                self._create_placeholders(expected, position)

    def _append_received(self, message: ReceivedMessage) -> None:
        self.received_up_to = message.position
        self.received_bytes += len(message.payload)
        self.received.append(message)
        if message.flags & HALF_CLOSE:
            self.half_closed_there = True

    def _create_placeholders(self, first: int, beyond: int) -> None:
        for missing in range(first, min(beyond, first + _PLACEHOLDERS_MAX)):
            if missing not in self.pending and missing not in self.nacks:
                self.nacks[missing] = 0

    def _close_gap(self) -> None:
        """Line 28: messages that waited behind a placeholder follow it."""
        while self.pending:
            message = self.pending.pop(self.received_up_to + 1, None)
            if message is None:
                return
            self._append_received(message)

    def want(self, up_to: int) -> None:
        """Lines 24, 72: somebody has shown that messages up to this position exist."""
        up_to = min(up_to, self.received_up_to + _PLACEHOLDERS_MAX)
        if up_to > self.received_up_to:
            self._create_placeholders(self.received_up_to + 1, up_to + 1)

    def find_received(self, position: int) -> ReceivedMessage | None:
        """Line 73: a message that this member received, delivered or not."""
        for kept in (self.delivered, self.received):
            index = position - kept[0].position if kept else -1
            if 0 <= index < len(kept) and kept[index].position == position:
                return kept[index]  # a state that was applied may have left a gap before it
        return self.pending.get(position)

    def discard_after_gap(self) -> None:
        """Line 38: flush what came after the last message received without a gap."""
        self.pending.clear()
        self.nacks.clear()

    def discard_undelivered(self, first: int) -> None:
        """Forget messages from position `first` on that came in a view now superseded."""
        self.discard_after_gap()
        while self.received and self.received[-1].position >= first:
            message = self.received.pop()
            self.received_bytes -= len(message.payload)
            self.received_up_to = message.position - 1
            if message.flags & HALF_CLOSE:
                self.half_closed_there = False

    def order_read(self, size: int) -> bool:
        """The log says that `size` more bytes were read; false if they are not all here."""
        if size and self.received_bytes - self.ordered_bytes < size:
            return False
        if size == 0 and not self.half_closed_there:
            return False
        self.ordered_bytes += size
        self.ordered_partial += size
        while (message := self.find_received(self.ordered_position + 1)) is not None:
            if len(message.payload) > self.ordered_partial:
                break
            if message.flags & HALF_CLOSE and size:
                break
            self.ordered_partial -= len(message.payload)
            self.ordered_position = message.position
            if self.ordered_partial == 0 and not self._follows_empty():
                break
        return True

    def _follows_empty(self) -> bool:
        following = self.find_received(self.ordered_position + 1)
        return following is not None and not following.payload

    def keep_partly_read(self) -> None:
        """Before the rest is dropped: a backup may have to read the same part of the first message."""
        if self.read_offset and self.received:
            self._move_to_delivered()

    def skip_to(self, position: int) -> None:
        """The application has closed the connection: messages up to here are as good as received."""
        self.discard_after_gap()
        self.received.clear()
        self.read_offset = 0
        self.received_bytes = self.delivered_bytes
        self.received_up_to = self.delivered_position = max(position, self.received_up_to)
        self.forgotten.set(self.received_up_to, UNKNOWN_DIGEST)

    def take(self, size: int) -> bytes:
        """Lines 34-43: deliver the next `size` bytes; messages used up move to the delivered list."""
        if size == 0:
            self._skip_empty(through_half_close=True)
            return b""
        if self.received and not self.read_offset and len(self.received[0].payload) == size:
            self.delivered_bytes += size
            return self._move_to_delivered()
        parts = []
        wanted = size
        while wanted:
            self._skip_empty(through_half_close=False)
            first = self.received[0]
            offset = self.read_offset
            part = first.payload[offset : offset + wanted] if offset else first.payload[:wanted]
            parts.append(part)
            wanted -= len(part)
            if offset + len(part) == len(first.payload):
                self._move_to_delivered()
            else:
                self.read_offset = offset + len(part)
        self.delivered_bytes += size
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _skip_empty(self, *, through_half_close: bool) -> None:
        while self.received and len(self.received[0].payload) == self.read_offset:
            if self.received[0].flags & HALF_CLOSE and not through_half_close:
                return
            self._move_to_delivered()

    def _move_to_delivered(self) -> bytes:
        message = self.received.popleft()
        self.read_offset = 0
        self.delivered.append(message)
        self.delivered_position, self.delivered_timestamp = message[0], message[1]
        return message.payload

    def deliver_connect(self) -> None:
        """accept() uses up the message that opened the connection."""
        self._move_to_delivered()
        self.established = True

    def collect_delivered(self, group_watermark: int) -> int:
        """Lines 76-78, 82-84: with the order log up to the group's watermark every member has
        these messages. Returns the timestamp up to which messages were collected, or 0."""
        marks = self.marks
        if not marks or marks[0][0] > group_watermark:
            return 0
        position = 0
        while marks and marks[0][0] <= group_watermark:
            _, position, timestamp = marks.popleft()
            self.members_timestamp = max(self.members_timestamp, timestamp)
        delivered = self.delivered
        while delivered and delivered[0].position <= position:
            self.forgotten.forget(delivered.popleft())
        return self.members_timestamp

    def forget(self, message: ReceivedMessage) -> None:
        """A message goes before others that are still kept: all of them are in the digest then."""
        for kept in self.delivered:
            self.forgotten.forget(kept)
        self.forgotten.forget(message)

    def received_digest(self, position: int) -> int:
        """Of all messages received up to `position`."""
        return self.forgotten.up_to(position, chain(self.delivered, self.received))

    @property
    def at_end(self) -> bool:
        """Everything was read and the remote side has half-closed."""
        return self.half_closed_there and self.received_bytes == self.delivered_bytes and not self.pending
