"""Whom a new primary asks about the old one (line 29), and when.

Law: every connection is asked about before the view is settled, whenever this replica gets to know of it.
What the other members and the remote groups tell may order the opening of connections that this replica had
never heard of; the old primary may have spoken on them, to groups that nobody has asked yet (D-45).
"""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING

from llft.core.membership.recovery import Recovery
from llft.core.messaging.connection import Connection
from llft.core.standing import PRIMARY
from llft.core.view_answers import read_position
from llft.identifiers import ConnectionId
from llft.instant import NEVER
from llft.wire.messages import MessageType, NackBody, NewPrimaryViewBody

if TYPE_CHECKING:
    from llft.core.replica import Replica


def send_question(replica: Replica, connection: Connection) -> None:
    messaging = replica.messaging
    read = read_position(connection)
    body = NewPrimaryViewBody(
        replica.standing.role == PRIMARY, messaging.lane.orders.end, read, connection.received_digest(read)
    )
    messaging.send_control(connection, MessageType.NEW_PRIMARY_VIEW, body)


def ask_newly_known(replica: Replica, recovery: Recovery) -> None:
    """Line 29 for the connections that were created since it was last done; all of them, the first time.
    Those on which something waits to be read come first: there somebody waits for a reply."""
    table = replica.messaging.table
    if table.created_count == recovery.asked_number:
        return
    for connection in sorted(table.created_after(recovery.asked_number), key=_is_read):
        connection.settled = bool(connection.reset_reason)
        if not connection.settled:
            recovery.on_discovered(connection.connection_id, connection.remote_group_id)
            send_question(replica, connection)
    recovery.asked_number = table.created_count


def _is_read(connection: Connection) -> bool:
    return not connection.received


def still_answering(replica: Replica, recovery: Recovery) -> set[ConnectionId]:
    """Connections about which nobody need be asked again when the view is settled: their question is out, and
    from what it says on others their remote group is in the view in which this one was last read from."""
    views = {header.source_group_id: header.source_view for header, _ in recovery.answers.values()}
    found = set()
    for connection_id in recovery.unanswered:
        connection = replica.messaging.table.by_id.get(connection_id)
        if connection is None or connection.remote_group_id not in views:
            continue
        if connection_id in recovery.indefinite:
            continue  # it has answered, and nothing more will come by itself
        view = views[connection.remote_group_id]
        if not read_position(connection) or connection.delivered_view == view:
            found.add(connection_id)
    return found


def ask_unsettled(replica: Replica, spared: Container[ConnectionId]) -> int:
    """In a settled view; returns when to ask again."""
    timeouts = replica.config.timeouts
    wait_ns = timeouts.propose_interval_ns if spared else timeouts.keep_alive_interval_ns
    again_ns = NEVER
    for connection in replica.messaging.table:
        if not connection.settled:
            again_ns = replica.now_ns + wait_ns
            if connection.connection_id not in spared:
                send_question(replica, connection)
    return again_ns


def ask_members(replica: Replica, recovery: Recovery) -> None:
    """The local members' part of line 31 (D-28)."""
    orders = replica.messaging.lane.orders
    wanted = recovery.wanted_of_members(orders.end)
    if wanted:
        body = NackBody(replica.standing.birth_id, order_start=orders.end, order_end=wanted)
        replica.intra.send(MessageType.NACK, body)
    recovery.ask_ns = replica.now_ns + replica.config.timeouts.propose_interval_ns
