"""A client that says how long replies took: `asking_client.py CONTROL_PORT`.

Whoever wants to know connects to the control port, and gives orders, an object a line each:

    {"do": "connect", "host": H, "port": P, "connections": N}    in place of those that were
    {"do": "batches", "requests": N, "batch": B, "request": R}   one after the other, on one connection
    {"do": "each", "requests": N, "request": R}       the same, and the clock is read for every one
    {"do": "crowd", "requests": N, "request": R}      one under way on each connection
    {"do": "numbers", "seconds": S}                   write numbers to a store, one after the other
    {"do": "reply", "request": R}                     ask once, and say what the reply was

R is one of the echo server's, with `size`, and perhaps `reply_size`, `operation` and `count`; or any `text`,
to which the `reply` is a "line" or "http". The answer has `us`: what a request took, of each batch, of each
one, or of the crowd by its throughput. Of numbers it has how many were `confirmed`, and `gap_ms`, the
longest from one confirmation to the next.
"""

from __future__ import annotations

import json
import selectors
import socket
import struct
import sys
import time
from typing import Any

HEADER = struct.Struct("!IIBI")
CHUNK_BYTES = 65_536
CONNECT_TRIES = 100
CONNECT_PAUSE_S = 0.1


class EchoRequest:
    def __init__(self, size: int, reply_size: int = -1, operation: int = 0, count: int = 0) -> None:
        self._reply_size = size if reply_size < 0 else reply_size
        self._body = bytes(range(256)) * (size // 256) + bytes(range(size % 256))
        self.data = HEADER.pack(size, self._reply_size, operation, count) + self._body

    def read(self, connection: socket.socket) -> bytes:
        data = received(connection)
        if len(data) == self._reply_size:
            return data
        parts = [data]
        missing = self._reply_size - len(data)
        while missing > 0:
            parts.append(received(connection))
            missing -= len(parts[-1])
        return b"".join(parts)

    def check(self, reply: bytes) -> None:
        expected = (self._body * (self._reply_size // max(1, len(self._body)) + 1))[: self._reply_size]
        if reply != expected:
            raise ValueError(f"a reply of {len(reply)} bytes is not what was asked for")


class TextRequest:
    def __init__(self, text: str, reply: str) -> None:
        self.data = text.encode()
        self._is_whole = ends_with_line if reply == "line" else is_whole_response

    def read(self, connection: socket.socket) -> bytes:
        data = received(connection)
        while not self._is_whole(data):
            data += received(connection)
        return data

    def check(self, reply: bytes) -> None:
        if reply.startswith(b"HTTP/") and b" 200 " not in reply[:16]:
            raise ValueError(f"the server says {reply[:200]!r}")


Request = EchoRequest | TextRequest


def request_of(words: dict[str, Any]) -> Request:
    return TextRequest(**words) if "text" in words else EchoRequest(**words)


def ends_with_line(data: bytes) -> bool:
    return data.endswith(b"\n")


def is_whole_response(data: bytes) -> bool:
    head, blank, body = data.partition(b"\r\n\r\n")
    if not blank:
        return False
    _, _, rest = head.lower().partition(b"content-length:")
    return len(body) >= int(rest.split(b"\r\n", 1)[0])


def received(connection: socket.socket) -> bytes:
    data = connection.recv(CHUNK_BYTES)
    if not data:
        raise ConnectionResetError("the server closed the connection")
    return data


def connect(host: str, port: int) -> socket.socket:
    """The server may not be there yet."""
    for _ in range(CONNECT_TRIES):
        try:
            connection = socket.create_connection((host, port))
        except OSError:
            time.sleep(CONNECT_PAUSE_S)
        else:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connection
    raise ConnectionRefusedError(f"nobody listens on {host}:{port}")


def ask(connection: socket.socket, request: Request, times: int) -> bytes:
    """So often; the last reply."""
    reply = b""
    for _ in range(times):
        connection.sendall(request.data)
        reply = request.read(connection)
    return reply


class Client:
    def __init__(self) -> None:
        self._connections: list[socket.socket] = []

    def obey(self, order: dict[str, Any]) -> dict[str, Any]:
        if order["do"] == "connect":
            host = order.get("host", "127.0.0.1")
            return self._connect(host, order["port"], order["connections"])
        if order["do"] == "numbers":
            return self._write_numbers(order["seconds"])
        request = request_of(order["request"])
        if order["do"] == "reply":
            return {"reply": ask(self._connections[0], request, 1).decode().strip()}
        if order["do"] == "crowd":
            return {"us": [self._crowd(request, order["requests"])]}
        batch = order.get("batch", 1)
        return {"us": [self._batch(request, batch) for _ in range(max(1, order["requests"] // batch))]}

    def _connect(self, host: str, port: int, count: int) -> dict[str, Any]:
        for connection in self._connections:
            connection.close()
        self._connections = [connect(host, port) for _ in range(count)]
        return {"connections": count}

    def _batch(self, request: Request, size: int) -> float:
        connection = self._connections[0]
        began_ns = time.perf_counter_ns()
        reply = ask(connection, request, size)
        ended_ns = time.perf_counter_ns()
        request.check(reply)
        return (ended_ns - began_ns) / 1000 / size

    def _write_numbers(self, seconds: float) -> dict[str, Any]:
        began_s = last_s = time.monotonic()
        confirmed, gap_s = 0, 0.0
        while last_s < began_s + seconds:
            request = TextRequest(f"SET number {confirmed + 1}\n", "line")
            if ask(self._connections[0], request, 1) != b"OK\n":
                raise ValueError("a write was not confirmed")
            now_s = time.monotonic()
            gap_s, last_s = max(gap_s, now_s - last_s), now_s
            confirmed += 1
        return {"confirmed": confirmed, "gap_ms": gap_s * 1000}

    def _crowd(self, request: Request, count: int) -> float:
        began_ns = time.perf_counter_ns()
        Crowd(self._connections, request, count).run()
        return (time.perf_counter_ns() - began_ns) / 1000 / count


class Crowd:
    """Every connection has its next request under way as soon as it has the last reply."""

    def __init__(self, connections: list[socket.socket], request: Request, count: int) -> None:
        self._request = request
        self._unsent = count
        self._selector = selectors.DefaultSelector()
        for connection in connections[:count]:
            self._selector.register(connection, selectors.EVENT_READ)

    def run(self) -> None:
        connections = [key.fileobj for key in self._selector.get_map().values()]
        for connection in connections:
            self._send(connection)
        while self._selector.get_map():
            for key, _ in self._selector.select():
                self._take(key.fileobj)
        self._selector.close()

    def _send(self, connection: Any) -> None:
        connection.sendall(self._request.data)
        self._unsent -= 1

    def _take(self, connection: Any) -> None:
        reply = self._request.read(connection)
        if self._unsent > 0:
            self._send(connection)
        else:
            self._request.check(reply)
            self._selector.unregister(connection)


def main() -> None:
    listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
    client = Client()
    while True:
        control, _ = listener.accept()
        with control, control.makefile("rw") as lines:
            for line in lines:
                try:
                    answer = client.obey(json.loads(line))
                except (OSError, ValueError) as error:
                    answer = {"error": str(error)}
                lines.write(json.dumps(answer) + "\n")
                lines.flush()


if __name__ == "__main__":
    main()
