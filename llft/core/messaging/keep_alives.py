"""When a connection's next KeepAlive is due (lines 54-55, D-44).

With thousands of idle connections KeepAlives are all that is left to do, and they all say the same. Laws:

 - For each remote group one connection, the *speaker*, is kept alive at the interval whatever happens: what
   concerns the groups and not a connection (order information, watermarks, commits, views) travels there as
   often as ever. It is the connection that was sent on last.
 - Any other connection is, too, until it has been quiet for `AT_FIRST` KeepAlives; from then on the interval
   doubles, up to a bound far below the time after which silence ends a connection.
 - Quiet means that this end has nothing to tell and waits for nothing. Any message but a KeepAlive, either
   way, and any news for the next KeepAlive ends it at once.
"""

from __future__ import annotations

from collections.abc import Callable

from llft.config import Timeouts
from llft.core.messaging.connection import Connection
from llft.identifiers import GroupId
from llft.instant import NEVER

AT_FIRST = 8
"""So often news are told at the interval: only a loss of all of them makes the next doublings matter."""
_DOUBLINGS_MAX = 5
_BEFORE_IDLE_BOUND = 8
"""At least so many KeepAlives must be lost before a living group is taken for gone."""


class KeepAlives:
    __slots__ = ("_arm", "_interval_ns", "_longest_ns", "_speakers")

    def __init__(self, timeouts: Timeouts, arm: Callable[[Connection, str, int], None]) -> None:
        self._arm = arm
        self._interval_ns = timeouts.keep_alive_interval_ns
        bound_ns = timeouts.idle_connection_bound_ns // _BEFORE_IDLE_BOUND
        self._longest_ns = max(min(self._interval_ns << _DOUBLINGS_MAX, bound_ns), self._interval_ns)
        self._speakers: dict[GroupId, Connection] = {}

    def on_transmit(self, connection: Connection, now_ns: int) -> None:
        """An application message left on the connection: it stands for a KeepAlive."""
        self._speakers[connection.remote_group_id] = connection
        self.disturb(connection, now_ns)
        connection.keep_alive_ns = now_ns + self._interval_ns

    def disturb(self, connection: Connection, now_ns: int) -> None:
        """Something happened on the connection."""
        if connection.calm_count:
            connection.calm_count = 0
            if not connection.reset_reason:
                at_ns = min(connection.keep_alive_ns, now_ns + self._interval_ns)
                self._arm(connection, "keep_alive_ns", at_ns)

    def next_interval(self, connection: Connection) -> int:
        """A KeepAlive was sent on the connection: when the next one is due, if nothing happens."""
        group_id = connection.remote_group_id
        speaker = self._speakers.get(group_id)
        if speaker is None or not can_speak(speaker):
            speaker = self._speakers[group_id] = connection
        if speaker is connection or not is_quiet(connection):
            connection.calm_count = 0
            return self._interval_ns
        connection.calm_count += 1
        doublings = min(max(connection.calm_count - AT_FIRST, 0), _DOUBLINGS_MAX)
        return min(self._interval_ns << doublings, self._longest_ns)


def can_speak(connection: Connection) -> bool:
    """One that ends may be gone before the next KeepAlive."""
    return connection.settled and not connection.reset_reason and not connection.closed_here


def is_quiet(connection: Connection) -> bool:
    """Open at both ends, and as far as this one knows all members of both groups have all that was sent."""
    if not connection.settled or connection.frozen or not connection.fd:
        return False
    if connection.half_closed_here or connection.half_closed_there or connection.ack_due_ns != NEVER:
        return False
    if connection.sent or connection.transmitted < connection.generated or connection.nacks:
        return False
    return not (connection.received or connection.pending or connection.delivered or connection.marks)
