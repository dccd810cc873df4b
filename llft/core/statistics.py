"""Counts, lengths and peaks of a replica, for people and checkers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llft.core.replica import Replica


def statistics_of(replica: Replica) -> dict[str, int]:
    connections = list(replica.messaging.table)
    orders = replica.messaging.lane.orders
    return {
        **replica.determinizer.statistics(),
        "connections": len(connections),
        "sent_list": sum(len(c.sent) for c in connections),
        "received_list": sum(len(c.received) + len(c.pending) for c in connections),
        "delivered_list": sum(len(c.delivered) for c in connections),
        "nack_list": sum(len(c.nacks) for c in connections),
        "held_order_list": sum(h.held_bytes for h in replica.messaging.lane.held.values()),
        "order_end": orders.end,
        "order_retained": orders.end - orders.start,
        "watermark": replica.own_watermark(),
        "dropped": replica.messaging.dropped,
        "peak_window_messages": replica.messaging.peak_sent_count,
        "peak_order_lag_bytes": replica.messaging.peak_order_bytes,
        "performed": replica.performed_count,
        **replica.inbox.statistics(),
    }
