"""A control socket: one JSON object a line each way, on a Unix stream socket in the run directory.

Served by whoever pumps, never waiting: a client that sends half a line, or does not read its answer, holds
nobody up. Whoever may open the socket (its directory belongs to the user) may give orders; still everything
is bounded. Laws:

1. Of a client that does not take its answer nothing more is read, and it is not polled: its bytes would
   wake whoever polls again and again. It is tried whenever somebody works here.
2. A line is answered when the answer before it has left, one a round: however many lines come at once, one
   answer is kept, and whoever works here is held up by one.
3. If there are too many clients, who has been here for longest goes: most likely it has nothing to say.
4. A process that is out of descriptors does not hear its listener for a moment, for the same reason as in 1.
"""

from __future__ import annotations

import _socket
import errno
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from llft import originals
from llft.errors import LlftError
from llft.instant import MS
from llft.runtime.poller import raise_fd

Handler = Callable[[dict[str, Any]], dict[str, Any]]

LINE_BYTES_MAX = 64 * 1024
CLIENTS_MAX = 64
_PAUSE_NS = 100 * MS
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


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
        self._deaf_until_ns = 0

    def filenos(self) -> tuple[int, ...]:
        """What to poll for reading."""
        waiting = [fd for fd, client in self._clients.items() if not client.answer]
        return tuple(waiting) if self._is_deaf() else (self._listener.fileno(), *waiting)

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
                self._drop(fd)

    def close(self) -> None:
        for client in self._clients.values():
            client.socket.close()
        self._listener.close()
        _unlink(self.path)

    def abandon(self) -> None:
        """In a process restored from an image: the sockets are another process's, and so is the path."""
        for client in self._clients.values():
            client.socket.detach()
        self._listener.detach()

    def _is_deaf(self) -> bool:
        return self._deaf_until_ns > 0 and originals.monotonic_ns() < self._deaf_until_ns

    def _accept(self) -> None:
        while not self._is_deaf():
            try:
                fd, _ = self._listener._accept()  # type: ignore[attr-defined]  # the C socket's own name
                socket = _raised(originals.Socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, fd))
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    self._deaf_until_ns = originals.monotonic_ns() + _PAUSE_NS
                return  # or nobody, or one who has gone again
            if len(self._clients) >= CLIENTS_MAX:
                self._drop(next(iter(self._clients)))
            self._clients[socket.fileno()] = _Client(socket)

    def _drop(self, fd: int) -> None:
        self._clients.pop(fd).socket.close()

    def _serve(self, client: _Client) -> bool:
        """One round. False: it is done with."""
        if not self._flushed(client):
            return True
        if b"\n" not in client.question:
            data = client.socket.recv(LINE_BYTES_MAX)
            client.question += data
            if not data or (b"\n" not in data and len(client.question) >= LINE_BYTES_MAX):
                return False
        if b"\n" in client.question:
            line, client.question = client.question.split(b"\n", 1)
            client.answer = self._answer(line)
            self._flushed(client)
        return True

    @staticmethod
    def _flushed(client: _Client) -> bool:
        """Whether all of its answer has left."""
        if client.answer:
            try:
                client.answer = client.answer[client.socket.send(client.answer) :]
            except BlockingIOError:
                return False
        return not client.answer

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
