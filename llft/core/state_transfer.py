"""Checkpoints: the State message, at both ends (backup change, lines 20-21, 41-42).

A checkpoint is the application's own state plus everything of the protocols that belongs to the same point
of the order log: the virtual synchrony point for adding a backup. Messages that were not
delivered before it are not in it: the joiner has logged them, or asks for them.

Law: whoever follows the log to a checkpoint's offset is in the checkpoint's state. So what no entry
proves yet is logged as the checkpoint's last entry (`record_checkpoint`). A new primary either has
that entry, or its view starts before the offset, and all who took the checkpoint reset themselves.
A semi-passive primary sends such checkpoints as updates to all backups.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from llft.core.determinizer import snapshot
from llft.core.messaging.connection import Connection
from llft.core.messaging.kept import SentMessage
from llft.errors import PeerError
from llft.identifiers import NO_BIRTH, BirthId, ConnectionId, ViewId
from llft.instant import NEVER
from llft.journal.record import StateApplied, StateTaken
from llft.wire.checksum import crc32
from llft.wire.codec import encode_body
from llft.wire.messages import MessageFlag, MessageType, StateAckBody, StateBody
from llft.wire.order import OrderContext

if TYPE_CHECKING:
    from llft.core.replica import Replica

_LENGTH: Final = Struct("<I")
"""A state is the length of the protocols' part, that part, and the application's bytes."""

_PARTS: Final = (
    "offset", "count", "context", "lamport", "lineage", "performed_view", "next_fd", "next_conn_seq_num",
    "finished", "connections", "determinizer",
)  # fmt: skip

_FIELDS: Final = (
    "fd", "generated", "out_base", "out_view_num", "out_bases", "sent_digest", "collected_digest",
    "acked", "remote_watermark", "delivered_position", "delivered_timestamp", "delivered_bytes",
    "delivered_digest", "read_offset", "established", "half_closed_here", "closed_here",
    "reset_reason", "in_base", "members_timestamp",
)  # fmt: skip


class StateTransfer:
    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.recipients: list[BirthId] = []
        """Joiners for whom the next checkpoint is taken; NO_BIRTH: all semi-passive backups."""
        self.unacknowledged: dict[BirthId, list[bytes]] = {}
        self.retransmit_ns = NEVER
        self.update_ns = NEVER
        self.updated_count = 0
        self.update_offset = 0
        self.without_update: list[BirthId] = []
        """Semi-passive backups that have not stored the newest update."""
        self.past = b""
        """Of the event Started."""

    def resume(self) -> bool:
        """At a first member: the threads of an application that is there already (D-64). Of its connections
        none is left; their descriptors are not given again."""
        if not self.past:
            return False
        replica, state = self.replica, snapshot.load(self.past)
        replica.sockets.next_fd = replica.sockets.next_conn_seq_num = state["next_number"]
        replica.determinizer.restore(snapshot.dump(state["determinizer"]), replica.now_ns)
        return True

    # -- at the primary ------------------------------------------------------------------------

    def want(self, recipient: BirthId) -> None:
        if recipient not in self.recipients:
            self.recipients.append(recipient)

    def has_much_to_tell(self) -> bool:
        """At a semi-passive primary: so much was performed that the next update need not wait for its time,
        unless the last one is still on its way. Looked at with every deadline, so at every beat."""
        if self.update_ns == NEVER or self.without_update:
            return False
        performed_count = self.replica.performed_count - self.updated_count
        return performed_count >= self.replica.config.limits.state_update_operations

    def on_state_captured(self, application: bytes) -> None:
        """Lines 41-42: the state of this very moment, sent to whoever waits for it."""
        replica = self.replica
        replica.determinizer.record_checkpoint()
        state, offset, count = self.capture(application)
        self._tell_backups(offset)
        digest = crc32(application)
        replica.outbox.record(StateTaken, count, len(application), digest)
        for recipient in self.recipients:
            body = StateBody(recipient, offset, digest, state)
            header = replica.intra.header(MessageType.STATE, MessageFlag.NONE)
            self.unacknowledged[recipient] = replica.intra.datagrams(header, encode_body(body))
            if recipient == NO_BIRTH:
                self.update_offset = offset
                self.updated_count = count
                self.without_update = list(replica.standing.backups)
            else:
                replica.messaging.watermarks.admit(recipient, offset, has_past=False)
            self._transmit(recipient)
        self.recipients = []

    def _tell_backups(self, offset: int) -> None:
        """Of the checkpoint's entry, before the checkpoint: a successor without it cannot use those
        who took the checkpoint."""
        known = min(self.replica.messaging.watermarks.of_member.values(), default=offset)
        if known < offset:
            self.replica.intra.send_order(known, offset)

    def _transmit(self, recipient: BirthId) -> None:
        """The same fragments every time, so that what arrives of each attempt adds up."""
        outbox = self.replica.outbox
        for data in self.unacknowledged[recipient]:
            if recipient == NO_BIRTH:
                outbox.multicast(self.replica.standing.group_id, data)
            else:
                outbox.transmit(recipient, data)
        wait_ns = 4 * self.replica.config.timeouts.retransmit_interval_ns
        self.retransmit_ns = self.replica.now_ns + wait_ns

    def on_retransmission_timer(self) -> None:
        self.retransmit_ns = NEVER
        members = self.replica.standing.backups
        self.without_update = [backup for backup in self.without_update if backup in members]
        for recipient in list(self.unacknowledged):
            if recipient not in members and not (recipient == NO_BIRTH and self.without_update):
                del self.unacknowledged[recipient]
            else:
                self._transmit(recipient)

    def on_state_ack(self, body: StateAckBody) -> None:
        self.unacknowledged.pop(body.sender, None)
        if body.order_offset >= self.update_offset and body.sender in self.without_update:
            self.without_update.remove(body.sender)

    def capture(self, application: bytes) -> tuple[bytes, int, int]:
        replica = self.replica
        lane = replica.messaging.lane
        lane.flush()
        assert lane.encoder is not None
        offset, count = lane.encoder.offset, lane.encoder.count
        state = {
            "offset": offset,
            "count": count,
            "context": lane.encoder.context.pack(),
            "lamport": lane.clock.value,
            "lineage": [_plain_view(view) for view in replica.lineage],
            "performed_view": _plain_view(replica.performed_view),
            "next_fd": replica.sockets.next_fd,
            "next_conn_seq_num": replica.sockets.next_conn_seq_num,
            "finished": replica.messaging.table.finished.export(),
            "connections": [_export(c) for c in replica.messaging.table if c.fd],
            "determinizer": replica.determinizer.snapshot(),
        }
        protocols = snapshot.dump(state)
        return _LENGTH.pack(len(protocols)) + protocols + application, offset, count

    # -- at a backup -----------------------------------------------------------------------------

    def load(self, body: StateBody) -> dict[str, Any]:
        state = snapshot.load(body.state[_LENGTH.size : _end_of_protocols(body)])
        state["application"] = application_of(body)
        missing = [name for name in _PARTS if name not in state]
        if missing:
            raise PeerError("state_incomplete", "ask for the state again", missing=missing)
        return state

    def adopt(self, state: dict[str, Any]) -> None:
        """Line 20 at a joiner: become what the primary was at that point of the log."""
        replica = self.replica
        messaging = replica.messaging
        lane = messaging.lane
        lane.clock.value = state["lamport"]
        lane.orders.__init__(state["offset"], early_limit_bytes=lane.orders.early_limit_bytes)  # type: ignore[misc]
        lane.group_watermark = min(lane.group_watermark, state["offset"])
        replica.lineage = [_view(plain) for plain in state["lineage"]]
        self.apply_execution(state)
        replica.begin_following(OrderContext.unpack(state["context"]), state["offset"], state["count"])
        replica.outbox.record(
            StateApplied, state["count"], len(state["application"]), crc32(state["application"])
        )

    def apply_execution(self, state: dict[str, Any]) -> None:
        """Put the connections where the application was at the checkpoint."""
        replica = self.replica
        table = replica.messaging.table
        replica.performed_view = _view(state["performed_view"])
        replica.sockets.next_fd = state["next_fd"]
        replica.sockets.next_conn_seq_num = state["next_conn_seq_num"]
        replica.messaging.lane.clock.value = max(replica.messaging.lane.clock.value, state["lamport"])
        table.finished.load(state["finished"])
        present = []
        for exported in state["connections"]:
            connection_id = ConnectionId(*exported["id"])
            present.append(connection_id)
            known = table.by_id.get(connection_id)
            connection = known or replica.messaging.create(connection_id, replica.now_ns)
            behind = known is None or connection.received_up_to < exported["delivered_position"]
            _import(connection, exported, fresh=behind)
            table.bind(connection, connection.fd)
            if connection_id in replica.messaging.pending_accept:
                replica.messaging.pending_accept.remove(connection_id)
        for connection in table:
            over = connection.connection_id in table.finished
            if over or (0 < connection.fd < state["next_fd"] and connection.connection_id not in present):
                replica.messaging.forget(connection)


def application_of(body: StateBody) -> bytes:
    """The application's part of a state."""
    application = body.state[_end_of_protocols(body) :]
    if crc32(application) != body.digest:
        raise PeerError("state_digest_differs", "ask for the state again")
    return application


