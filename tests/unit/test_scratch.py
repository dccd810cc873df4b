"""A trial rests while somebody joins, and goes on when its time has come."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from llft import originals
from llft.instant import SECOND
from llft.past.source import Captured
from llft.runtime import priority
from llft.runtime.priority import BACK, FURTHER, PATIENCE_NS
from llft.runtime.state.scratch import FIRST_TO_GO, ScratchProcess

A_MINUTE_NS = 60 * SECOND
FOR_LONG_NS = 1 << 60


@dataclass
class Trial:
    process: ScratchProcess
    pid: int
    now_ns: int
    places: list[tuple[int, int]]
    """Where its session was put."""

    def pass_time(self, ns: int) -> None:
        self.now_ns += ns
        assert self.process.verdict() is None

    def settle(self) -> None:
        """As a trial does when it has asked to end with its replica."""
        Path(f"/proc/{self.pid}/oom_score_adj").write_text(FIRST_TO_GO)

    @property
    def is_stopped(self) -> bool:
        for _ in range(200):  # a signal takes a moment
            state = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0]
            if state in "ST":
                return state == "T"
            time.sleep(0.005)
        raise AssertionError("it neither sleeps nor is stopped")


@pytest.fixture
def trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Trial]:
    spawned: list[int] = []
    spawn = originals.posix_spawn

    def noted(*words: object, **options: object) -> int:
        spawned.append(spawn(*words, **options))  # type: ignore[arg-type]
        return spawned[-1]

    monkeypatch.setattr(originals, "posix_spawn", noted)
    places: list[tuple[int, int]] = []
    monkeypatch.setattr(priority, "_set", lambda pid, nice: places.append((pid, nice)))
    captured = Captured(str(tmp_path / "state"), 0, 0, 0)
    process = ScratchProcess(
        str(tmp_path / "scratch"), ["/bin/sleep", "60"], {}, "image", captured, (b"", b"")
    )
    found = Trial(process, spawned[0], originals.monotonic_ns(), places)
    monkeypatch.setattr(originals, "monotonic_ns", lambda: found.now_ns)
    yield found
    process.end()
    assert list(tmp_path.iterdir()) == []


def test_its_session_steps_back_and_nobody_elses(trial: Trial) -> None:
    assert os.getsid(trial.pid) == trial.pid
    assert trial.places == [(trial.pid, FURTHER)]
    trial.pass_time(PATIENCE_NS)
    trial.pass_time(PATIENCE_NS)
    assert trial.places == [(trial.pid, FURTHER), (trial.pid, BACK)]


def test_one_that_is_held_stops_until_its_time(trial: Trial) -> None:
    trial.settle()
    trial.process.hold(trial.now_ns + 1000)
    assert trial.is_stopped
    trial.pass_time(999)
    assert trial.is_stopped
    trial.pass_time(1)
    assert not trial.is_stopped


def test_one_stops_only_when_it_would_end_with_us(trial: Trial) -> None:
    """However long that takes: where others use the processors it may not have begun after a minute. Stopped
    before, it would stay for ever if its replica were killed."""
    trial.process.hold(trial.now_ns + 3 * A_MINUTE_NS)
    assert not trial.is_stopped
    trial.pass_time(A_MINUTE_NS)
    assert not trial.is_stopped
    trial.settle()
    trial.pass_time(A_MINUTE_NS)
    assert trial.is_stopped
    trial.pass_time(A_MINUTE_NS)
    assert not trial.is_stopped


def test_it_is_held_once(trial: Trial) -> None:
    trial.settle()
    trial.process.hold(trial.now_ns + 1000)
    trial.process.hold(trial.now_ns + FOR_LONG_NS)
    trial.pass_time(1000)
    assert not trial.is_stopped
    trial.process.hold(trial.now_ns + FOR_LONG_NS)
    assert not trial.is_stopped
