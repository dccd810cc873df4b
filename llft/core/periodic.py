"""The periodic processing of connections (lines 44-55): retransmissions, Nacks, FirstAcks, KeepAlives, ends.

Laws:
 - The paper goes through all connections. Here those are looked at whose time has come, and those that may
   be over: the closed ones at a primary, the ones that nobody has accepted at a backup. For the others
   nothing would be done.
 - They are taken in the order in which the replica got to know them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from llft.core.messaging.connection import Connection
from llft.core.standing import BACKUP, PRIMARY
from llft.instant import NEVER
from llft.wire.messages import MessageType

if TYPE_CHECKING:
    from llft.core.replica import Replica

LOOKED_AT_MAX: Final = 64
"""Where there are more connections, nobody looks at all of them."""


class PeriodicProcessing:
    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.standing = replica.standing
        self.messaging = replica.messaging
        self.timeouts = replica.config.timeouts

    def process_connections(self, now_ns: int) -> None:
        """Of those that are due, and of those that may be over: closed ones, or never accepted."""
        messaging = self.messaging
        messaging.soonest_ns = NEVER
        primary = self.standing.role == PRIMARY
        connections = {connection.number: connection for connection in messaging.indexes.due.take(now_ns)}
        for connection in messaging.indexes.closing if primary else messaging.indexes.embryos:
            connections[connection.number] = connection
        for number in sorted(connections):
            connection = connections[number]
            if messaging.table.by_id.get(connection.connection_id) is not connection:
                continue
            if now_ns >= connection.nacked_ns:
                self.replica.retention.send_nacks(connection)
            if primary and not connection.reset_reason:
                self._process_as_primary(connection, now_ns)
            elif primary and self._is_over(connection):
                self.replica.sockets.forget(connection)
                continue
            elif not connection.fd and self.standing.role == BACKUP:
                self._check_embryo(connection, now_ns)
            self._rearm(connection)
        messaging.soonest_ns = min(messaging.soonest_ns, messaging.indexes.due.soonest(self._due_ns))

    def _process_as_primary(self, connection: Connection, now_ns: int) -> None:
        replica = self.replica
        if now_ns >= connection.retransmit_ns:
            replica.retention.retransmit_unacked(connection)
        if now_ns >= connection.ack_due_ns:
            replica.acknowledgment.send_first_ack(connection)
        if now_ns >= connection.keep_alive_ns and not self.messaging.keep_alives.can_wait(connection, now_ns):
            self._keep_alive(connection, now_ns)
        if now_ns - connection.heard_ns > self.timeouts.idle_connection_bound_ns:
            replica.reset_connection(connection, "idle: the remote group is not heard")
        if self._is_over(connection):
            replica.sockets.forget(connection)

    def _is_over(self, connection: Connection) -> bool:
        """Closed at both ends; all members of our group have what we received; all members of the remote
        group have what we sent, and the order information that came with what we received: its new
        primary may have to ask for it."""
        if not connection.closed_here or connection.delivered or connection.marks:
            return False
        if connection.reset_reason:
            return True
        if connection.sent or not connection.half_closed_there:
            return False
        held = self.messaging.held_for(connection.remote_group_id)
        if connection.over_at < 0:
            connection.over_at = held.end
        return held.watermark >= connection.over_at

    def _keep_alive(self, connection: Connection, now_ns: int) -> None:
        """Lines 54-55, and how soon again (D-44)."""
        interval_ns = self.timeouts.keep_alive_interval_ns
        if connection.settled and not self.messaging.silent:
            self.messaging.held_for(connection.remote_group_id).reflect_again()
            self.messaging.send_control(connection, MessageType.KEEP_ALIVE)
            interval_ns = self.messaging.keep_alives.next_interval(connection, now_ns)
        connection.keep_alive_ns = now_ns + interval_ns

    def _check_embryo(self, connection: Connection, now_ns: int) -> None:
        """At a backup: a client group keeps a connection alive though nobody has accepted it yet. If it does
        not, it gave the connection up, or our primary refused it; that was told once, to whoever heard, and
        is not in the log. So it is asked, and answers with a reset. An embryo dropped too early does no harm:
        until the log has ordered its messages the client group keeps them, and then our primary does."""
        silent_ns = now_ns - connection.heard_ns
        if silent_ns > self.timeouts.idle_connection_bound_ns:
            self.messaging.drop_embryo(connection)
            if not self.messaging.table.is_connected_with(connection.remote_group_id):
                self.messaging.held_for(connection.remote_group_id).clear()
        elif silent_ns > 2 * self.timeouts.keep_alive_interval_ns:
            header = self.messaging.header(connection, MessageType.KEEP_ALIVE)
            header.ack_view_num = header.ack = 0  # what our group has received is for the primary to say
            self.messaging.send(connection, header, carry=False)

    def _rearm(self, connection: Connection) -> None:
        due_ns = self._due_ns(connection)
        self.messaging.indexes.due.arm(connection, due_ns)
        primary = self.standing.role == PRIMARY
        looked_after = not connection.fd or (primary and connection.closed_here)
        if looked_after and (connection.reset_reason or not primary):
            # An embryo at a backup; what is closed is forgotten when all members know of its end.
            due_ns = min(due_ns, self.replica.now_ns + self.timeouts.keep_alive_interval_ns)
        self.messaging.soonest_ns = min(self.messaging.soonest_ns, due_ns)

    def soonest_but_for(self, busy: list[Connection], patience_ns: int = 0) -> int:
        """When a connection is to be looked at, but for what these have sent and received, and are to say if
        they have nothing else to. `patience_ns`: so long a KeepAlive of the others can wait."""
        messaging, idle_ns = self.messaging, self.timeouts.idle_connection_bound_ns
        if len(messaging.table) > LOOKED_AT_MAX or messaging.indexes.closing or messaging.indexes.embryos:
            return messaging.soonest_ns
        numbers = {connection.number for connection in busy}
        soonest_ns = NEVER
        for connection in messaging.table:
            if connection.number in numbers:
                due_ns = min(connection.nacked_ns, connection.heard_ns + idle_ns)
            else:
                due_ns = self._due_ns(connection, patience_ns)
            soonest_ns = min(soonest_ns, due_ns)
        return soonest_ns

    def _due_ns(self, connection: Connection, patience_ns: int = 0) -> int:
        """When something is to be done for the connection, or nothing was heard for too long."""
        due_ns = connection.nacked_ns
        if self.standing.role == PRIMARY and not connection.reset_reason:
            idle_ns = connection.heard_ns + self.timeouts.idle_connection_bound_ns + 1
            speaks_ns = connection.keep_alive_ns + patience_ns
            due_ns = min(due_ns, connection.retransmit_ns, connection.ack_due_ns, speaks_ns, idle_ns)
        return due_ns
