"""The port for Prometheus, and questions to control sockets that answer badly or not at all."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path

import pytest

from llft.errors import MisuseError, PeerError
from llft.runtime.control_client import ask, ask_all
from llft.runtime.supervisor.metrics import MetricsServer


@pytest.fixture
def answering(tmp_path: Path) -> Path:
    """A control socket's path; each test listens on it as badly as it likes."""
    return tmp_path / "x.sock"


def listen(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    listener.listen()
    return listener


def answer_with(listener: socket.socket, data: bytes) -> threading.Thread:
    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(1000)
            connection.sendall(data)

    thread = threading.Thread(target=serve)
    thread.start()
    return thread


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b'{"ok": false, "error": "not now"}\n', "not now"),
        (b"nonsense\n", "no JSON"),
        (b"[1]\n", "refuses"),
        (b'{"ok": true', "closed without an answer"),
    ],
)
def test_a_bad_answer_is_an_error_that_says_why(answering: Path, data: bytes, complaint: str) -> None:
    with listen(answering) as listener:
        thread = answer_with(listener, data)
        with pytest.raises(PeerError, match=complaint):
            ask(answering, {"do": "status"})
        thread.join()


def test_one_that_is_silent_does_not_delay_the_others(tmp_path: Path) -> None:
    silent, good, absent = (tmp_path / f"{name}.sock" for name in ("silent", "good", "absent"))
    with listen(silent), listen(good) as listener:
        thread = answer_with(listener, b'{"ok": true, "n": 5}\n')
        started_s = time.monotonic()
        questions = {path.stem: (path, {"do": "status"}) for path in (silent, good, absent)}
        found = ask_all(questions, timeout_s=0.3)
        thread.join()
    assert time.monotonic() - started_s < 2
    assert found["good"].answer == {"ok": True, "n": 5}
    assert "did not answer" in found["silent"].error
    assert "nobody answers" in found["absent"].error
    assert all(inquiry.fileno() == -1 for inquiry in found.values())


def test_a_scrape() -> None:
    server = MetricsServer(0, lambda: "llft_replica_lag 1\n")
    port = socket.fromfd(server.filenos()[0], socket.AF_INET, socket.SOCK_STREAM)
    with port, socket.create_connection(port.getsockname(), timeout=5) as client:
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n")
        server.work()
        client.sendall(b"\r\n")
        deadline_s = time.monotonic() + 5
        while len(server.filenos()) > 1 and time.monotonic() < deadline_s:
            server.work()
        text = client.makefile().read()
    assert text.startswith("HTTP/1.0 200 OK")
    assert text.endswith("\n\nllft_replica_lag 1\n")
    server.close()


def test_a_port_that_is_taken() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(MisuseError, match="metrics-port-unusable"),
    ):
        MetricsServer(taken.getsockname()[1], str)
