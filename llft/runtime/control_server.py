"""A control socket: one JSON object a line each way, on a Unix stream socket in the run directory.

Served by whoever pumps, never waiting: a client that sends half a line, or does not read its answer, holds
nobody up. Whoever
may open the socket (its directory belongs to the user) may give orders; still every line is bounded.
"""

from __future__ import annotations

import _socket
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from llft import originals
from llft.errors import LlftError
from llft.runtime.poller import raise_fd

Handler = Callable[[dict[str, Any]], dict[str, Any]]

LINE_BYTES_MAX = 64 * 1024
CLIENTS_MAX = 64


class _Client:
    __slots__ = ("answer", "question", "socket")

    def __init__(self, socket: originals.Socket) -> None:
        self.socket = socket
        self.question = b""
        self.answer = b""


class ControlServer:
    def __init__(self, path: str, handlers: dict[str, Handler]) -> None:
        self.path = path
        self._handlers = handlers
        _unlink(path)
        listener = originals.Socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        listener.bind(path)
        listener.listen(16)
        self._listener = _raised(listener)
        self._clients: dict[int, _Client] = {}

    def filenos(self) -> tuple[int, ...]:
        return (self._listener.fileno(), *self._clients)

    def work(self) -> None:
        self._accept()
        for fd, client in list(self._clients.items()):
            try:
                alive = self._serve(client)
            except BlockingIOError:
                alive = True
            except OSError:
                alive = False
            if not alive:
                del self._clients[fd]
                client.socket.close()

    def close(self) -> None:
        for client in self._clients.values():
            client.socket.close()
        self._listener.close()
        _unlink(self.path)

    def _accept(self) -> None:
        while True:
            try:
                fd, _ = self._listener._accept()  # type: ignore[attr-defined]  # the C socket's own name
            except OSError:
                return  # nobody, or one who has gone again
            socket = _raised(originals.Socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, fd))
            if len(self._clients) >= CLIENTS_MAX:
                socket.close()
            else:
                self._clients[socket.fileno()] = _Client(socket)

    def _serve(self, client: _Client) -> bool:
        """One round. False: it is done with."""
        if client.answer:
            sent = client.socket.send(client.answer)
            client.answer = client.answer[sent:]
            if client.answer:
                return True
        data = client.socket.recv(LINE_BYTES_MAX)
        client.question += data
        while b"\n" in client.question:
            line, client.question = client.question.split(b"\n", 1)
            client.answer += self._answer(line)
        if client.answer:
            sent = client.socket.send(client.answer)
            client.answer = client.answer[sent:]
        return bool(data) and len(client.question) < LINE_BYTES_MAX

    def _answer(self, line: bytes) -> bytes:
        answer: dict[str, Any]
        try:
            question = json.loads(line)
            handler = self._handlers[question["do"]]
            answer = {"ok": True} | handler(question)
        except (ValueError, KeyError, TypeError):
            wanted = ", ".join(self._handlers)
            answer = {"ok": False, "error": f'not understood: send {{"do": one of {wanted}}}'}
        except (LlftError, OSError) as error:
            answer = {"ok": False, "error": str(error)}
        return json.dumps(answer).encode() + b"\n"


def _raised(socket: originals.Socket) -> originals.Socket:
    raised = originals.Socket(socket.family, socket.type, socket.proto, raise_fd(socket.detach()))
    raised.setblocking(False)
    return raised


def _unlink(path: str) -> None:
    with suppress(FileNotFoundError):
        originals.unlink(path)
