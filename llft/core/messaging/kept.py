"""The messages that a connection keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from llft.identifiers import ConnectionId, ViewId

if TYPE_CHECKING:
    from llft.core.messaging.connection import Connection


class SentMessage(NamedTuple):
    """A message that this member originated: it is retransmitted from here."""

    position: int
    timestamp: int
    flags: int
    payload: bytes
    digest: int
    """Of everything written on the connection, up to this message (D-09)."""


class ReceivedMessage(NamedTuple):
    """A message of the remote group, tagged with the view in which it was accepted."""

    position: int
    timestamp: int
    view: ViewId
    flags: int
    payload: bytes
    order_end: int


def fragment_key(
    connection: Connection, position: int, *, passed_on: bool
) -> tuple[ConnectionId, ViewId, int, bool]:
    """Fragments add up only within a view: a new primary may send another message at that position. And our
    own primary, which passes messages on, may cut them differently."""
    return connection.connection_id, connection.in_view, position, passed_on


def next_key(connection: Connection) -> tuple[ConnectionId, ViewId, int, bool]:
    """Of the message that is expected."""
    return fragment_key(connection, connection.received_up_to + 1, passed_on=False)
