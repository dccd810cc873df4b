"""Flow control: windows on connections, and the intra-group window (D-13).

The sent list is the window: it holds what not every member of the remote group has delivered. Within
the group, the primary slows down while the slowest member is too far behind the order log, or while
FirstAcks keep coming because no backup answers them (lines 65-66, MAX_ACK).
"""

from __future__ import annotations

from llft.config import Limits
from llft.core.messaging.connection import Connection


def window_open(connection: Connection, limits: Limits) -> bool:
    return len(connection.sent) < limits.window_messages and connection.sent_bytes < limits.window_bytes


def may_receive(connection: Connection, position: int, size: int, limits: Limits) -> bool:
    """Bounds what a peer can make us keep: twice its own window, whatever it believes."""
    if position > connection.received_up_to + 2 * limits.window_messages:
        return False
    waiting = connection.received_bytes - connection.delivered_bytes
    waiting += sum(len(message.payload) for message in connection.pending.values())
    return waiting + size <= 2 * (limits.window_bytes + limits.message_bytes)


class IntraGroupFlowControl:
    """Slows the primary down until its backups have caught up."""

    __slots__ = ("engaged_since_ns", "lag_limit_bytes", "too_many_acks")

    def __init__(self, lag_limit_bytes: int) -> None:
        self.lag_limit_bytes = lag_limit_bytes
        self.too_many_acks = False
        self.engaged_since_ns = 0

    def on_too_many_first_acks(self) -> None:
        """Line 66."""
        self.too_many_acks = True

    def engaged(self, *, order_end: int, group_watermark: int, now_ns: int) -> bool:
        lag = order_end - group_watermark
        if lag <= self.lag_limit_bytes // 8:
            self.too_many_acks = False
        engaged = self.too_many_acks or lag > self.lag_limit_bytes
        if not engaged:
            self.engaged_since_ns = 0
        elif not self.engaged_since_ns:
            self.engaged_since_ns = now_ns
        return engaged
