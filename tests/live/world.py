"""A world for live tests: a real `llft run` of the demonstration's server, clients that compute every reply,
and settings that forgive a loaded machine.

Bounds on time are generous here, for other people's work may share the processors; there are none on what
is correct. A killed process is still noticed at once, by its certificate.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from llft.cli import trial
from llft.cli.free_port import free_port
from llft.cli.trial import Trial, TrialOptions

PATIENCE_S = 100.0
TIMEOUTS = """
[timeouts]
primary_timeout_ms = 4000
connect_bound_ms = 20000
backup_timeout_ms = 6000
recovery_bound_ms = 4000
lag_bound_ms = 8000
switch_bound_ms = 2000
"""
"""They forgive a machine that others use, too; a killed process is noticed at once all the same."""
MUST_BE_ZERO = ("lost", "duplicated", "changed", "broken")


@contextmanager
def short_directory() -> Iterator[Path]:
    """Control sockets need short paths; pytest's are long."""
    path = Path(tempfile.mkdtemp(prefix="llft-"))
    try:
        yield path
    finally:
        shutil.rmtree(path)


def write_settings(home: Path, transport: str = "") -> Path:
    """`transport` are the lines of its table, and tables below it."""
    path = home / "llft.toml"
    path.write_text(f"[transport]\nport = {free_port()}\n{transport}\n{TIMEOUTS}")
    return path


@contextmanager
def running(
    monkeypatch: pytest.MonkeyPatch, home: Path, settings: Path, *, clients: int = 4, replicas: int = 3
) -> Iterator[Trial]:
    """The server as a group in this home, under load. What it said is shown if the test fails."""
    monkeypatch.setenv("LLFT_HOME", str(home))
    for name in ("READY_PATIENCE_S", "FAILOVER_PATIENCE_S", "REJOIN_PATIENCE_S", "LOAD_PATIENCE_S"):
        monkeypatch.setattr(trial, name, PATIENCE_S)
    options = TrialOptions(replicas=replicas, clients=clients, pace_ms=5.0, config=settings)
    with Trial(options, print) as started:
        yield started
        print(started.output_tail())


def assert_nothing_went_wrong(counts: dict[str, int]) -> None:
    assert {name: counts[name] for name in MUST_BE_ZERO} == dict.fromkeys(MUST_BE_ZERO, 0), counts
    assert counts["replies"] == counts["requests"] > 0


def until(what: str, holds: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
    """Ask again and again, within a bound."""
    deadline_s = time.monotonic() + patience_s
    while not holds():
        assert time.monotonic() < deadline_s, f"not within {patience_s} s: {what}"
        time.sleep(0.05)


def processes_of(home: Path) -> dict[int, str]:
    """Every process that was started for this home, by its environment: pid and command line."""
    mark = f"LLFT_HOME={home}".encode()
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        try:
            environment = (entry / "environ").read_bytes().split(b"\0")
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue  # it ended meanwhile, or is none of ours
        if mark in environment:
            found[int(entry.name)] = command.strip()
    return found
