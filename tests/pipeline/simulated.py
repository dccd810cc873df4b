"""Runs of the simulator, some with planted bugs, and what its checkers say about them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from llft.simulator.checkers import check_named
from llft.simulator.from_journals import LEFT_OUT
from llft.simulator.options import SimulationOptions
from llft.simulator.plants import PLANTS
from llft.simulator.runner import Simulation, planted_or_not, write_journals

BUGS = (
    "forget-mutex-entry",
    "gap-ignored",
    "random-not-ordered",
    "no-precedence-exclusion",
    "clock-not-monotone",
    "stale-checkpoint",
    "duplicate-delivery",
)
RUNS: tuple[tuple[str, str | None, int], ...] = (
    ("default", None, 0),
    ("default", None, 1),
    ("default", None, 272),  # a connection to a pruned branch, closed before anybody could tell
    ("partition", None, 0),
    ("churn", None, 3),
    ("double-crash", None, 2),
    *((PLANTS[name].profile, name, PLANTS[name].seed) for name in BUGS),
)


def simulate(profile: str, plant: str | None, seed: int, directory: Path) -> set[str]:
    """Writes the journals; returns the properties that the checkers say are violated."""
    with planted_or_not(plant):
        simulation = Simulation(seed, SimulationOptions(profile=profile, plant=plant))
        simulation.run()
    evidence = simulation.evidence()
    # Nobody tells an audit that a bug was planted; the checkers excuse what it made replicas find themselves.
    evidence = replace(evidence, quiesced=False, options=replace(evidence.options, plant=None))
    write_journals(directory, evidence)
    return {violation.property for violation in check_named(evidence, leave_out=LEFT_OUT)}
