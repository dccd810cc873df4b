"""What a dialogue (`core.dialogue`) is lent of a connection, and of a message that has begun to come on it
(D-12); and what has become of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from llft.core.messaging.connection import Connection
from llft.core.messaging.kept import next_key
from llft.wire.fragment import Reassembly

if TYPE_CHECKING:
    from llft.core.replica import Replica

FRAGMENTS_MAX: Final = 2048
FRAGMENTED_MAX: Final = 1 << 20
"""As many as a message may have, and as many bytes of it, to be put together in a dialogue."""


class OfConnection(NamedTuple):
    """What has become of its numbers."""

    received_up_to: int
    received_bytes: int
    delivered_bytes: int
    read_offset: int
    delivered_position: int
    delivered_timestamp: int
    delivered_digest: int
    sent_digest: int
    ack_told: int
    acked: int
    acked_in_view: int
    generated: int
    remote_watermark: int
    heard_ns: int
    said_ns: int
    ack_due_ns: int
    retransmit_ns: int
    sends_decoded: int
    read_decoded: int
    """At a backup: entries of the log's bytes, not of those that were lent."""
    members_timestamp: int
    gone_first: int
    gone_last: int
    """Positions of what was delivered and forgotten in it; 0: nothing was."""
    gone_bytes: int
    gone_checksum: int


def begun(reassembly: Reassembly, connection: Connection) -> tuple[int, list[bytes]] | None:
    """Of the message that is expected: how many fragments it has, and those that are here. None: these are
    not its first ones, or too much for a dialogue."""
    found = reassembly.begun(next_key(connection))
    if found is None or found[0] > FRAGMENTS_MAX:
        return None
    return found if sum([len(fragment) for fragment in found[1]]) <= FRAGMENTED_MAX else None


def numbers_of(connection: Connection, nothings: tuple[int, int]) -> tuple[int, ...]:
    """`nothings`: the counts of reads that found nothing."""
    c = connection
    return (
        *(c.fd, c.in_base, c.out_base, c.out_view_num, c.in_view.primary_view_num),
        *(c.received_up_to, c.received_bytes, c.delivered_bytes),
        *(c.delivered_position, c.delivered_timestamp, c.delivered_digest, c.sent_digest),
        *(c.ack_told, c.acked, c.acked_in_view, c.transmitted, c.generated),
        *(c.remote_watermark, len(c.sent), c.sent_bytes),
        *(c.members_timestamp, c.heard_ns, c.ack_due_ns, c.retransmit_ns, c.keep_alive_ns),
        *nothings,
        *c.connection_id,
    )


def is_plain(replica: Replica, connection: Connection) -> bool:
    """Open at both ends, and nothing is missing, held back, half read or of another view."""
    c = connection
    if not c.in_prefix or c.reset_reason or c.closed_here or c.half_closed_here or c.half_closed_there:
        return False
    if not (c.settled and c.established) or c.frozen or c.birth_order_end or c.in_base < 0:
        return False
    if c.pending or c.nacks or c.read_offset or c.delivered_view != c.in_view:
        return False
    outside = replica.determinizer.engine.outside
    return (
        replica.messaging.lane.by_prefix.get(c.in_prefix) is c
        and c.fd not in outside.descriptors.peeked
        and c.fd not in outside.descriptors.unsettled
        and begun(replica.messaging.reassembly, c) is not None
    )
