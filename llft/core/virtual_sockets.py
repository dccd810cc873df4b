"""The determinizer's port to the connections: what sockets are made of.

A primary asks what there is and records it; a backup performs what the log says. Both keep
the same counters, so the same calls give the same descriptors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from llft.core.determinizer.operations import BAD_DESCRIPTOR, REFUSED, RESET, Failure
from llft.core.determinizer.sockets import MessageKind
from llft.core.messaging.connection import CONNECT, HALF_CLOSE, Connection
from llft.core.messaging.flow_control import window_open
from llft.core.messaging.offering import offered
from llft.core.messaging.ordering import ACCEPTED, FORGOTTEN, OPENED
from llft.core.messaging.ordering import RESET as RESET_ENTRY
from llft.errors import DivergenceError, UnsupportedOperationError
from llft.identifiers import NO_VIEW, ConnectionId, GroupId
from llft.instant import NEVER
from llft.journal.record import ConnectionEnded, Delivered, Diverged, Sent
from llft.wire.checksum import crc32
from llft.wire.order import CONNECTION, PRIMARY_VIEW, REMOTE_VIEW, Entry

if TYPE_CHECKING:
    from llft.core.replica import Replica

_FLAGS: dict[MessageKind, int] = {
    "data": 0,
    "connect": CONNECT,
    "half_close": HALF_CLOSE,
    "close": HALF_CLOSE,
}
_PIPE: Final = Failure("EPIPE")
_REFUSED_REASON: Final = "refused"


class VirtualSockets:
    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.messaging = replica.messaging
        self.next_fd = 1
        self.next_conn_seq_num = 1
        self.connecting: dict[int, int] = {}
        """Connections whose CONNECT is not acknowledged yet, and when they count as refused."""
        self.written: tuple[Any, ...] | None = None
        self.unsent: Connection | None = None
        """Written to; its message leaves when the SEND entry has been recorded."""

    def journal_sent(self, number: int) -> None:
        """The SEND entry of what was written last has this number."""
        if self.written is not None:
            self.messaging.outbox.note((Sent,) + self.written + (number,))  # noqa: RUF005 - it is quicker
            self.written = None

    def open_connections(self) -> list[Connection]:
        """Those that the application has opened or accepted; a backup may know of more already."""
        return [connection for connection in self.messaging.table if 0 < connection.fd < self.next_fd]

    # -- opening -----------------------------------------------------------------------------

    def open(self, group_id: GroupId) -> int:
        fd = self._allocate()
        connection_id = ConnectionId(self.messaging.standing.group_id, group_id, self.next_conn_seq_num)
        self.next_conn_seq_num += 1
        self._bind(fd, connection_id, OPENED)
        return fd

    def accept(self, connection_id: ConnectionId) -> int:
        fd = self._allocate()
        connection = self._bind(fd, connection_id, ACCEPTED)
        if connection_id in self.messaging.pending_accept:
            self.messaging.pending_accept.remove(connection_id)
        view = connection.received[0].view
        connection.deliver_connect()
        self.messaging.lane.clock.on_deliver(connection.delivered_timestamp)
        if self.replica.live:
            self.messaging.lane.mark(connection)
            self.messaging.indexes.marked.note(connection)
            self.replica.record((CONNECTION, ACCEPTED, fd, *connection_id))
            connection.delivered_view = view
            self.replica.record((REMOTE_VIEW, fd, view, 1))
            self._commit_birth(connection)
        return fd

    def _allocate(self) -> int:
        fd = self.next_fd
        self.next_fd += 1
        return fd

    def _bind(self, fd: int, connection_id: ConnectionId, what: int) -> Connection:
        table = self.messaging.table
        connection = table.by_id.get(connection_id)
        if connection is None:
            connection = self.messaging.create(connection_id, self.replica.now_ns)
        table.bind(connection, fd)
        connection.be_born(self.replica.performed_view)
        if what == OPENED and self.replica.live:
            self.replica.record((CONNECTION, OPENED, fd, *connection_id))
            self._commit_birth(connection)
        return connection

    def _commit_birth(self, connection: Connection) -> None:
        """D-24: a backup must know of the connection before anybody else hears from us on it."""
        encoder = self.messaging.lane.encoder
        assert encoder is not None
        connection.birth_order_end = encoder.offset

    def connect_state(self, fd: int) -> Literal[True] | Failure | None:
        connection = self.messaging.table.by_fd.get(fd)
        if connection is None or connection.reset_reason == _REFUSED_REASON:
            return REFUSED
        if connection.reset_reason:
            return RESET
        if connection.acked:
            connection.established = True
            self.connecting.pop(fd, None)
            return True
        if fd not in self.connecting:
            bound_ns = self.messaging.config.timeouts.connect_bound_ns
            self.connecting[fd] = self.replica.now_ns + bound_ns
            self.replica.deadline_hint(self.connecting[fd])
        return None

    def refuse_overdue(self, now_ns: int) -> bool:
        """D-02: a connect that nobody serves is refused after a bounded time."""
        overdue = [fd for fd, due_ns in self.connecting.items() if due_ns <= now_ns]
        for fd in overdue:
            del self.connecting[fd]
            connection = self.messaging.table.by_fd.get(fd)
            if connection is not None and not connection.acked:
                self.reset(connection, _REFUSED_REASON)
                self.forget(connection)
        return bool(overdue)

    def connect_deadline(self) -> int:
        return min(self.connecting.values(), default=NEVER)

    def pending_accept(self) -> ConnectionId | None:
        for connection_id in self.messaging.pending_accept:
            connection = self.messaging.table.by_id[connection_id]
            if connection.settled:
                return connection_id
        return None

    def touched(self) -> list[int] | None:
        return self.messaging.indexes.touched.drain(self.messaging.lane.held)

    # -- reading -----------------------------------------------------------------------------

    def offer(self, fd: int, limit: int) -> int | Failure | None:
        connection = self.messaging.table.by_fd.get(fd)
        if connection is None or connection.closed_here:
            return BAD_DESCRIPTOR
        if connection.reset_reason:
            return RESET
        if not connection.settled:
            return None
        waits = self.messaging.config.waits_for_commit
        held = self.messaging.held_for(connection.remote_group_id)
        size = offered(connection, limit, held, committed_only=waits)
        if size is None and connection.received and waits:
            self.messaging.indexes.touched.await_commit(connection.remote_group_id, held.committed, fd)
        return size

    def take(self, fd: int, size: int) -> bytes:
        connection = self.messaging.table.by_fd[fd]
        if self.replica.live and connection.received:
            first = connection.received[0]
            if first.view != connection.delivered_view:
                connection.delivered_view = first.view
                self.replica.record((REMOTE_VIEW, fd, first.view, first.position))
        data = self.messaging.lane.deliver(connection, size)
        self.messaging.indexes.marked.note(connection)
        if self.messaging.outbox.journalling:
            connection.delivered_digest = crc32(data, connection.delivered_digest)
            so_far, digest = connection.delivered_bytes, connection.delivered_digest
            self.messaging.outbox.note((Delivered, connection.connection_id, fd, size, so_far, digest))
        return data

    # -- writing -----------------------------------------------------------------------------

    def writable(self, fd: int) -> bool | Failure:
        connection = self.messaging.table.by_fd.get(fd)
        if connection is None or connection.closed_here:
            return BAD_DESCRIPTOR
        if connection.reset_reason:
            return RESET
        if connection.half_closed_here:
            return _PIPE
        return window_open(connection, self.messaging.config.limits)

    def write(
        self, fd: int, payload: bytes, kind: MessageKind, timestamp: int | None, digest: int | None
    ) -> tuple[int, int]:
        connection = self.messaging.table.by_fd[fd]
        lane = self.messaging.lane
        flags = _FLAGS[kind]
        if len(payload) > self.messaging.largest_payload:
            remedy = f"write at most {self.messaging.largest_payload} bytes at a time"
            raise UnsupportedOperationError("message_too_large", remedy, size=len(payload))
        if timestamp is None:
            timestamp = lane.clock.on_send()
        else:
            lane.clock.on_deliver(timestamp)
        if kind == "close":
            self._close(connection)
        if connection.reset_reason:
            self.replica.deadline_hint(self.replica.now_ns)
            return timestamp, connection.sent_digest
        if flags & HALF_CLOSE:
            connection.half_closed_here = True
            self.messaging.indexes.touched.note(fd)
        own = connection.digest_of(payload, flags)
        if digest is not None and digest != own:
            self._diverged(connection, digest, own)
        message = connection.generate(payload, flags, timestamp)
        if len(connection.sent) > self.messaging.peak_sent_count:
            self.messaging.peak_sent_count = len(connection.sent)
        if self.messaging.outbox.journalling:
            self.written = (connection.connection_id, fd, message.position, timestamp, len(payload), own)
        if self.replica.live:
            self.unsent = connection
            self.messaging.indexes.unacknowledged.note(connection)
        else:
            connection.collect_sent(connection.remote_watermark)  # the remote group may be ahead of us
        return timestamp, own

    def _close(self, connection: Connection) -> None:
        connection.closed_here = True
        self.messaging.indexes.touched.note(connection.fd)
        self.messaging.indexes.closing.note(connection)
        self.replica.drop_unread(connection)
        if self.replica.live:
            self.messaging.lane.mark(connection)
            self.messaging.indexes.marked.note(connection)

    def _diverged(self, connection: Connection, expected: int, found: int) -> None:
        position = connection.generated + 1
        self.messaging.outbox.record(Diverged, connection.connection_id, position, expected, found)
        raise DivergenceError(
            "output_digest_differs",
            "this replica resets and rejoins",
            connection=str(connection.connection_id),
            position=position,
            expected=expected,
            found=found,
        )

    def failure(self, fd: int) -> Failure | None:
        connection = self.messaging.table.by_fd.get(fd)
        if connection is None or connection.closed_here:
            return BAD_DESCRIPTOR
        return RESET if connection.reset_reason else None

    # -- the end of connections --------------------------------------------------------------

    def reset(self, connection: Connection, reason: str) -> None:
        """At the primary: the connection is broken, for a reason that the journal tells (D-07)."""
        if connection.reset_reason or (connection.fd and not self.replica.live):
            return
        if connection.fd:
            self.replica.record((CONNECTION, RESET_ENTRY, connection.fd, *connection.connection_id))
        self._break(connection, reason)
        if not connection.fd:
            self.messaging.forget(connection)
        elif connection.closed_here:
            self.replica.deadline_hint(self.replica.now_ns)  # nobody will close it: it may be over already

    def _break(self, connection: Connection, reason: str) -> None:
        """What was delivered before stays: backups may still have to deliver it too."""
        connection.reset_reason = reason
        self.messaging.uncache(connection)
        self.messaging.indexes.touched.note(connection.fd)
        connection.sent.clear()
        connection.sent_bytes = 0
        connection.keep_partly_read()
        self.replica.mark_delivered(connection)
        connection.received.clear()
        connection.discard_after_gap()
        for timer in ("ack_due_ns", "retransmit_ns", "nacked_ns", "keep_alive_ns"):
            setattr(connection, timer, NEVER)
        self.messaging.outbox.record(ConnectionEnded, connection.connection_id, "reset", reason)

    def forget(self, connection: Connection) -> None:
        """At the primary: nothing of the connection is needed any more."""
        if connection.fd:
            self.replica.record((CONNECTION, FORGOTTEN, connection.fd, *connection.connection_id))
        if not connection.reset_reason:
            self.messaging.outbox.record(ConnectionEnded, connection.connection_id, "closed", "")
        self.messaging.forget(connection)

    # -- the log, at a backup ----------------------------------------------------------------

    def passed(self, entry: Entry) -> None:
        kind = entry[0]
        if kind == PRIMARY_VIEW:
            self.replica.view_change.entries.pass_on(entry)
        elif kind == REMOTE_VIEW:
            connection = self.messaging.table.by_fd.get(entry[1])
            if connection is not None and entry[2] != NO_VIEW:
                connection.delivered_view = entry[2]
        elif entry[1] in (RESET_ENTRY, FORGOTTEN):
            self._passed_end(entry[1], ConnectionId(*entry[3:6]))

    def _passed_end(self, what: int, connection_id: ConnectionId) -> None:
        connection = self.messaging.table.by_id.get(connection_id)
        if connection is not None and what == RESET_ENTRY:
            self._break(connection, "reset by the primary")
        elif connection is not None:
            self.messaging.forget(connection)
        elif what == FORGOTTEN:
            self.messaging.table.finished.add(connection_id)
