"""What `llft bench join` makes of several joins."""

from __future__ import annotations

from typing import Any

import pytest

from llft.cli import bench_join
from llft.cli.bench_join import Join, measure, summary
from llft.cli.group_run import TrialFailure
from llft.cli.trial import TrialOptions

STATUS = {
    "checkpoints": {"state_bytes": 137_000_000, "source": "image"},
    "log_bytes": 2_000_000,
    "log_kept_bytes": 500_000,
}
ZEROS = {"lost": 0, "duplicated": 0, "changed": 0, "broken": 0}


def join(seconds: float, calm_ms: list[float], joining_ms: list[float]) -> Join:
    return Join(seconds, 5.0, calm_ms, joining_ms, 10.0, 9000.0, STATUS)


def test_requests_of_all_joins_count_together() -> None:
    """One slow request of a hundred is p99 of a join with a hundred, and not of two with two hundred."""
    usual, stalled = [2.0] * 100, [2.0] * 98 + [50.0] * 2
    found = summary([join(2.0, usual, [4.0] * 100), join(3.5, usual, stalled)])
    assert found["p99_ratio"] == 2.0
    assert [one["p99_ratio"] for one in found["joins"]] == [2.0, 25.0]
    assert found["join_s"] == 3.5
    assert found["longest_ms"] == {"calm": 2.0, "joining": 50.0}
    assert found["pause_ms"] == 9.0
    assert found["rate"] == 20
    slow = summary([join(2.0, usual, [9.0] * 100), join(2.0, usual, [9.0] * 100)])
    assert slow["p99_ratio"] == 4.5, "what all of them are is not averaged away"


class StandIn:
    """A trial of which the second cannot be begun."""

    begun = 0

    def __init__(self, options: TrialOptions, tell: object) -> None:
        self.options = options

    def __enter__(self) -> StandIn:
        StandIn.begun += 1
        if StandIn.begun == 2:
            raise TrialFailure("primary-died-by-itself", "see its log")
        return self

    def __exit__(self, *error: object) -> None: ...
    def forget(self) -> None: ...

    def stop(self) -> dict[str, Any]:
        return {"requests": 700, **ZEROS}


def test_the_first_that_fails_is_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_join, "Trial", StandIn)
    monkeypatch.setattr(
        bench_join, "_join", lambda trial, calm_s, joins: joins.append(join(2.0, [1.0], [1.5]))
    )
    found = measure(TrialOptions(), print, calm_s=5.0, count=3)
    assert StandIn.begun == 2
    assert not found["passed"]
    assert "primary-died-by-itself" in found["failure"]
    assert (found["requests"], len(found["joins"])) == (700, 1)
