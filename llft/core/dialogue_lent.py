"""What a dialogue is lent (`core.dialogue`), and when it may be."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from llft.config import Replication
from llft.core.determinizer.operation_ids import RANDOM, parking_id
from llft.core.determinizer.sockets import LISTENER
from llft.core.determinizer.token import TokenEngine
from llft.core.dialogue_beats import BeatLender, Beats
from llft.core.dialogue_connection import begun, is_plain, numbers_of
from llft.core.dialogue_deadlines import Deadlines
from llft.core.dialogue_fellow import Fellow, Fellows
from llft.core.dialogue_numbers import CLOCK_IDS, are_usual, has_read_all, who_is
from llft.core.dialogue_remote import Remote, ends_in_one_piece, remote_of
from llft.core.dialogue_threads import PARKED, LentThreads, Threads
from llft.core.messaging.connection import Connection
from llft.core.messaging.reflection import HeldOrder
from llft.core.standing import BACKUP, PRIMARY
from llft.identifiers import ThreadId, ViewId
from llft.wire.header import PREFIX_BYTES
from llft.wire.order import GENERAL, SOCKET, Entry, OrderContext

if TYPE_CHECKING:
    from llft.core.replica import Replica

ENTRIES_MAX: Final = 1 << 16
"""Of a backup's log. One that is far behind is to come to its end in one dialogue."""
CONNECTIONS_MAX: Final = 128
"""As many as a dialogue has room for."""
GROUPS_MAX: Final = 16


Kinds = tuple[int, int, int, int, int]
"""Of a Receive, a Send, a ReadClock, a Select and RandomBytes in the birth log."""


class Lent(NamedTuple):
    """What is lent."""

    numbers: tuple[int, ...]
    orders: bytes
    entries: list[Any]
    """At a backup: of the log, read and not performed."""
    remotes: list[Remote]
    connections: list[tuple[int, tuple[int, ...], bytes, bytes, ViewId, list[Any], int, list[bytes]]]
    """Place of the group, numbers, prefix of what comes, of what leaves, what was received, and of the
    message behind it, if it has begun to come: how many fragments it has, and those that are here."""
    fellow: Fellow | None
    """Who is asked for the output commit, or asks; None: nobody."""
    beats: Beats | None
    """None: it ends for them."""
    threads: LentThreads | None
    """None: there is one that counts."""
    fds: list[int]
    """Of the connections."""


