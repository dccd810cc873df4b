"""The audit and the simulator's checkers are two judges of the same runs, and must agree, seed by seed.

The checkers see more than a journal has: who is alive at the end, and that all came to rest. They are asked
here what a journal can answer. More seeds: `llft campaign`, which compares both for every seed that it runs.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from llft.pipeline.audit.checks import findings, judging
from llft.pipeline.audit.findings import VIOLATION
from llft.pipeline.ingest import decode_plans, journal_files, split
from llft.pipeline.segments import Plan, plan
from llft.simulator.checkers import check_named
from llft.simulator.from_journals import LEFT_OUT
from llft.simulator.options import SimulationOptions
from llft.simulator.runner import Simulation, planted_or_not, write_journals

RUNS = (
    ("default", None, 0),
    ("default", None, 1),
    ("partition", None, 0),
    ("churn", None, 3),
    ("double-crash", None, 2),
    ("crash", "forget-mutex-entry", 0),
    ("default", "gap-ignored", 0),
    ("default", "random-not-ordered", 0),
    ("default", "no-precedence-exclusion", 0),
    ("clock", "clock-not-monotone", 0),
    ("crash", "stale-checkpoint", 1),
    ("crash", "duplicate-delivery", 1),
)
ONLY_THE_AUDITS = {"watermark", "gap"}
"""Properties that the simulator has no checker for."""

Verdicts = list[set[str]]


def simulate(profile: str, plant: str | None, seed: int, directory: Path) -> set[str]:
    """Writes the journals; returns the properties that the checkers say are violated."""
    with planted_or_not(plant):
        simulation = Simulation(seed, SimulationOptions(profile=profile, plant=plant))
        simulation.run()
    evidence = replace(simulation.evidence(), quiesced=False)
    write_journals(directory, evidence)
    return {violation.property for violation in check_named(evidence, leave_out=LEFT_OUT)}


@pytest.fixture(scope="module")
def verdicts(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Verdicts, Verdicts]:
    root = tmp_path_factory.mktemp("runs")
    plans: list[Plan] = []
    checkers: Verdicts = []
    for world, run in enumerate(RUNS):
        checkers.append(simulate(*run, root / str(world)))
        plans += plan(journal_files([root / str(world)]), world)
    decoded = decode_plans(spark, plans).persist()
    got = split(decoded)
    found: dict[int, set[str]] = defaultdict(set)
    with judging(got.records, got.quarantined) as case:
        for one in findings(case).filter(f"severity = '{VIOLATION}'").collect():
            found[one["world"]].add(one["condition"])
    decoded.unpersist()
    return checkers, [found[world] - ONLY_THE_AUDITS for world in range(len(RUNS))]


@pytest.mark.parametrize("world", range(len(RUNS)), ids=[f"{run[1] or run[0]}-{run[2]}" for run in RUNS])
def test_audit_and_checkers_agree(world: int, verdicts: tuple[Verdicts, Verdicts]) -> None:
    checkers, audit = verdicts
    assert audit[world] == checkers[world]


def test_some_runs_were_bad(verdicts: tuple[Verdicts, Verdicts]) -> None:
    checkers, _ = verdicts
    assert sum(bool(one) for one in checkers) >= 4
    assert not any(one for one, run in zip(checkers, RUNS, strict=True) if run[1] is None)
