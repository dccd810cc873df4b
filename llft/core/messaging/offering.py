"""How much of what was received may be delivered now."""

from __future__ import annotations

from llft.core.messaging.connection import Connection
from llft.core.messaging.reflection import HeldOrder


def may_end(connection: Connection, held: HeldOrder, *, outside: bool) -> bool:
    """At a gateway the end of the stream is output like any other (D-10)."""
    if not outside or not connection.received:
        return True
    return connection.received[-1].order_end <= held.committed


def deliverable(connection: Connection, held: HeldOrder, *, outside: bool) -> int:
    """Bytes of the first messages that came in one view and, at a gateway, are committed (D-10)."""
    view = connection.received[0].view
    total = -connection.read_offset
    for message in connection.received:
        if message.payload and message.view != view:
            break
        if outside and message.order_end > held.committed:
            break
        total += len(message.payload)
    return max(total, 0)
