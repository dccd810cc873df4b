"""A trial rests while somebody joins, and goes on when its time has come."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from llft import originals
from llft.past.source import Captured
from llft.runtime.state.scratch import ScratchProcess

FOR_LONG_NS = 1 << 60


def test_a_trial_that_is_held_stops_until_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spawned: list[int] = []
    spawn = originals.posix_spawn

    def noted(*words: object, **options: object) -> int:
        spawned.append(spawn(*words, **options))  # type: ignore[arg-type]
        return spawned[-1]

    monkeypatch.setattr(originals, "posix_spawn", noted)
    captured = Captured(str(tmp_path / "state"), 0, 0, 0)
    trial = ScratchProcess(str(tmp_path / "scratch"), ["/bin/sleep", "60"], {}, "image", captured, (b"", b""))
    try:
        (pid,) = spawned
        assert os.getsid(pid) == pid, "its session steps back, and nobody else's"
        trial.hold(FOR_LONG_NS)
        assert os.WIFSTOPPED(os.waitpid(pid, os.WUNTRACED)[1])
        assert trial.verdict() is None
        assert Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
        monkeypatch.setattr(originals, "monotonic_ns", lambda: 2 * FOR_LONG_NS)
        assert trial.verdict() is None
        assert os.WIFCONTINUED(os.waitpid(pid, os.WCONTINUED)[1])
    finally:
        trial.end()
    assert list(tmp_path.iterdir()) == []
