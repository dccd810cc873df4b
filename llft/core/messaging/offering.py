"""How much of what was received may be delivered now.

A read ends where a view of the remote group ends, so that an entry of the order log concerns one view. At a
gateway what is delivered leaves the system, in a durable group it comes to a disk: it waits for the output
commit (D-10, D-71), and so does the end of the stream.
"""

from __future__ import annotations

from llft.core.messaging.connection import Connection
from llft.core.messaging.reflection import HeldOrder


def offered(connection: Connection, limit: int, held: HeldOrder, *, committed_only: bool) -> int | None:
    """So many bytes; 0 at the end of the stream; None: nothing yet."""
    available = connection.received_bytes - connection.delivered_bytes
    if available and connection.received:
        if committed_only or connection.received[0].view != connection.received[-1].view:
            available = _deliverable(connection, held, committed_only=committed_only)
        return min(limit, available) if available else None
    return 0 if connection.at_end and _may_end(connection, held, committed_only=committed_only) else None


def _may_end(connection: Connection, held: HeldOrder, *, committed_only: bool) -> bool:
    if not committed_only or not connection.received:
        return True
    return connection.received[-1].order_end <= held.committed


def _deliverable(connection: Connection, held: HeldOrder, *, committed_only: bool) -> int:
    """Bytes of the first messages that came in one view and, if it must be, are committed."""
    view = connection.received[0].view
    total = -connection.read_offset
    for message in connection.received:
        if message.payload and message.view != view:
            break
        if committed_only and message.order_end > held.committed:
            break
        total += len(message.payload)
    return max(total, 0)
