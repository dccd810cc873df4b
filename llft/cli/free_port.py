"""A port for a server that is about to be started."""

from __future__ import annotations

import random
import socket
from contextlib import suppress
from pathlib import Path


def free_port() -> int:
    """A port that nobody has; the gateway takes it in a moment. It is below those that the system itself
    gives out, for one of these may go to a replica's own sockets before the gateway comes to take it."""
    given_out = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.randrange(min(10_000, given_out // 2), given_out)
        with (
            socket.socket() as stream,
            socket.socket(type=socket.SOCK_DGRAM) as datagrams,
            suppress(OSError),
        ):
            stream.bind(("127.0.0.1", port))
            datagrams.bind(("127.0.0.1", port))
            return port
