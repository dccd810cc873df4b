"""One TCP connection of the gateway, edge by edge."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterator
from typing import cast

import pytest

from llft.core.replica import Replica
from llft.runtime.gateway.listeners import Listeners
from llft.runtime.gateway.loop import Loop
from llft.runtime.gateway.shell import Carrier, Shell
from llft.runtime.gateway.stream import Stream
from llft.wire.preamble import Address


class Pair:
    """A stream and its peer."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.broken: list[str] = []
        shell = Shell(cast(Replica, None), cast(Carrier, None))
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.peer = socket.create_connection(listener.getsockname())
            self.stream = Stream(listener.accept()[0], self.loop, shell, on_broken=self._on_broken)

    def _on_broken(self, reason: str) -> None:
        self.broken.append(reason)
        self.stream.close(reset=True)

    def until(self, condition: Callable[[], object]) -> None:
        limit = time.monotonic() + 5
        while not condition():
            assert time.monotonic() < limit
            self.loop.turn(self.loop.clock() + 1_000_000)

    def read(self, limit: int = 100) -> bytes:
        """What comes next, waiting for it."""
        found: list[bytes] = []

        def attempt() -> bool:
            data = self.stream.read(limit)
            if data is not None:
                found.append(data)
            return bool(found)

        self.until(attempt)
        return found[0]

    def close(self) -> None:
        self.stream.close(reset=False)
        self.peer.close()
        self.loop.close()


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.close()


def test_the_end_that_came_with_the_last_bytes_is_seen(pair: Pair) -> None:
    pair.peer.sendall(b"last")
    pair.peer.shutdown(socket.SHUT_WR)
    pair.loop.turn(pair.loop.clock() + 100_000_000)  # both are one edge
    assert pair.read() == b"last"
    assert pair.read() == b""


def test_bytes_in_many_pieces(pair: Pair) -> None:
    for piece in (b"one", b"two", b"three"):
        pair.peer.sendall(piece)
        assert pair.read() == piece
    pair.peer.sendall(b"abcdef")
    assert pair.read(3) == b"abc"
    assert pair.read(3) == b"def"


def test_what_the_kernel_does_not_take_is_kept_and_sent_in_order(pair: Pair) -> None:
    pieces = [bytes([number]) * 65_536 for number in range(200)]
    for piece in pieces:
        pair.stream.write(piece)
    assert pair.stream.unsent_bytes > 0
    pair.stream.finish()
    received = bytearray()
    pair.peer.setblocking(False)

    def drain() -> bool:
        try:
            part = pair.peer.recv(1 << 20)
        except BlockingIOError:
            return False
        received.extend(part)
        return not part

    pair.until(drain)
    assert bytes(received) == b"".join(pieces)
    assert pair.stream.unsent_bytes == 0
    assert pair.broken == []


def test_a_reset_is_told_once_though_nobody_reads(pair: Pair) -> None:
    pair.peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    pair.peer.close()
    pair.until(lambda: pair.broken)
    pair.stream.write(b"x")
    assert pair.stream.read(10) is None
    assert pair.broken == ["ECONNRESET"]


@pytest.mark.parametrize("reset", [True, False])
def test_the_peer_is_told_of_a_reset_or_of_the_end(pair: Pair, reset: bool) -> None:
    pair.stream.close(reset=reset)
    pair.stream.close(reset=not reset)
    pair.peer.settimeout(5)
    if reset:
        with pytest.raises(ConnectionResetError):
            pair.peer.recv(1)
    else:
        assert pair.peer.recv(1) == b""


def test_two_families_on_one_port() -> None:
    loop = Loop()
    heard: list[Address] = []

    def on_client(connection: socket.socket, source: Address) -> None:
        heard.append(source)
        connection.close()

    listeners = Listeners(loop, on_client, lambda text: None)
    port = listeners.listen("", 0).port
    listeners.listen("::", port)
    for host in ("127.0.0.1", "::1"):
        with socket.create_connection((host, port)) as client:
            own = client.getsockname()
            limit = time.monotonic() + 5
            while not heard:
                assert time.monotonic() < limit
                loop.turn(loop.clock() + 1_000_000)
            assert heard.pop() == Address(own[0], own[1])
    listeners.close()
    loop.close()
