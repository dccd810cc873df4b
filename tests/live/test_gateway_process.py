"""The gateway as a process of its own: control socket, real datagrams, and its end."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest

from llft.journal.reader import read_journal
from llft.runtime.settings import Settings
from tests.live.gateway_world import SERVER_GROUP, RealServer

SETTINGS = Settings()


class Process:
    """A started gateway, and its control socket."""

    def __init__(self, directory: Path, stderr: IO[str] | int = subprocess.PIPE) -> None:
        self.directory = directory
        journal = directory / "journal"
        journal.mkdir()
        specification = {
            "group": "bank",
            "group_id": SERVER_GROUP,
            "gateway": 1,
            "run_directory": str(directory),
            "settings": SETTINGS.to_json(),
            "journal": str(journal),
        }
        self.child = subprocess.Popen(
            [sys.executable, "-m", "llft.cli.gateway_process"],
            env={**os.environ, "LLFT_SPEC": json.dumps(specification)},
            stderr=stderr,
            text=True,
        )
        self._control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        limit = time.monotonic() + 10
        while True:
            try:
                self._control.connect(str(directory / "gateway-1.sock"))
                break
            except (FileNotFoundError, ConnectionRefusedError):
                assert time.monotonic() < limit, "no control socket"
                assert self.child.poll() is None, self.log()
                time.sleep(0.02)
        self._control.settimeout(5)
        self._answers = self._control.makefile("r")

    def ask(self, **question: object) -> dict[str, Any]:
        self._control.sendall(json.dumps(question).encode() + b"\n")
        answer: dict[str, Any] = json.loads(self._answers.readline())
        return answer

    def log(self) -> str:
        """All that it said, once it has ended."""
        assert self.child.stderr is not None
        return self.child.stderr.read()

    def close(self) -> None:
        self._answers.close()
        self._control.close()
        if self.child.poll() is None:
            self.child.kill()
        self.child.wait(10)
        if self.child.stderr is not None:
            self.child.stderr.close()


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Process]:
    started = Process(tmp_path)
    yield started
    started.close()


def test_a_gateway_that_cannot_write_serves_all_the_same(tmp_path: Path) -> None:
    """As on a full disk: neither its number nor its log can be written."""
    (tmp_path / "gateway-1.id").mkdir()
    with open("/dev/full", "w") as full:
        process = Process(tmp_path, stderr=full)
    try:
        assert process.ask(do="status")["ok"]
        socket.create_connection(process.ask(do="listen", host="127.0.0.1", port=0)["listening"]).close()
        assert process.ask(do="stop") == {"ok": True}
        assert process.child.wait(5) == 0
    finally:
        process.close()


def test_status_listen_unlisten_and_stop(process: Process) -> None:
    status = process.ask(do="status")
    assert (status["ok"], status["group"], status["gateway"]) == (True, "bank", 1)
    assert status["pid"] == process.child.pid
    assert int((process.directory / "gateway.id").read_text()) == status["group_id"]
    host, port = process.ask(do="listen", host="127.0.0.1", port=0)["listening"]
    assert process.ask(do="listen", host=host, port=port)["listening"] == [host, port]
    assert process.ask(do="status")["listening"] == [[host, port]]
    socket.create_connection((host, port)).close()
    assert process.ask(do="unlisten", host=host, port=port)["ok"]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, port))
    assert process.ask(do="stop") == {"ok": True}
    assert process.child.wait(5) == 0
    assert not (process.directory / "gateway.id").exists()
    assert not (process.directory / "gateway-1.sock").exists()
    assert "ends: asked to stop" in process.log()


def test_a_port_that_is_taken_is_a_clear_error(process: Process) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        answer = process.ask(do="listen", host="127.0.0.1", port=port)
    assert not answer["ok"]
    assert f"address_in_use (host='127.0.0.1', port={port})" in answer["error"]
    assert "not understood" in process.ask(do="dance")["error"]
    assert "address_missing" in process.ask(do="listen", host="127.0.0.1")["error"]


def test_a_signal_ends_it_cleanly(process: Process) -> None:
    process.child.send_signal(signal.SIGTERM)
    assert process.child.wait(5) == 0
    assert "ends: SIGTERM" in process.log()
    (journal,) = (process.directory / "journal").glob("gateway-1-*.llj")
    assert list(read_journal(journal))


def test_bytes_through_real_datagrams(process: Process) -> None:
    server = RealServer(SETTINGS)
    try:
        host, port = process.ask(do="listen", host="127.0.0.1", port=0)["listening"]
        with socket.create_connection((host, port)) as client:
            client.setblocking(False)
            client.sendall(b"x" * 200_000)
            client.shutdown(socket.SHUT_WR)
            assert server.read(client, 300_000) == b"x" * 200_000
        status = process.ask(do="status")
        assert (status["bytes_in"], status["bytes_out"]) == (200_000, 200_000)
        server.until(lambda: process.ask(do="status")["open"] == 0, "the connection is over")
        assert process.ask(do="status")["ends"] == {"closed": 1}
    finally:
        server.close()


def test_it_ends_with_its_parent(tmp_path: Path) -> None:
    (tmp_path / "journal").mkdir()
    specification = {
        "group": "bank",
        "group_id": SERVER_GROUP,
        "gateway": 1,
        "run_directory": str(tmp_path),
        "settings": SETTINGS.to_json(),
        "journal": str(tmp_path / "journal"),
    }
    parent = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import subprocess, sys, time\n"
            "child = subprocess.Popen([sys.executable, '-m', 'llft.cli.gateway_process'])\n"
            "print(child.pid, flush=True)\n"
            "time.sleep(60)",
        ],
        env={**os.environ, "LLFT_SPEC": json.dumps(specification)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert parent.stdout is not None
    with parent.stdout:
        child = int(parent.stdout.readline())
        limit = time.monotonic() + 10
        while not (tmp_path / "gateway-1.sock").exists():
            assert time.monotonic() < limit
            time.sleep(0.02)
    parent.kill()
    parent.wait(10)
    while _alive(child):
        assert time.monotonic() < limit + 5, "it outlives its parent"
        time.sleep(0.02)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def test_without_a_specification_it_says_so() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "LLFT_SPEC"}
    done = subprocess.run(
        [sys.executable, "-m", "llft.cli.gateway_process"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert done.returncode == 78
    assert "llft run" in done.stderr