class Lender:
    def __init__(self, replica: Replica, beats: BeatLender) -> None:
        self._replica, self._beats = replica, beats
        self._messaging = replica.messaging
        self._engine = replica.determinizer.engine
        self._fellows, self._may_ask, self.deadlines = Fellows(replica), False, Deadlines(replica)
        self._threads, self.why_not = Threads(replica), ""
        config = replica.config
        self._possible = (
            isinstance(self._engine, TokenEngine)
            and not config.waits_for_commit
            and config.replication is Replication.SEMI_ACTIVE
        )

    def lend(
        self,
        thread: ThreadId,
        fds: list[int],
        now_ns: int,
        kinds: Kinds,
        patience_ns: int,
        *,
        with_others: bool,
    ) -> Lent | None:
        """To the thread that is out and may have to wait for these descriptors; None: not now. `with_others`:
        other threads may go on there as well."""
        replica, others = self._replica, frozenset[ThreadId]()
        self.why_not = "the core is not quiet"
        if not self._possible or not self._is_quiet(thread, now_ns):
            return None
        self.why_not = "threads"
        threads = self._threads.lend(thread, self) if with_others else None
        if not self._threads.can_run_on(with_others=threads is not None):
            return None
        if threads is not None:
            fds = list(dict.fromkeys([*fds, *threads.fds]))
            others = frozenset([row[0] for row in threads.rows if row[1] == PARKED])
        if replica.live and not self._threads.are_free(fds, others):
            return None
        self.why_not = "deadlines"
        if self._deadline_ns() <= now_ns:
            return None
        self.why_not = "connections"
        connections = self._connections(fds)
        if connections is None or not (replica.live or self._may_follow()):
            return None
        self.why_not = "too much"
        return self._lent(thread, kinds, patience_ns, connections, threads)

    def _lent(
        self,
        thread: ThreadId,
        kinds: Kinds,
        patience_ns: int,
        connections: list[Connection],
        threads: LentThreads | None,
    ) -> Lent | None:
        """None: it would be too much."""
        replica, lane = self._replica, self._messaging.lane
        groups = list(dict.fromkeys([connection.remote_group_id for connection in connections]))
        if len(groups) > GROUPS_MAX:
            return None
        # Whoever asks looks at two sockets for every message, so it is not lent for nothing.
        waits = any(lane.held[group_id].waits for group_id in groups)
        self._may_ask = self._may_ask and (waits or not self._nobody_is_asked())
        if replica.live:
            lane.flush()
        fellow = self._fellows.lend(groups, connections, may_ask=self._may_ask)
        beats = self._beats.lend(fellow, groups)
        until = self.deadlines.until(connections, patience_ns, self._may_ask, beats)
        numbers = (
            *self._numbers(thread, kinds, until),
            int(not replica.live and self._has_read_all(connections)),
            *who_is(replica.standing),
        )
        remotes = [remote_of(group_id, lane.held[group_id]) for group_id in groups]
        lent = [(groups.index(each.remote_group_id), *self._lent_of(each)) for each in connections]
        if not are_usual([numbers, *[r.numbers for r in remotes], *[c[1] for c in lent]]):
            return None
        return Lent(
            numbers,
            lane.orders.suffix() if replica.live else b"",
            [] if replica.live else list(islice(self._log(), ENTRIES_MAX)),
            remotes,
            lent,
            fellow,
            beats,
            threads,
            [connection.fd for connection in connections],
        )

    def can_lend(self, fds: list[int]) -> bool:
        """Besides the others."""
        found = [fd for fd in fds if fd != LISTENER]
        return not found or self._connections(found) is not None

    def count(self, kind: int, identifier: int) -> tuple[int, int]:
        return self._count(self._context(), kind, identifier)

    def _connections(self, fds: list[int]) -> list[Connection] | None:
        """Those of the descriptors; None: one of them cannot be lent."""
        table, lane, live = self._messaging.table.by_fd, self._messaging.lane, self._replica.live
        found: list[Connection] = []
        if len(fds) > CONNECTIONS_MAX + 1:
            return None
        for fd in fds:
            if fd == LISTENER:
                continue
            connection = table.get(fd)
            if connection is None or not is_plain(self._replica, connection):
                return None
            held = lane.held[connection.remote_group_id]
            if held.view != connection.in_view or (live and not self._may_speak(connection, held)):
                return None
            found.append(connection)
        groups = {each.remote_group_id: None for each in found}
        are_whole = all(ends_in_one_piece(lane.held[group_id]) for group_id in groups)
        return found if are_whole and 0 < len(found) <= CONNECTIONS_MAX else None

    def _lent_of(
        self, connection: Connection
    ) -> tuple[tuple[int, ...], bytes, bytes, ViewId, list[Any], int, list[bytes]]:
        prefix = bytes(PREFIX_BYTES)
        if self._replica.live:
            prefix = connection.out_prefix or self._messaging.lane.make_prefix(connection)
        fragments = begun(self._messaging.reassembly, connection)
        assert fragments is not None, "or it is not plain"
        numbers = numbers_of(connection, self._count(self._context(), SOCKET, connection.fd))
        received = list(connection.received)
        return numbers, connection.in_prefix, prefix, connection.in_view, received, *fragments

    def _log(self) -> deque[Entry]:
        engine = self._engine
        assert isinstance(engine, TokenEngine)
        return engine.log

    def _is_quiet(self, thread: ThreadId, now_ns: int) -> bool:
        """Nothing is to be done but what the threads do."""
        replica, messaging, engine = self._replica, self._messaging, self._engine
        assert isinstance(engine, TokenEngine)
        if replica.standing.role != (PRIMARY if replica.live else BACKUP):
            return False
        if now_ns - replica.last_step_ns > replica.pause_ns or replica.transfer.recipients:
            return False
        if not engine.is_out(thread) or engine.completions:
            return False
        if not replica.live:
            asking = replica.asking
            asked = asking.answer_wanted or asking.holding.wanted_end
            return not asked and replica.reticence.switch_at < 0
        self._may_ask = self._fellows.may_ask()
        return (
            not engine.held
            and engine.waiters.is_quiet()
            and not messaging.silent
            and not messaging.flow.too_many_acks
            and (self._may_ask or self._nobody_is_asked())
            and not replica.reticence.silent
        )

    def _nobody_is_asked(self) -> bool:
        return not (self._messaging.waiting_for_backups or self._replica.asking.under_way)

    def _may_speak(self, connection: Connection, held: HeldOrder) -> bool:
        """At a primary: what it says leaves at once, and nobody is asked for it."""
        messaging = self._messaging
        if connection.transmitted != connection.generated or messaging.lane.orders.reflected:
            return False
        return not held.waits or self._commits_as_it_leaves() or self._may_ask

    def _commits_as_it_leaves(self) -> bool:
        level = self._messaging.config.output_commit_level
        return level == 0 or not self._messaging.watermarks.somebody_counts

    def _may_follow(self) -> bool:
        """At a backup: no pieces of the log are behind a gap."""
        return self._replica.cursor is not None and not self._messaging.lane.orders.early

    def _has_read_all(self, connections: list[Connection]) -> bool:
        cursor = self._replica.cursor
        assert cursor is not None
        end = self._messaging.lane.orders.end
        return len(self._log()) <= ENTRIES_MAX and has_read_all(cursor, connections, end)

    def _context(self) -> OrderContext:
        """That the next entry is coded against, or the next one that is read."""
        if self._replica.live:
            encoder = self._messaging.lane.encoder
            assert encoder is not None
            return encoder.context
        assert self._replica.cursor is not None
        return self._replica.cursor.decoder.context

    def _count(self, context: OrderContext, kind: int, identifier: int) -> tuple[int, int]:
        """Of what was performed, and what the next one is coded against."""
        performed = self._engine.outside.counts.get((kind, identifier), 0)
        return performed, context.counts.get(identifier << 4 | kind, 0)

    def _numbers(self, thread: ThreadId, kinds: Kinds, until: tuple[int, int]) -> tuple[int, ...]:
        """`until`: when it is left, and when it is while messages come one soon after the other."""
        replica, lane, engine = self._replica, self._messaging.lane, self._engine
        limits, timeouts = replica.config.limits, replica.config.timeouts
        context, order_base = self._context(), lane.orders.end
        count = replica.followed_base + engine.consumed_count
        if replica.live:
            assert lane.encoder is not None
            count, order_base = lane.encoder.count, lane.orders.unreflected
        kind, select_id = parking_id(thread)
        return (
            *(int(replica.live), int(replica.outbox.journalling), thread, *kinds),
            *(replica.last_step_ns, replica.pause_ns, *until),
            *replica.timers.suspicion(),
            *(*self._turn(), count, int(not engine.parked)),
            *(context.pick, context.thread, context.fd, context.timestamp),
            *(
                context.clock_id,
                *engine.outside.clock.lent(CLOCK_IDS),
                *[context.clocks.get(clock_id, 0) for clock_id in CLOCK_IDS],
            ),
            *(select_id, *self._count(context, kind, select_id), *self._count(context, GENERAL, RANDOM)),
            *(order_base, lane.group_watermark, lane.order_committed, int(self._commits_as_it_leaves())),
            *(limits.order_lag_bytes, limits.order_carried_bytes, limits.datagram_bytes),
            *(self._messaging.fragment_room, self._messaging.plain_room, lane.clock.value),
            *(limits.window_messages, limits.window_bytes, timeouts.first_ack_delay_ns),
            *(timeouts.first_ack_patience_ns, timeouts.retransmit_interval_ns),
            timeouts.keep_alive_interval_ns,
        )

    def _turn(self) -> tuple[int, int, int]:
        """Calls of a quantum, those that were made of it, and how often a thread was picked."""
        assert isinstance(self._engine, TokenEngine)
        scheduler = self._engine.scheduler
        return scheduler.quantum_calls, scheduler.calls, scheduler.pick_count

    def _deadline_ns(self) -> int:
        return self.deadlines.next_ns(may_ask=self._may_ask)
