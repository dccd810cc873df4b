"""One TCP connection of the service port: its socket, its handshake, and how far it is.

CONNECTING -> HANDSHAKE -> WATCHING   a liveness connection, silent from now on
                        -> SERVING    somebody asks for the birth log
HANDSHAKE or WATCHING -> LEAVING      a farewell was said, so that the end of it is no certificate
"""

from __future__ import annotations

import _socket
from enum import Enum

from llft import originals
from llft.identifiers import BirthId
from llft.runtime.handshake import Handshake
from llft.runtime.log_service import LogRequest
from llft.runtime.transport import sockets

FAREWELL = b"B"


class Phase(Enum):
    CONNECTING = 1
    HANDSHAKE = 2
    WATCHING = 3
    SERVING = 4
    LEAVING = 5


class ServiceConnection:
    __slots__ = ("sock", "fd", "handshake", "phase", "outgoing", "since_ns", "deadline_ns", "request")

    def __init__(
        self, sock: originals.Socket, handshake: Handshake, phase: Phase, *, since_ns: int, deadline_ns: int
    ) -> None:
        self.sock = sock
        self.fd = sock.fileno()
        self.handshake = handshake
        self.phase = phase
        self.outgoing = phase is Phase.CONNECTING
        self.since_ns = since_ns
        self.deadline_ns = deadline_ns
        self.request: LogRequest | None = None

    @property
    def birth_id(self) -> BirthId:
        """Who is at the other end; certain only once the handshake is established."""
        return self.handshake.peer_birth_id

    def receive(self, size: int) -> bytes | None:
        """None: nothing now. Empty: the end. Other failures are raised as the kernel tells them."""
        try:
            return self.sock.recv(size)
        except BlockingIOError:
            return None

    def say_farewell(self) -> None:
        """A path that is broken need not carry it: then it carries no end of stream either."""
        try:
            self.sock.send(FAREWELL, sockets.QUIETLY)
            self.sock.shutdown(_socket.SHUT_WR)
        except OSError:
            return