def _end_of_protocols(body: StateBody) -> int:
    if len(body.state) < _LENGTH.size:
        raise PeerError("state_too_short", "ask for the state again")
    return _LENGTH.size + int(_LENGTH.unpack_from(body.state)[0])


def _plain_view(view: ViewId) -> tuple[int, ...]:
    return (view.precedence, view.primary_view_num, *view.birth_id)


def _view(plain: tuple[int, ...]) -> ViewId:
    return ViewId(plain[0], plain[1], BirthId(*plain[2:5]))


def _export(connection: Connection) -> dict[str, Any]:
    exported: dict[str, Any] = {name: getattr(connection, name) for name in _FIELDS}
    exported["id"] = tuple(connection.connection_id)
    exported["sent"] = [tuple(message) for message in connection.sent]
    exported["generated_at"] = [(_plain_view(view), count) for view, count in connection.generated_at]
    exported["in_view"] = _plain_view(connection.in_view)
    exported["delivered_view"] = _plain_view(connection.delivered_view)
    exported["stream_digest"] = connection.received_digest(connection.delivered_position)
    exported["end_delivered"] = connection.half_closed_there and not connection.received
    return exported


def _import(connection: Connection, exported: dict[str, Any], *, fresh: bool) -> None:
    for name in _FIELDS:
        if name in ("in_base", "acked", "remote_watermark", "members_timestamp") and not fresh:
            continue
        setattr(connection, name, exported[name])
    connection.sent.clear()
    connection.sent.extend(SentMessage(*message) for message in exported["sent"])
    connection.sent_bytes = sum(len(message.payload) for message in connection.sent)
    connection.generated_at = [(_view(view), count) for view, count in exported["generated_at"]]
    connection.delivered_view = _view(exported["delivered_view"])
    connection.transmitted = connection.generated
    connection.ordered_sends = max(connection.ordered_sends, connection.generated)
    connection.collect_sent(connection.remote_watermark)  # it may be newer than the state
    if fresh:
        _import_receiving(connection, exported)
    else:
        _import_delivered(connection)


