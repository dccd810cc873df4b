"""What is checked while the world runs, because no journal tells it afterwards.

A SecondAck says that a group does not depend on its primary for a message; so only a replica that has
generated the message may send it (paper, lines 60-68), or the only member of the group. A
semi-passive backup generates nothing: it must know the order of the message.
"""

from __future__ import annotations

from llft.core.replica import Replica
from llft.core.standing import LEFT
from llft.wire.codec import decode
from llft.wire.messages import MessageType

_SECOND_ACK = bytes((MessageType.SECOND_ACK,))


def unearned_second_ack(core: object, data: bytes) -> str | None:
    """Why this datagram should not have been sent; None for all others."""
    if data[1:2] != _SECOND_ACK or not isinstance(core, Replica) or core.role == LEFT:
        return None
    header = decode(data).header
    connection = core.messaging.find(header)
    if connection is None:
        return None
    position = header.view_base + header.ack
    if position <= max(connection.generated, connection.ordered_sends):
        return None
    return (
        f"A {core.role} of group {header.source_group_id} sent a SecondAck for message {position} on "
        f"{connection.connection_id}, of which it has generated {connection.generated} messages."
    )
