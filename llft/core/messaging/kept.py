"""The messages that a connection keeps."""

from __future__ import annotations

from typing import NamedTuple

from llft.identifiers import ViewId


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
