"""The native pulse: a replica whose interpreter is held is not taken for dead, unless it is held for long."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from llft.errors import PeerError
from llft.instant import MS
from llft.runtime.control_client import ask
from llft.runtime.replica_process import SPECIFICATION
from llft.runtime.settings import LIVE_TIMEOUTS, Settings, group_id_of
from tests.live.native import needs_native

ROOT = Path(__file__).resolve().parents[2]
TIMEOUTS = replace(LIVE_TIMEOUTS, primary_timeout_ns=150 * MS, backup_timeout_ns=150 * MS)
"""More patient than usual, because the machine that runs tests is busy; the lock is held for longer still."""
NO_PULSE_NS = 1000
READY_WITHIN_S = 40.0

pytestmark = needs_native


class Pair:
    """Replicas 1 (the first primary) and 2 of a group of their own."""

    def __init__(self, directory: Path, *, held: int, hold_ms: int, pulse_bound_ns: int) -> None:
        self.directory = directory
        (directory / "journal").mkdir()
        self._settings = Settings(timeouts=replace(TIMEOUTS, pulse_bound_ns=pulse_bound_ns))
        self._hold = (held, hold_ms)
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        self._start(1, alone=True)
        self.wait_until(lambda: self.status(1).get("role") == "primary")
        self._start(2, alone=False)
        self.wait_until(lambda: bool(self.status(2).get("has_state")) and len(self.status(1)["members"]) == 2)

    def _start(self, number: int, *, alone: bool) -> None:
        group = f"pulse-{os.getpid()}-{self.directory.name}"
        specification = {
            "group": group,
            "group_id": group_id_of(group),
            "replica": number,
            "program": ["pulse_member"],
            "run_directory": str(self.directory),
            "settings": self._settings.to_json(),
            "endpoints": {},
            "alone": alone,
            "may_found": alone,
            "hold": self._hold,
        }
        environment = {**os.environ, SPECIFICATION: json.dumps(specification), "PYTHONHASHSEED": "0"}
        command = [sys.executable, "-m", "tests.live.pulse_member"]
        with open(self.directory / f"{number}.log", "ab") as log:
            self._processes.append(subprocess.Popen(command, cwd=ROOT, env=environment, stderr=log))

    def status(self, number: int) -> dict[str, Any]:
        try:
            return dict(ask(self.directory / f"replica-{number}.sock", {"do": "status"}, timeout_s=1.0))
        except PeerError:
            return {}

    def log(self, number: int) -> str:
        path = self.directory / f"{number}.log"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def hold(self) -> None:
        (self.directory / "hold").touch()

    def wait_until(self, condition: Callable[[], bool], *, seconds: float = READY_WITHIN_S) -> None:
        until = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > until:
                pytest.fail(f"not within {seconds} s:\n{self.log(1)}\n{self.log(2)}")
            time.sleep(0.05)

    def end(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()


Paired = Callable[..., Pair]


@pytest.fixture
def paired(tmp_path: Path) -> Iterator[Paired]:
    pairs: list[Pair] = []

    def make(**options: Any) -> Pair:
        pair = Pair(tmp_path, **options)
        pairs.append(pair)
        pair.start()
        return pair

    yield make
    for pair in pairs:
        pair.end()


HELD = {"primary": (1, 2), "backup": (2, 1)}
"""By role: the replica that is held, and the other one, which judges it."""


def suspicions(pair: Pair, number: int) -> int:
    return int(pair.log(number).count("suspects"))


@pytest.mark.parametrize("role", ["primary", "backup"])
def test_a_held_interpreter_is_not_taken_for_a_dead_process(paired: Paired, role: str) -> None:
    held, other = HELD[role]
    pair = paired(held=held, hold_ms=500, pulse_bound_ns=1000 * MS)
    before = pair.status(held)
    pair.hold()
    pair.wait_until(lambda: "gives the lock back" in pair.log(held))
    pair.wait_until(lambda: pair.status(held).get("performed", 0) > before["performed"] + 10)
    after = pair.status(held)
    assert after["birth"] == before["birth"]
    assert after["role"] == role
    assert after["pulse"]["sent"] >= before["pulse"]["sent"] + 10
    assert suspicions(pair, other) == 0
    assert len(pair.status(other)["members"]) == 2


@pytest.mark.parametrize("role", ["primary", "backup"])
def test_without_the_pulse_it_is(paired: Paired, role: str) -> None:
    """On its own host it is seen to live, and given four timeouts (D-73); it is held for longer still."""
    held, other = HELD[role]
    pair = paired(held=held, hold_ms=1500, pulse_bound_ns=NO_PULSE_NS)
    before = pair.status(held)
    assert before["pulse"] == {"native": 0}
    assert "no native pulse" in pair.log(held)
    pair.hold()
    pair.wait_until(lambda: suspicions(pair, other) > 0)
    pair.wait_until(lambda: pair.status(held).get("birth", before["birth"]) != before["birth"])


def test_who_is_held_for_longer_than_the_bound_is_replaced(paired: Paired) -> None:
    pair = paired(held=1, hold_ms=3000, pulse_bound_ns=1000 * MS)
    before = pair.status(1)
    pair.hold()
    pair.wait_until(lambda: "holds the lock" in pair.log(1))
    began = time.monotonic()
    pair.wait_until(lambda: pair.status(2).get("role") == "primary")
    assert time.monotonic() - began > 0.8, "the pulse has bridged the beginning"
    assert "gives the lock back" not in pair.log(1)
    pair.wait_until(lambda: pair.status(1).get("birth", before["birth"]) != before["birth"])
    pair.wait_until(lambda: pair.status(1).get("role") == "backup" and bool(pair.status(1)["has_state"]))
