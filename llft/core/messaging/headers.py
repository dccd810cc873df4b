"""The headers of what leaves on inter-group connections (lines 2-6, 9-13), and what one says that came."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llft.core.messaging.lane import acknowledged
from llft.identifiers import Role, ViewId
from llft.wire.messages import Header, MessageFlag, MessageType

if TYPE_CHECKING:
    from llft.core.messaging.connection import Connection
    from llft.core.messaging.messaging import Messaging


def header_of(messaging: Messaging, connection: Connection, message_type: MessageType) -> Header:
    standing, lane = messaging.standing, messaging.lane
    return Header(
        message_type,
        standing.group_id,
        connection.remote_group_id,
        connection.connection_id.conn_seq_num,
        connection.role,
        standing.view,
        messaging.held_for(connection.remote_group_id).view,
        connection.out_base,
        standing.view_start,
        standing.config.waits_for_commit,
        ack_view_num=connection.in_view.primary_view_num if connection.in_base >= 0 else 0,
        ack=acknowledged(connection),
        back=connection.members_timestamp,
        msg_seq_num=_last_sent(connection) if message_type == MessageType.KEEP_ALIVE else 0,
        timestamp=lane.clock.value,
        order_watermark=lane.group_watermark,
        order_committed=lane.order_committed,
    )


def _last_sent(connection: Connection) -> int:
    """A KeepAlive shows what was sent, for the last of it may have been lost (D-44)."""
    return max(connection.transmitted - connection.out_base, 0)


def reset_of(messaging: Messaging, header: Header) -> Header:
    """The answer to a message on a connection that does not exist here (any more)."""
    standing = messaging.standing
    return Header(
        MessageType.KEEP_ALIVE,
        standing.group_id,
        header.source_group_id,
        header.conn_seq_num,
        Role.SERVER if header.role == Role.CLIENT else Role.CLIENT,
        standing.view,
        header.source_view,
        view_start=standing.view_start,
        waits_for_commit=standing.config.waits_for_commit,
        flags=MessageFlag.RESET,
        order_watermark=messaging.lane.group_watermark,
    )


def names_base(header: Header) -> bool:
    """Only the remote primary's own Requests and Replies say where its view's numbers begin."""
    return header.message_type <= MessageType.REPLY and not header.flags & MessageFlag.PASSED_ON


def vouched_for(connection: Connection, header: Header, own_view: ViewId) -> bool:
    """At a replica that follows a log: whether our own group has agreed with this newer view (D-47). The
    member that passes the message on says so. While nobody has accepted the connection the log says nothing
    of it, and will name the view with its birth."""
    passed_on = bool(header.flags & MessageFlag.PASSED_ON)
    return not connection.fd or (passed_on and header.dest_view == own_view)
