"""What a dialogue is lent (`core.dialogue`), and when it may be."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from llft.config import Replication
from llft.core.determinizer.token import TokenEngine
from llft.core.messaging.connection import Connection
from llft.core.messaging.kept import ReceivedMessage
from llft.core.messaging.reflection import HeldOrder
from llft.core.standing import BACKUP, PRIMARY
from llft.identifiers import NO_VIEW, BirthId, GroupId, ThreadId
from llft.instant import NEVER
from llft.wire.header import PREFIX_BYTES
from llft.wire.order import Entry

if TYPE_CHECKING:
    from llft.core.replica import Replica

CLOCK_IDS: Final = (0, 1, 2)
"""Those that a dialogue knows, as runs do."""
LEAST: Final = -(1 << 63)
ENTRIES_MAX: Final = 1024
"""Of a backup's log, at a time."""
NOTHING_HELD: Final = -1
LARGEST: Final = NEVER
"""Numbers are of 64 bits where they are lent to, with room for sums. A peer may have said larger ones."""


class Lent(NamedTuple):
    """What is lent."""

    group_id: GroupId
    """Of the other end."""
    birth_id: BirthId
    """Of its primary."""
    numbers: tuple[int, ...]
    in_prefix: bytes
    out_prefix: bytes
    orders: bytes
    held: bytes
    entries: list[Any]
    """At a backup: of the log, read and not performed."""
    received: list[Any]


