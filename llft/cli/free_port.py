"""A port for a server that is about to be started."""

from __future__ import annotations

import random
import socket
from contextlib import suppress
from pathlib import Path

LOWEST = 10_000
TRIES = 100


def free_port() -> int:
    """A port that nobody has; the gateway takes it in a moment. It is below those that the system itself
    gives out, for one of these may go to a replica's own sockets before the gateway comes to take it. Where
    the system gives out all of them, it is one of these."""
    given_out = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    candidates = range(LOWEST, given_out)
    for port in random.sample(candidates, min(TRIES, len(candidates))):
        with suppress(OSError):
            return _bound(port)
    return _bound(0)


def _bound(port: int) -> int:
    with socket.socket() as stream, socket.socket(type=socket.SOCK_DGRAM) as datagrams:
        stream.bind(("127.0.0.1", port))
        datagrams.bind(stream.getsockname())
        found: int = stream.getsockname()[1]
        return found
