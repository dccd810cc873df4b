"""Whatever ends a run, or a process of it: nothing is left running, listening or lying about."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from llft.cli import demo_server
from llft.cli.survey import Group, all_joined, require_primary, survey
from llft.cli.trial import free_port
from llft.errors import PeerError
from llft.runtime.supervisor.run_directory import RunDirectory
from llft.runtime.supervisor.slot import ending_with
from tests.live.evidence import assert_journals_hold
from tests.live.world import processes_of, short_directory, until, write_settings

REPLICAS = 2
GROUP = "bank"
LEFT = {"journal", "lib", "gateway-1.log", *(f"replica-{number}.log" for number in range(1, REPLICAS + 1))}
"""Of a run that ended in order: journals, logs, and the library that its processes used."""
STALE = {
    *("life", "supervisor.pid", "supervisor.sock", "gateway-1.sock", "gateway-1.id", "gateway.id"),
    *(f"replica-{number}.{what}" for number in range(1, REPLICAS + 1) for what in ("sock", "tmp")),
}
"""What a supervisor that was killed cannot remove; the next run does."""


class Run:
    def __init__(self, home: Path, settings: Path) -> None:
        self.home = home
        self.directory = RunDirectory(home / GROUP)
        self.port = free_port()
        command = [sys.executable, "-m", "llft.cli.main", "run", "--plain", "--group", GROUP]
        command += ["--replicas", str(REPLICAS), "--config", str(settings)]
        command += ["--", sys.executable, demo_server.__file__, "--port", str(self.port)]
        self.process = subprocess.Popen(
            command,
            env={**os.environ, "LLFT_HOME": str(home)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=ending_with(os.getpid(), signal.SIGTERM),
        )
        until("all have joined", self.is_whole)

    def group(self) -> Group | None:
        try:
            return survey(self.directory, timeout_s=1.0)
        except PeerError:
            return None

    def is_whole(self) -> bool:
        assert self.process.poll() is None, "the run ended by itself"
        group = self.group()
        return (
            group is not None and all_joined(group, REPLICAS) and bool(group["listening"]) and self.answers()
        )

    def answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=20) as connection:
                connection.sendall(b"TOTAL\n")
                return connection.makefile().readline().startswith("TOTAL")
        except OSError:
            return False

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(timeout=30)


@contextmanager
def started() -> Iterator[Run]:
    with short_directory() as home:
        run = Run(home, write_settings(home))
        try:
            yield run
        finally:
            run.end()
            assert_nobody_is_left(run)


def assert_nobody_is_left(run: Run) -> None:
    until("all its processes have ended", lambda: not processes_of(run.home), patience_s=15)
    # A killed process with threads has no name any more while the last of them lets go of its sockets.
    until("nobody listens", lambda: _is_free(run.port), patience_s=5)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def left_in(run: Run) -> set[str]:
    """Lifelines are of one life each: their names, without which one."""
    names = (path.name for path in run.directory.path.iterdir())
    return {"life" if name.startswith("life-") else name for name in names}


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_run_that_is_told_to_end_leaves_journals_and_logs(number: int, status: int) -> None:
    with started() as run:
        run.process.send_signal(number)
        assert run.process.wait(timeout=30) == status
        assert_nobody_is_left(run)
        assert left_in(run) == LEFT
        assert_journals_hold(run.directory.path)


def test_a_supervisor_that_is_killed_takes_all_with_it() -> None:
    with started() as run:
        run.process.kill()
        run.process.wait(timeout=30)
        assert_nobody_is_left(run)
        assert left_in(run) <= LEFT | STALE
        assert_journals_hold(run.directory.path)
        again = Run(run.home, run.home / "llft.toml")
        again.end()
        assert_nobody_is_left(again)
        assert left_in(again) == LEFT | {"previous"}


@pytest.mark.parametrize("victim", ["gateway", "primary"])
def test_a_process_that_is_killed_is_replaced_and_leaves_nothing(victim: str) -> None:
    with started() as run:
        group = run.group()
        assert group is not None
        pid = group["gateways"][0]["pid"] if victim == "gateway" else require_primary(group)["pid"]
        count = len(processes_of(run.home))
        sockets = left_in(run)
        with socket.create_connection(("127.0.0.1", run.port), timeout=20) as client:
            client.sendall(b"TOTAL\n")
            assert client.recv(100).startswith(b"TOTAL")
            os.kill(pid, signal.SIGKILL)
            until("it is gone", lambda: pid not in processes_of(run.home))
            if victim == "gateway":
                with pytest.raises(ConnectionResetError):  # and not the end of the stream
                    client.recv(100)
            else:
                client.sendall(b"TOTAL\n")
                assert client.recv(100).startswith(b"TOTAL")
        until("all is as before", run.is_whole)
        until("there are as many processes", lambda: len(processes_of(run.home)) == count)
        assert left_in(run) == sockets
        run.process.send_signal(signal.SIGINT)
        assert run.process.wait(timeout=30) == 130
        assert left_in(run) == LEFT
        assert_journals_hold(run.directory.path)
