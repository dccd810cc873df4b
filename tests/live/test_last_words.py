"""A program that ends right after a reply: its client gets the reply, as it would without replication."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from llft.cli.free_port import free_port
from tests.live.world import short_directory, until, write_settings

PROGRAM = Path(__file__).parent / "programs" / "last_word.py"
PATIENCE_S = 60


@contextmanager
def running(home: Path, replicas: int, port: int, how: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    told = home / "told"
    command = [sys.executable, "-m", "llft.cli.main", "run", "--plain", "-n", str(replicas)]
    command += ["--config", str(write_settings(home)), "--", "python", str(PROGRAM), str(port), how]
    with told.open("wb") as output:
        process = subprocess.Popen(
            command, env={**os.environ, "LLFT_HOME": str(home)}, stdout=output, stderr=output
        )
    try:
        yield process, told
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(PATIENCE_S)


@pytest.mark.parametrize(("replicas", "how"), [(1, "exit"), (3, "exit"), (3, "_exit")])
def test_the_last_reply_of_a_program_arrives(replicas: int, how: str) -> None:
    port = free_port()
    with short_directory() as home, running(home, replicas, port, how) as (process, told):

        def is_complete() -> bool:
            text = told.read_text()
            return "the gateway listens" in text and text.count("is backup") >= replicas - 1

        until("the group is complete", is_complete, PATIENCE_S)
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as client:
            client.sendall(b"hello")
            assert client.recv(100) == b"hello"
            client.sendall(b"quit")
            assert client.recv(100) == b"bye"
            assert client.recv(100) == b"", "the end of the program is the end of its streams"
        assert process.wait(PATIENCE_S) == 0, told.read_text()
