"""Control sockets and clients that are no good: silent ones, ones that do not read, too many of them."""

from __future__ import annotations

import json
import os
import resource
import select
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from llft.runtime import control_server
from llft.runtime.control_client import Inquiry
from llft.runtime.control_server import CLIENTS_MAX, ControlServer
from tests.live.world import short_directory

LONG = "x" * 100_000
COUNT = 100


class Served:
    def __init__(self, directory: Path) -> None:
        self.path = directory / "c.sock"
        self.answered = 0
        self.server = ControlServer(str(self.path), {"long": self._long})
        self._clients: list[socket.socket] = []

    def _long(self, question: dict[str, Any]) -> dict[str, Any]:
        self.answered += 1
        return {"text": LONG}

    def client(self) -> socket.socket:
        client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        client.connect(str(self.path))
        self._clients.append(client)
        return client

    def wakes(self) -> bool:
        """Whether whoever polls its descriptors is woken at once."""
        poll = select.poll()
        for fileno in self.server.filenos():
            poll.register(fileno, select.POLLIN)
        return bool(poll.poll(0))

    def ask(self) -> Inquiry:
        inquiry = Inquiry(self.path, {"do": "long"})
        for _ in range(100):
            self.server.work()
            inquiry.work()
        return inquiry

    def close(self) -> None:
        self.server.close()
        for client in self._clients:
            client.close()


@pytest.fixture
def served() -> Iterator[Served]:
    with short_directory() as directory:
        made = Served(directory)
        yield made
        made.close()


def test_a_client_that_does_not_read_costs_one_answer_and_wakes_nobody(served: Served) -> None:
    client = served.client()
    client.sendall(b'{"do": "long"}\n' * COUNT)
    for _ in range(50):
        served.server.work()
    few = served.answered
    assert 1 <= few < 10, "what the kernel takes, and one more"
    assert not served.wakes()
    text = b""
    while text.count(b"\n") < COUNT:  # it reads after all, and gets every answer
        served.server.work()
        while select.select([client], [], [], 0)[0]:
            text += client.recv(1 << 20)
    assert served.answered == COUNT
    assert json.loads(text.splitlines()[-1]) == {"ok": True, "text": LONG}


def test_silent_clients_do_not_keep_others_out(served: Served) -> None:
    for _ in range(CLIENTS_MAX + 10):
        served.client()
        served.server.work()
    assert len(served.server.filenos()) == CLIENTS_MAX + 1
    assert served.ask().answer == {"ok": True, "text": LONG}


def test_a_line_without_end_is_not_kept(served: Served) -> None:
    client = served.client()
    client.setblocking(False)
    sent = 0
    thrown_out = False
    while not thrown_out:
        try:
            sent += client.send(b"x" * 10_000)
        except BlockingIOError:
            served.server.work()
        except BrokenPipeError:
            thrown_out = True
        assert sent < 1 << 20


def test_without_descriptors_the_listener_is_left_alone_for_a_moment(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ns = 10**18
    monkeypatch.setattr(control_server.originals, "monotonic_ns", lambda: now_ns)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    served.client()
    next_number = os.dup(0)
    os.close(next_number)
    resource.setrlimit(resource.RLIMIT_NOFILE, (next_number, hard))
    try:
        assert served.wakes()
        served.server.work()
        assert not served.wakes()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    now_ns += control_server._PAUSE_NS
    assert served.wakes()
    served.server.work()
    assert len(served.server.filenos()) == 2