def _import_delivered(connection: Connection) -> None:
    """At a semi-passive backup: what the state contains counts as delivered, and is not kept if all members
    are known to have it: its mark has been used. After a reset nothing more will be delivered."""
    received = connection.received
    while received and received[0].position <= connection.delivered_position:
        message = received.popleft()
        if message.timestamp > connection.members_timestamp:
            connection.delivered.append(message)
        else:
            connection.forget(message)
    if connection.reset_reason:
        received.clear()
        connection.discard_after_gap()


def _import_receiving(connection: Connection, exported: dict[str, Any]) -> None:
    """A joiner, or a backup that has nothing beyond the checkpoint: what comes next is expected. Of what was
    read before it another member may have the order and not the message, so that is kept."""
    read_up_to = connection.ordered_position + (connection.ordered_partial > 0)
    for message in connection.received:
        if message.position <= read_up_to and message.timestamp > connection.members_timestamp:
            connection.delivered.append(message)
    connection.received.clear()
    connection.discard_after_gap()
    connection.in_view = _view(exported["in_view"])
    connection.received_up_to = connection.delivered_position
    connection.forgotten.set(connection.delivered_position, exported["stream_digest"])
    connection.received_bytes = connection.delivered_bytes - connection.read_offset
    connection.ordered_position = connection.delivered_position
    connection.ordered_bytes = connection.delivered_bytes
    connection.ordered_partial = connection.read_offset
    connection.half_closed_there = exported["end_delivered"]
