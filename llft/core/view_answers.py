"""What a remote group answers when a new primary asks (lines 36-41), and whether both mean one past."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llft.core.messaging.connection import Connection
from llft.core.messaging.stream_digest import UNKNOWN_DIGEST
from llft.core.standing import PRIMARY
from llft.identifiers import Role, ViewId
from llft.wire.codec import encode_body
from llft.wire.messages import Header, MessageType, NewPrimaryViewAckBody

if TYPE_CHECKING:
    from llft.core.replica import Replica


def send_answer(
    replica: Replica,
    connection: Connection,
    asked_by: ViewId,
    received_in: ViewId,
    last_sent: int,
    *,
    definite: bool,
    checked: bool,
) -> None:
    """Line 41. What is held may be long, so it may take several datagrams."""
    messaging = replica.messaging
    body = NewPrimaryViewAckBody(
        asked_by,
        definite,
        checked,
        received_in,
        connection.received_up_to,
        connection.received_digest(connection.received_up_to),
        last_sent,
        messaging.held_for(connection.remote_group_id).export(),
    )
    header = messaging.header(connection, MessageType.NEW_PRIMARY_VIEW_ACK)
    for data in replica.intra.datagrams(header, encode_body(body)):
        replica.outbox.multicast(connection.remote_group_id, data)


def received_view(connection: Connection) -> ViewId:
    """The view in which the last of the messages here was accepted."""
    if connection.received:
        return connection.received[-1].view
    return connection.delivered_view


def read_position(connection: Connection) -> int:
    """Of the last message that the application has read something of."""
    return connection.delivered_position + (connection.read_offset > 0)


def unknown_connection(replica: Replica, header: Header) -> Connection | None:
    """A client group's CONNECT may not have come yet: then we know nothing of the connection. Otherwise
    it is over here, and there is nothing to recover from us."""
    messaging = replica.messaging
    connection_id = messaging.identify(header)
    if header.role == Role.CLIENT and connection_id not in messaging.table.finished:
        return messaging.create(connection_id, replica.now_ns)
    if replica.standing.role == PRIMARY:
        messaging.send_reset(header)
    return None


def has_sent_other(connection: Connection, position: int, digest: int) -> bool:
    """Whether who received so much, with this digest, got it from another branch of our group."""
    if digest == UNKNOWN_DIGEST:
        return False
    message = connection.find_sent(position)
    if message is not None:
        return message.digest != digest
    return position == connection.collected_up_to and connection.collected_digest != digest
