"""The follower's cursor: which entries of the order log this replica could perform now.

The cursor reads the log in order and stops at the first entry that orders a message which is not
here; that message is then negatively acknowledged (the third cause in the paper). Its
offset is the member's watermark: order information and messages up to there are complete.
It runs ahead of the application, and a semi-passive backup has nothing but the cursor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from llft.core.messaging.connection import Connection
from llft.core.messaging.messaging import Messaging
from llft.identifiers import ConnectionId
from llft.wire.order import (
    CONNECTION,
    GENERAL,
    MUTEX,
    READ,
    REMOTE_VIEW,
    SEND,
    TIME,
    Entry,
    OrderContext,
    OrderDecoder,
)

OPENED: Final = 1
ACCEPTED: Final = 2
RESET: Final = 3
FORGOTTEN: Final = 4
"""What a CONNECTION entry says of a connection's life."""


class Cursor:
    def __init__(self, messaging: Messaging, context: OrderContext, offset: int, count: int) -> None:
        self.messaging = messaging
        self.decoder = OrderDecoder(context, offset, count)
        self.fed = offset
        self.watermark = offset
        self.passed_count = count
        self.waiting: Entry | None = None
        """The entry that orders a message which is not here."""
        self.passed_since: list[Entry] = []
        """Entries passed beyond the watermark: the first ones of a run that is not finished."""
        self._before: tuple[int, int, int] = (0, 0, 0)

    def advance(
        self,
        passed: Callable[[Entry, int], None],
        passed_all: Callable[[list[Entry]], None] | None = None,
        passed_locks: Callable[[Entry, list[int]], None] | None = None,
    ) -> None:
        """Pass every entry whose messages are here, with its number, in the order of the log; those that
        need none and are alike all at once, if somebody takes them so (of a mutex: the first of them, and
        counts of all)."""
        if self.is_idle:
            return
        orders = self.messaging.lane.orders
        if orders.end > self.fed:
            self.decoder.feed(orders.slice(self.fed, orders.end))
            self.fed = orders.end
        while True:
            entry = self.waiting if self.waiting is not None else self._next()
            if entry is None:
                return
            self.waiting = entry
            if not self._can_perform(entry):
                return
            self.waiting = None
            if entry[0] == MUTEX and passed_locks is not None:
                self._pass_locks(entry, passed_locks)
                continue
            self.passed_count += 1
            if self.decoder.between_entries:
                self.watermark = self.decoder.offset
                self.passed_since.clear()
            else:
                self.passed_since.append(entry)
            passed(entry, self.passed_count)
            if passed_all is not None and TIME <= entry[0] <= GENERAL:
                self._pass_alike(entry, passed_all)

    def _pass_alike(self, entry: Entry, passed_all: Callable[[list[Entry]], None]) -> None:
        """Those behind this one: they need no messages."""
        entries = self.decoder.alike_behind(entry)
        if entries:
            self.passed_count += len(entries)
            self.watermark = self.decoder.offset
            passed_all(entries)

    def _pass_locks(self, entry: Entry, passed_locks: Callable[[Entry, list[int]], None]) -> None:
        """This one and those behind it."""
        counts = [entry[4], *self.decoder.locks_behind(entry)]
        self.passed_count += len(counts)
        self.watermark = self.decoder.offset
        self.passed_since.clear()
        passed_locks(entry, counts)

    def _next(self) -> Entry | None:
        context = self.decoder.context
        if self.decoder.between_entries:
            self._before = (context.pick, context.thread, context.fd)
        return self.decoder.next()

    @property
    def is_idle(self) -> bool:
        """Nothing new is known, and nothing waits for a message."""
        return self.fed >= self.messaging.lane.orders.end and self.waiting is None and self.decoder.exhausted

    @property
    def at_end(self) -> bool:
        """Everything that is known has been passed."""
        return self.waiting is None and self.watermark == self.messaging.lane.orders.end

    def give_up(self) -> tuple[OrderContext, int, int, list[Entry]]:
        """Where the log ends for this replica: the context, offset and count at the watermark, and the
        entries passed since. Only a READ or the acceptance of a connection can be waiting, and of
        the context a READ changes no more than what was kept. The decoder is of no more use."""
        context = self.decoder.context
        if self.waiting is not None or self.passed_since:
            context.pick, context.thread, context.fd = self._before
        return context, self.watermark, self.passed_count - len(self.passed_since), list(self.passed_since)

    def cut(self, offset: int) -> bool:
        """A new view began at this offset: forget what was known beyond. False: part of it has been
        passed already, so this replica is of no more use."""
        if self.watermark > offset or self.passed_since:
            return False
        context, watermark, count, _ = self.give_up()
        self.waiting = None
        self.decoder = OrderDecoder(context, watermark, count)
        self.messaging.lane.orders.truncate(offset)
        self.fed = watermark
        return True

    def _can_perform(self, entry: Entry) -> bool:
        kind = entry[0]
        if kind == READ:
            return self._order_read(entry[3], entry[4])
        if kind == SEND:
            connection = self.messaging.table.by_fd.get(entry[3])
            if connection is not None:
                connection.ordered_sends += 1
        elif kind == CONNECTION:
            return self._order_connection(entry[1], entry[2], ConnectionId(*entry[3:6]))
        elif kind == REMOTE_VIEW:
            self._order_remote_view(entry)
        return True

    def _order_read(self, fd: int, size: int) -> bool:
        connection = self.messaging.table.by_fd.get(fd)
        if connection is None:
            return True
        if not connection.order_read(size):
            self._want_more(connection)
            return False
        message = connection.find_received(connection.ordered_position)
        if message is not None:
            connection.marks.append((self.decoder.entry_end, message.position, message.timestamp))
            self.messaging.indexes.marked.note(connection)
        return True

    def _want_more(self, connection: Connection) -> None:
        connection.want(connection.received_up_to + 1)
        self.messaging.nack_soon(connection)

    def _order_connection(self, what: int, fd: int, connection_id: ConnectionId) -> bool:
        table = self.messaging.table
        connection = table.by_id.get(connection_id)
        if what in (OPENED, ACCEPTED):
            if connection is None:
                connection = self.messaging.create(connection_id, self.messaging.outbox.now_ns)
            if what == ACCEPTED and connection.received_up_to == 0:
                self._want_more(connection)
                return False
            table.bind(connection, fd)
            if what == ACCEPTED:
                self._take_from_pending(connection)
        return True

    def _take_from_pending(self, connection: Connection) -> None:
        connection.ordered_position = max(connection.ordered_position, 1)
        connection.marks.append((self.decoder.entry_end, 1, connection_birth_timestamp(connection)))
        self.messaging.indexes.marked.note(connection)
        if connection.connection_id in self.messaging.pending_accept:
            self.messaging.pending_accept.remove(connection.connection_id)

    def _order_remote_view(self, entry: Entry) -> None:
        """From this position on the primary took messages of this view; what came in others is void, also
        in a newer one: it may be of a branch that our group has not agreed with (D-47)."""
        _, fd, view, position = entry
        connection = self.messaging.table.by_fd.get(fd)
        if connection is None:
            return
        position = max(position, connection.ordered_position + 1)
        stale = any(message.position >= position and message.view != view for message in connection.received)
        if stale or view != connection.in_view:
            connection.discard_undelivered(position)
        if view != connection.in_view:
            connection.in_view = view
            connection.in_base = -1
            self.messaging.uncache(connection)


def connection_birth_timestamp(connection: Connection) -> int:
    first = connection.find_received(1)
    return first.timestamp if first is not None else 0