class Lender:
    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._messaging = replica.messaging
        self._engine = replica.determinizer.engine
        config = replica.config
        self._possible = (
            isinstance(self._engine, TokenEngine)
            and not config.waits_for_commit
            and config.replication is Replication.SEMI_ACTIVE
        )

    def lend(self, thread: ThreadId, fd: int, now_ns: int, kinds: tuple[int, int, int]) -> Lent | None:
        """To the thread that is out and is about to wait for this connection; None: not now. `kinds`: of a
        Receive, a Send and a ReadClock in the birth log."""
        replica, messaging = self._replica, self._messaging
        if not self._possible or not self._is_quiet(thread, fd, now_ns):
            return None
        connection = messaging.table.by_fd.get(fd)
        if connection is None or not self._is_plain(connection) or self._deadline_ns() <= now_ns:
            return None
        held = messaging.lane.held[connection.remote_group_id]
        if not _is_in_one_piece(held) or held.view != connection.in_view:
            return None
        if replica.live and not self._may_speak(connection, held):
            return None
        if not (replica.live or self._may_follow(connection)):
            return None
        lane = messaging.lane
        if replica.live:
            lane.flush()
        numbers = (
            *(*self._numbers(thread, fd, kinds), *self._of_connection(connection), *_of_held(held)),
            int(not replica.live and self._has_read_all(connection)),
            *(*connection.connection_id, *self._who()),
        )
        if max(numbers) > LARGEST or any(_is_absurd(message) for message in connection.received):
            return None
        pieces = b"".join([piece.data for piece in held.pieces])
        return Lent(
            connection.remote_group_id,
            connection.in_view.birth_id,
            numbers,
            connection.in_prefix,
            (connection.out_prefix or lane.make_prefix(connection)) if replica.live else bytes(PREFIX_BYTES),
            lane.orders.suffix() if replica.live else b"",
            pieces,
            [] if replica.live else list(islice(self._log(), ENTRIES_MAX)),
            list(connection.received),
        )

    def _log(self) -> deque[Entry]:
        engine = self._engine
        assert isinstance(engine, TokenEngine)
        return engine.log

    def _is_quiet(self, thread: ThreadId, fd: int, now_ns: int) -> bool:
        """Nobody else could go on, and nothing is to be done but what the thread does."""
        replica, messaging, engine = self._replica, self._messaging, self._engine
        assert isinstance(engine, TokenEngine)
        if replica.standing.role != (PRIMARY if replica.live else BACKUP):
            return False
        if now_ns - replica.last_step_ns > replica.pause_ns or replica.transfer.recipients:
            return False
        if not engine.is_out(thread) or engine.scheduler.run_queue or engine.completions:
            return False
        if not replica.live:
            return not replica.asking.answer_wanted and replica.reticence.switch_at < 0
        return (
            not engine.held
            and engine.waiters.is_quiet()
            and not engine.waiters.somebody_waits_for(fd, engine.parked)
            and messaging.indexes.touched.is_quiet(but=fd)
            and not messaging.silent
            and not messaging.waiting_for_backups
            and not messaging.flow.too_many_acks
            and not replica.asking.under_way
            and not replica.reticence.silent
        )

    def _is_plain(self, connection: Connection) -> bool:
        """Open at both ends, and nothing is missing, held back, half read or of another view."""
        c = connection
        if not c.in_prefix or c.reset_reason or c.closed_here or c.half_closed_here or c.half_closed_there:
            return False
        if not (c.settled and c.established) or c.frozen or c.birth_order_end or c.in_base < 0:
            return False
        if c.pending or c.nacks or c.read_offset or c.delivered_view != c.in_view:
            return False
        outside = self._engine.outside
        return (
            (not self._replica.live or not c.received)
            and self._messaging.lane.by_prefix.get(c.in_prefix) is c
            and c.fd not in outside.descriptors.peeked
            and c.fd not in outside.descriptors.unsettled
        )

    def _may_speak(self, connection: Connection, held: HeldOrder) -> bool:
        """At a primary: what it says leaves at once, and nobody is asked for it."""
        messaging = self._messaging
        if connection.transmitted != connection.generated or messaging.lane.orders.reflected:
            return False
        return not held.waits or self._commits_as_it_leaves()

    def _commits_as_it_leaves(self) -> bool:
        level = self._messaging.config.output_commit_level
        return level == 0 or not self._messaging.watermarks.somebody_counts

    def _may_follow(self, connection: Connection) -> bool:
        """At a backup: what was received is all of one view, and no pieces of the log are behind a gap."""
        if self._replica.cursor is None or self._messaging.lane.orders.early:
            return False
        return all(
            message.view == connection.in_view and not message.flags for message in connection.received
        )

    def _has_read_all(self, connection: Connection) -> bool:
        """At a backup: behind the entries that are lent nothing of the log is here, nor half read."""
        cursor, orders = self._replica.cursor, self._messaging.lane.orders
        assert cursor is not None
        if cursor.waiting is not None or len(self._log()) > ENTRIES_MAX or connection.ordered_partial:
            return False
        return cursor.decoder.between_entries and cursor.decoder.exhausted and cursor.fed == orders.end

    def _numbers(self, thread: ThreadId, fd: int, kinds: tuple[int, int, int]) -> tuple[int, ...]:
        replica, lane, engine = self._replica, self._messaging.lane, self._engine
        assert isinstance(engine, TokenEngine)
        limits, scheduler = replica.config.limits, engine.scheduler
        if replica.live:
            encoder = lane.encoder
            assert encoder is not None
            context, count, order_base = encoder.context, encoder.count, lane.orders.unreflected
        else:
            assert replica.cursor is not None
            context, count = replica.cursor.decoder.context, replica.followed_base + engine.consumed_count
            order_base = lane.orders.end
        return (
            *(int(replica.live), int(replica.outbox.journalling), thread, fd, *kinds),
            *(replica.last_step_ns, replica.pause_ns, self._deadline_ns()),
            *(scheduler.quantum_calls, scheduler.calls, scheduler.pick_count, count),
            *(context.pick, context.thread, context.fd, context.timestamp),
            *(
                context.clock_id,
                *self._clocks(),
                *[context.clocks.get(clock_id, 0) for clock_id in CLOCK_IDS],
            ),
            *(order_base, lane.group_watermark, lane.order_committed, int(self._commits_as_it_leaves())),
            *(limits.order_lag_bytes, limits.order_carried_bytes, limits.datagram_bytes, lane.clock.value),
        )

    def _deadline_ns(self) -> int:
        """Also of threads that are parked: while one runs, the engine does not tell."""
        return min(self._replica.next_deadline(), self._engine.outside.deadlines.earliest())

    def _who(self) -> tuple[int, ...]:
        """Of the journal's records: group, process and view."""
        standing = self._replica.standing
        precedence, view_num, primary = standing.view
        return (standing.group_id, *standing.birth_id, precedence, view_num, *primary)

    def _clocks(self) -> tuple[int, ...]:
        """What each clock's local one is to be moved by, and what it must not be behind."""
        clock = self._engine.outside.clock
        found: list[int] = []
        for clock_id in CLOCK_IDS:
            found += (clock.offsets.get(clock_id, 0), clock.last.get(clock_id, LEAST))
        return tuple(found)

    def _of_connection(self, connection: Connection) -> tuple[int, ...]:
        c, limits, timeouts = connection, self._messaging.config.limits, self._messaging.config.timeouts
        return (
            *(c.in_base, c.out_base, c.out_view_num, c.in_view.primary_view_num),
            *(c.received_up_to, c.received_bytes, c.delivered_bytes),
            *(c.delivered_position, c.delivered_timestamp, c.delivered_digest, c.sent_digest),
            *(c.ack_told, c.acked, c.acked_in_view, c.transmitted, c.generated),
            *(c.remote_watermark, len(c.sent), c.sent_bytes, limits.window_messages, limits.window_bytes),
            *(c.members_timestamp, c.heard_ns, 0, c.ack_due_ns, c.retransmit_ns),
            *(timeouts.first_ack_delay_ns, timeouts.first_ack_patience_ns, timeouts.retransmit_interval_ns),
        )


def _is_absurd(message: ReceivedMessage) -> bool:
    return max(message.timestamp, message.order_end) > LARGEST


def _is_in_one_piece(held: HeldOrder) -> bool:
    """What is held is of the view that is believed, without a gap; what is not reflected is its end."""
    if held.view == NO_VIEW:
        return False
    end = held.pieces[0].start if held.pieces else 0
    for piece in held.pieces:
        if piece.view != held.view or piece.start != end:
            return False
        end = piece.end
    if not held.unreflected:
        return True
    start, data = held.unreflected[0]
    return len(held.unreflected) == 1 and bool(held.pieces) and start + len(data) == end


def _of_held(held: HeldOrder) -> tuple[int, ...]:
    if not held.pieces:
        return (NOTHING_HELD, NOTHING_HELD, held.watermark, held.committed, held.limit_bytes)
    end = held.pieces[-1].end
    unreflected = held.unreflected[0][0] if held.unreflected else end
    return (held.pieces[0].start, unreflected, held.watermark, held.committed, held.limit_bytes)
