"""The compiled lane does what the reference lane does: the same seeds, the same traces, event by event."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import Any

import pytest

from llft.lane import build, choice

WORLDS = (
    ("--profile", "default"),
    ("--profile", "loss"),
    ("--profile", "partition"),
    ("--profile", "corruption"),
    ("--profile", "restart"),
    ("--profile", "join-storm"),
    ("--profile", "churn", "--threads", "ordered"),
    ("--profile", "crash", "--replication", "semi-passive"),
    ("--profile", "double-crash", "--topology", "three-tier"),
    ("--profile", "pause", "--topology", "replicated-clients"),
)
SEEDS = "0:5"


def simulated(lane: str, world: tuple[str, ...]) -> dict[str, Any]:
    command = [sys.executable, "-m", "llft.cli.main", "simulate", "--seeds", SEEDS, "--jobs", "1", "--json"]
    done = subprocess.run(
        [*command, *world],
        env={**os.environ, choice.VARIABLE: lane},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def test_there_is_a_compiled_lane_of_these_sources() -> None:
    """Everything that follows, and every live test, would pass without it."""
    assert any(shutil.which(name) for name in build.COMPILERS), (
        "as root: apt-get install gcc; then make setup"
    )
    assert choice.why_not() == "", choice.REMEDY


@pytest.mark.parametrize("world", WORLDS, ids=" ".join)
def test_both_lanes_do_the_same(world: tuple[str, ...]) -> None:
    compiled, reference = (simulated(lane, world) for lane in ("compiled", "reference"))
    assert compiled["violations"] == 0
    assert compiled["trace_hash"] == reference["trace_hash"]
    assert compiled["operations"] == reference["operations"] > 0
