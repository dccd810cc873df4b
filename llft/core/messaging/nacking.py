"""When what is missing is asked for (lines 49-52; `retention` asks)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llft.core.messaging.connection import Connection
from llft.core.standing import PRIMARY, RECOVERING
from llft.instant import NEVER

if TYPE_CHECKING:
    from llft.core.messaging.messaging import Messaging


def ask_soon(messaging: Messaging, connection: Connection) -> None:
    """A gap may be no more than reordering: a primary waits a little, a backup longer, for what its primary
    misses too is sent again to both. A recovery that was given what it missed misses the next: clients wait
    for it, so it does not wait for the time to ask once more for the same."""
    role, wait_ns = messaging.standing.role, messaging.config.timeouts.nack_interval_ns
    if role in (PRIMARY, RECOVERING):
        wait_ns //= 4
    at_ns = messaging.outbox.now_ns + wait_ns
    was_asked = connection.nacks.get(connection.received_up_to + 1, 1)
    in_recovery = role == RECOVERING and at_ns < connection.nacked_ns and not was_asked
    if connection.nacked_ns == NEVER or in_recovery:
        messaging.arm(connection, "nacked_ns", at_ns)
