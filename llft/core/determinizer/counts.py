"""N (paper, determinizer figure, lines 24 and 36): how many counted entries each operation has had, bounded.

Descriptors are never numbered twice, so a server that lives long would count on for all it ever had. The
counts of closed ones are forgotten when there are many, and again when there are twice as many, and so
on. How many there are, and which descriptors are closed, follows from the log: all replicas forget
the same at the same entry. Who uses a closed descriptor all the same counts from one again.
"""

from __future__ import annotations

from typing import Final

from llft.core.determinizer.operations import BAD_DESCRIPTOR
from llft.core.determinizer.replay_gate import OperationId
from llft.core.determinizer.sockets import LISTENER, Connections
from llft.wire.order import SOCKET

COUNTS_MANY: Final = 4096
"""A power of two."""


def note_count(
    counts: dict[OperationId, int], operation_id: OperationId, count: int, connections: Connections
) -> None:
    counts[operation_id] = count
    size = len(counts)
    if count == 1 and size >= COUNTS_MANY and size & (size - 1) == 0:
        for known in [known for known in counts if _is_closed(known, connections)]:
            del counts[known]


def _is_closed(operation_id: OperationId, connections: Connections) -> bool:
    kind, fd = operation_id
    return kind == SOCKET and fd != LISTENER and connections.failure(fd) == BAD_DESCRIPTOR
