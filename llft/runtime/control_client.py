"""Questions to control sockets: one JSON object a line each way, one question a connection.

An `Inquiry` never blocks, because who asks must not hang on who answers: a replica that was stopped, or that
computes, accepts a connection (its kernel does) and says nothing. `ask` waits for one answer, `ask_all` for
several at once, both within a bound.

Laws:

1. Every wait is bounded, and so is every answer's length.
2. An answer is an object with "ok": true, or the question failed and `error` says why.
3. Whatever becomes of it, an inquiry leaves no socket behind (`close`).
"""

from __future__ import annotations

import json
import selectors
import socket
import time
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from llft.errors import PeerError

Answer = dict[str, Any]
Key = TypeVar("Key", bound=Hashable)

ANSWER_LIMIT_BYTES = 4 * 1024 * 1024
_CHUNK_BYTES = 1 << 16


class Inquiry:
    """One question under way. Poll `fileno` for reading and call `work` until `done`."""

    def __init__(self, path: Path, request: Mapping[str, object]) -> None:
        self.path = path
        self.answer: Answer | None = None
        self.error = ""
        self._received = bytearray()
        self._socket: socket.socket | None = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.setblocking(False)
        try:
            self._socket.connect(str(path))
            # A question is far shorter than the socket's buffer, so it leaves whole or not at all.
            self._socket.sendall(json.dumps(request).encode() + b"\n")
        except OSError as error:
            self._fail(f"nobody answers at {path.name}: {error.strerror or error}")

    @property
    def done(self) -> bool:
        return self.answer is not None or bool(self.error)

    def fileno(self) -> int:
        return -1 if self._socket is None else self._socket.fileno()

    def work(self) -> None:
        """Take what came."""
        if self._socket is None:
            return
        try:
            chunk = self._socket.recv(_CHUNK_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._fail(f"{self.path.name} broke off: {error.strerror or error}")
            return
        self._received += chunk
        if b"\n" in chunk:
            self._finish()
        elif not chunk:
            self._fail(f"{self.path.name} closed without an answer")
        elif len(self._received) > ANSWER_LIMIT_BYTES:
            self._fail(f"{self.path.name} answers without end")

    def close(self, why: str = "given up") -> None:
        """Ends it if it is under way."""
        if not self.done:
            self._fail(why)

    def _finish(self) -> None:
        try:
            answer = json.loads(self._received.partition(b"\n")[0])
        except ValueError:
            self._fail(f"{self.path.name} answers with no JSON")
            return
        if isinstance(answer, dict) and answer.get("ok") is True:
            self.answer = answer
            self._hang_up()
        else:
            said = answer.get("error") if isinstance(answer, dict) else None
            self._fail(str(said or f"{self.path.name} refuses without a reason"))

    def _fail(self, why: str) -> None:
        self.error = why
        self._hang_up()

    def _hang_up(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def ask_all(
    questions: Mapping[Key, tuple[Path, Mapping[str, object]]], *, timeout_s: float
) -> dict[Key, Inquiry]:
    """Puts all questions at once; every inquiry returned is done: answered, refused or given up."""
    inquiries = {key: Inquiry(path, request) for key, (path, request) in questions.items()}
    deadline_s = time.monotonic() + timeout_s
    with selectors.DefaultSelector() as selector:
        for inquiry in inquiries.values():
            if not inquiry.done:
                selector.register(inquiry.fileno(), selectors.EVENT_READ, inquiry)
        while selector.get_map() and (left_s := deadline_s - time.monotonic()) > 0:
            for key, _ in selector.select(left_s):
                key.data.work()
                if key.data.done:
                    selector.unregister(key.fd)
    for inquiry in inquiries.values():
        inquiry.close(f"{inquiry.path.name} did not answer within {timeout_s:g} s")
    return inquiries


def ask(path: Path, request: Mapping[str, object], *, timeout_s: float = 2.0) -> Answer:
    """One question, one answer; PeerError if there is none, or a refusal."""
    inquiry = ask_all({0: (path, request)}, timeout_s=timeout_s)[0]
    if inquiry.answer is None:
        raise PeerError("control-request-failed", inquiry.error, request=request.get("do"), socket=path.name)
    return inquiry.answer
