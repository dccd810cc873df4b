"""A server that answers with as many bytes as it is asked for: `echo_server.py PORT threads|select [HOST]`.

A request is a header and a body. The header says how long the body is, how long the reply is to be, and which
call to make how often in between. `threads`: one for each connection; `select`: one for all.
"""

from __future__ import annotations

import os
import selectors
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress

HEADER = struct.Struct("!IIBI")
CHUNK_BYTES = 65_536
BACKLOG = 1024

_mutex = threading.Lock()


def read_clock(connection: socket.socket, count: int) -> None:
    for _ in range(count):
        time.time()


def claim_mutex(connection: socket.socket, count: int) -> None:
    for _ in range(count):
        with _mutex:
            pass


def draw_random(connection: socket.socket, count: int) -> None:
    for _ in range(count):
        os.urandom(8)


def read_nothing(connection: socket.socket, count: int) -> None:
    """The client says nothing until it has its reply."""
    for _ in range(count):
        with suppress(BlockingIOError):
            connection.recv(1, socket.MSG_DONTWAIT)


OPERATIONS: tuple[Callable[[socket.socket, int], None], ...] = (
    read_clock,
    claim_mutex,
    draw_random,
    read_nothing,
)
"""By their numbers in the header."""


class Conversation:
    """One connection, of which at most one request is under way."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._parts: list[bytes] = []
        self._received = 0

    def take(self) -> bool:
        """What has come, and the reply if that completes a request. False: the client has left."""
        data = self.connection.recv(CHUNK_BYTES)
        if not data:
            return False
        self._parts.append(data)
        self._received += len(data)
        if len(self._parts[0]) < HEADER.size:
            self._parts = [b"".join(self._parts)]
        if len(self._parts[0]) >= HEADER.size:
            body_bytes, reply_bytes, operation, count = HEADER.unpack_from(self._parts[0])
            if self._received == HEADER.size + body_bytes:
                OPERATIONS[operation](self.connection, count)
                self._reply(reply_bytes)
        return True

    def _reply(self, size: int) -> None:
        """The body again, cut or repeated."""
        body = b"".join(self._parts)[HEADER.size :]
        self._parts, self._received = [], 0
        if len(body) != size:
            body = (body * (size // max(1, len(body)) + 1))[:size]
        self.connection.sendall(body)


def converse(connection: socket.socket) -> None:
    conversation = Conversation(connection)
    while conversation.take():
        pass
    connection.close()


def serve_with_threads(listener: socket.socket) -> None:
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=converse, args=(connection,), daemon=True).start()


def serve_by_selecting(listener: socket.socket) -> None:
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.data is None:
                connection, _ = listener.accept()
                selector.register(connection, selectors.EVENT_READ, Conversation(connection))
            else:
                conversation: Conversation = key.data
                if not conversation.take():
                    selector.unregister(conversation.connection)
                    conversation.connection.close()


def main() -> None:
    host = sys.argv[3] if len(sys.argv) > 3 else "127.0.0.1"
    listener = socket.create_server((host, int(sys.argv[1])), backlog=BACKLOG)
    print("ready", flush=True)
    if sys.argv[2] == "select":
        serve_by_selecting(listener)
    serve_with_threads(listener)


if __name__ == "__main__":
    main()
