"""Fixed seeds through the real core: every profile in the model, and every way of making groups.

What is drawn from a seed is left to campaigns; here each choice is forced once with the others varied, so
that a broken combination shows in a minute. And a seed is a seed: the same run, always, everywhere.
"""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

from llft.config import Replication, ThreadMode
from llft.core.determinizer.engine import Engine
from llft.core.messaging.subset import Subset
from llft.core.messaging.touched import Touched
from llft.simulator.profiles import PROFILES, TOPOLOGIES
from llft.simulator.runner import SeedResult, SimulationOptions, run_seed
from tests.simulation.regressions import REGRESSIONS, Regression

ROOT = Path(__file__).parents[2]
IN_MODEL = [name for name, profile in PROFILES.items() if profile.in_model]
OUTSIDE = [name for name, profile in PROFILES.items() if not profile.in_model]
KINDS = list(product([kind.value for kind in Replication], [mode.value for mode in ThreadMode]))
TOPOLOGY_NAMES = list(TOPOLOGIES)

Combination = tuple[str, str, str, str, int]


@pytest.fixture(autouse=True)
def audited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every core compares whom it wakes with what trying all parked threads would give, and which
    connections it looks at with the whole table."""
    monkeypatch.setattr(Engine, "audited", True)
    monkeypatch.setattr(Subset, "audited", True)


@pytest.mark.parametrize("threads", [mode.value for mode in ThreadMode])
def test_the_audit_notices_who_is_left_waiting(threads: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Touched, "note", lambda self, fd: None)
    assert any("left_waiting" in text for text in explain(run_seed(1, SimulationOptions(threads=threads))))


def combinations() -> list[Combination]:
    """Each profile with each replication and thread mode; topologies and seeds take turns, so that each
    topology meets each of them as well."""
    found = []
    for row, profile in enumerate(IN_MODEL):
        for column, (replication, threads) in enumerate(KINDS):
            topology = TOPOLOGY_NAMES[(row + column) % len(TOPOLOGY_NAMES)]
            found.append((profile, topology, replication, threads, 100 * row + column))
    return found


def explain(result: SeedResult) -> list[str]:
    return [f"{violation.property}: {violation.explanation}" for violation in result.violations[:5]]


@pytest.mark.parametrize(("profile", "topology", "replication", "threads", "seed"), combinations())
def test_every_profile_holds_with_every_kind_of_group(
    profile: str, topology: str, replication: str, threads: str, seed: int
) -> None:
    options = SimulationOptions(profile=profile, topology=topology, replication=replication, threads=threads)
    result = run_seed(seed, options)
    assert explain(result) == []
    assert result.operations > 0


@pytest.mark.parametrize("replicas", range(1, 6))
def test_every_number_of_replicas(replicas: int) -> None:
    assert explain(run_seed(replicas, SimulationOptions(replicas=replicas))) == []


@pytest.mark.parametrize("profile", OUTSIDE)
def test_outside_the_model_losses_are_reported_and_nothing_else_breaks(profile: str) -> None:
    """But for buffers: what is kept for a client that died for ever is kept until the idle bound."""
    result = run_seed(1, SimulationOptions(profile=profile))
    assert [one for one in explain(result) if not one.startswith("buffers:")] == []


@pytest.mark.parametrize("regression", REGRESSIONS, ids=lambda one: f"{one.profile}-{one.seed}")
def test_what_was_found_once_is_not_found_again(regression: Regression) -> None:
    options = SimulationOptions(profile=regression.profile, **regression.options)
    assert explain(run_seed(regression.seed, options)) == [], regression.found


def test_same_seed_same_run_other_seed_other_run() -> None:
    first, again, other = (run_seed(seed, SimulationOptions()) for seed in (11, 11, 12))
    assert first == again
    assert first.trace_hash != other.trace_hash


@pytest.mark.parametrize("hash_seed", ["0", "4711"])
def test_the_run_does_not_depend_on_the_interpreters_hash_seed(hash_seed: str) -> None:
    program = "from llft.simulator.runner import *\nprint(run_seed(11, SimulationOptions()).trace_hash)"
    finished = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    assert finished.stdout.strip() == run_seed(11, SimulationOptions()).trace_hash


def test_tracing_changes_nothing() -> None:
    silent, traced = (run_seed(13, SimulationOptions(trace=trace)) for trace in (False, True))
    assert silent.trace_hash == traced.trace_hash
    assert traced.trace
    assert not silent.trace
