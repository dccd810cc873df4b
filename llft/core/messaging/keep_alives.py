"""When a connection's next KeepAlive is due (lines 54-55, D-44).

With thousands of idle connections KeepAlives are all that is left to do, and they all say the same. Laws:

 - For each remote group one connection, the *speaker*, is kept alive at the interval whatever happens: what
   concerns the groups and not a connection (order information, watermarks, commits, views) travels there as
   often as ever. It is the connection that was sent on last.
 - One that waits is, too: a KeepAlive shows what was lost. A client waits for the acknowledgment of its
   request, which comes with the reply. A server's reply is acknowledged with the next request, whenever that
   comes.
 - Any other connection speaks after CALM_INTERVALS without a message of this end, and after `AT_FIRST`
   KeepAlives more and more rarely, up to a bound far below the time after which silence ends a connection.
 - Any message but a KeepAlive, either way, and any news for the next KeepAlive begin anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from llft.config import Timeouts
from llft.core.messaging.connection import Connection
from llft.identifiers import GroupId, Role

CALM_INTERVALS: Final = 4
AT_FIRST: Final = 4
"""So often news are told soon: only a loss of all of them makes the next doublings matter."""
_DOUBLINGS_MAX: Final = 3
_BEFORE_IDLE_BOUND: Final = 8
"""At least so many KeepAlives must be lost before a living group is taken for gone."""


class KeepAlives:
    __slots__ = ("_arm", "_calm_ns", "_interval_ns", "_longest_ns", "_speakers")

    def __init__(self, timeouts: Timeouts, arm: Callable[[Connection, str, int], None]) -> None:
        self._arm = arm
        self._interval_ns = timeouts.keep_alive_interval_ns
        bound_ns = timeouts.idle_connection_bound_ns // _BEFORE_IDLE_BOUND
        self._calm_ns = max(min(self._interval_ns * CALM_INTERVALS, bound_ns), self._interval_ns)
        self._longest_ns = max(min(self._calm_ns << _DOUBLINGS_MAX, bound_ns), self._interval_ns)
        self._speakers: dict[GroupId, Connection] = {}

    def on_transmit(self, connection: Connection, now_ns: int) -> None:
        """An application message left on the connection: it stands for a KeepAlive."""
        self._speakers[connection.remote_group_id] = connection
        connection.calm_count = 0
        connection.calm_until_ns = now_ns + self._calm_ns
        connection.keep_alive_ns = at_ns = now_ns + self._interval_ns
        if connection.due_ns > at_ns:
            self._arm(connection, "keep_alive_ns", at_ns)

    def disturb(self, connection: Connection, now_ns: int, *, soon: bool = False) -> None:
        """Something happened on the connection. `soon`: the remote group waits for the news."""
        if connection.calm_count or soon:
            connection.calm_count = 0
            if not connection.reset_reason:
                at_ns = now_ns + (self._interval_ns if soon else self._calm_ns)
                connection.calm_until_ns = min(connection.calm_until_ns, at_ns)
                self._arm(connection, "keep_alive_ns", min(connection.keep_alive_ns, at_ns))

    def on_collected(self, connection: Connection, now_ns: int) -> None:
        """All members have more of what came. Where it comes without answers, the remote group's window may
        be full of it."""
        self.disturb(connection, now_ns, soon=connection.received_up_to > connection.ack_told + 1)

    def can_wait(self, connection: Connection, now_ns: int) -> bool:
        """The interval is over, but nobody needs a KeepAlive yet."""
        if now_ns >= connection.calm_until_ns or not is_calm(connection):
            return False
        if self.speaker_for(connection) is connection:
            return False
        connection.keep_alive_ns = connection.calm_until_ns
        return True

    def next_interval(self, connection: Connection, now_ns: int) -> int:
        """A KeepAlive was sent on the connection: when the next one is due, if nothing happens."""
        connection.calm_until_ns = now_ns + self._calm_ns
        if self.speaker_for(connection) is connection or not is_calm(connection):
            connection.calm_count = 0
            return self._interval_ns
        connection.calm_count += 1
        doublings = min(max(connection.calm_count - AT_FIRST, 0), _DOUBLINGS_MAX)
        return min(self._calm_ns << doublings, self._longest_ns)

    def speaker_for(self, connection: Connection) -> Connection:
        """Of the connections with that group."""
        group_id = connection.remote_group_id
        speaker = self._speakers.get(group_id)
        if speaker is None or not can_speak(speaker):
            speaker = self._speakers[group_id] = connection
        return speaker


def can_speak(connection: Connection) -> bool:
    """One that ends may be gone before the next KeepAlive."""
    return connection.settled and not connection.reset_reason and not connection.closed_here


def is_calm(connection: Connection) -> bool:
    """Open at both ends, nothing is missing, and all requests are acknowledged. Until a client's first
    message is with all members of the server group its connection is not known to all: a joiner gets to know
    it by KeepAlives, and the others that it is wanted still."""
    if not connection.settled or connection.frozen or not connection.fd:
        return False
    if connection.half_closed_here or connection.half_closed_there or connection.nacks:
        return False
    if connection.role == Role.SERVER:
        return True
    return connection.acked >= connection.generated and connection.collected_up_to > 0
