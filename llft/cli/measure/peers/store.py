"""What the workload asks of a replicated store, whichever it is."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from llft.cli.children import end, ending_with_us
from llft.cli.group_run import TrialFailure

READY_PATIENCE_S = 30.0
ANSWER_PATIENCE_S = 0.5
"""A client that hears nothing for so long takes its connection for broken."""
PAUSE_S = 0.02


class Session(Protocol):
    """One client's connection. OSError: it is broken, and the request may have been done or not."""

    def set(self, key: str, value: str) -> None: ...

    def get(self, key: str) -> str: ...

    def close(self) -> None: ...


class Cluster(Protocol):
    """Three nodes that run. OSError of `connect`: there is no primary just now."""

    def connect(self) -> Session: ...

    def kill_primary(self) -> None: ...


class LineSession:
    """Speaks with `kv_server` and its like."""

    def __init__(self, port: int, *, timeout_s: float = ANSWER_PATIENCE_S) -> None:
        self._connection = socket.create_connection(("127.0.0.1", port), timeout=timeout_s)
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self._connection.makefile("rb")

    def ask(self, line: str) -> str:
        self._connection.sendall(f"{line}\n".encode())
        reply = self._file.readline()
        if not reply:
            raise ConnectionResetError("the server closed the connection")
        return reply.decode().strip()

    def set(self, key: str, value: str) -> None:
        if (reply := self.ask(f"SET {key} {value}")) != "OK":
            raise ConnectionAbortedError(reply)

    def get(self, key: str) -> str:
        return self.ask(f"GET {key}")

    def close(self) -> None:
        self._file.close()
        self._connection.close()


class Nodes:
    """Processes of a cluster; they end with it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            command,
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=ending_with_us(signal.SIGKILL),
        )
        self._processes.append(process)
        return process

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        os.kill(process.pid, signal.SIGKILL)

    def end(self) -> None:
        for process in self._processes:
            process.kill()
            end(process)


@contextmanager
def nodes_in(directory: Path) -> Iterator[Nodes]:
    nodes = Nodes(directory)
    try:
        yield nodes
    finally:
        nodes.end()


def until(what: str, holds: Callable[[], bool]) -> None:
    """Asked again and again; an OSError is a no."""
    deadline_s = time.monotonic() + READY_PATIENCE_S
    while time.monotonic() < deadline_s:
        try:
            if holds():
                return
        except OSError:
            pass  # it is not there yet
        time.sleep(PAUSE_S)
    raise TrialFailure(f"did-not-{what}", "the store is not what it should be", seconds=READY_PATIENCE_S)
