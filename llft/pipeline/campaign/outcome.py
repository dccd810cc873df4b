"""What one seed comes to, and the row that is kept of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from llft.journal.record import Called, Record

WORLD_BITS = 40
"""A world is a cell and a seed: the cell's number above, the seed below."""

CRASH = "crash"


class Cell(NamedTuple):
    """One kind of runs: everything but the seed."""

    profile: str
    replicas: int | None = None
    """None: drawn from the seed."""
    plant: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    seed: int
    violations: Sequence[tuple[str, str]] = ()
    """What the simulator's own checkers found: property and explanation."""
    in_journals: Sequence[str] = ()
    """The properties of those violations that the same checkers find in the journals alone, as the audit
    must."""
    operations: int = 0
    acknowledged: int = 0
    """Requests to which a client has the reply."""
    lost_acknowledged: int = 0
    """Of those, the ones that the surviving branch of the server does not have."""
    primary_failures: int = 0
    failovers_ns: Sequence[int] = ()
    """From the death of a primary to the next one's first act."""
    losses: dict[str, int] = field(default_factory=dict)
    replicas: int = 0
    output_commit: int = 0
    pruned: bool = False
    """Something was lost that a client may have seen."""
    trace_hash: str = ""
    simulated_ns: int = 0
    records: Sequence[Record] = ()
    calls: Sequence[Called] = ()


RunSeed = Callable[[int, Cell], Outcome]


def world_of(cell: int, seed: int) -> int:
    return cell << WORLD_BITS | seed


def row_of(outcome: Outcome, *, cell: int, kind: Cell, cpu_s: float) -> dict[str, Any]:
    """A row of `columns.OUTCOME_SCHEMA`: everything but the records themselves."""
    return {
        "world": world_of(cell, outcome.seed),
        "cell": cell,
        "seed": outcome.seed,
        "profile": kind.profile,
        "replicas": outcome.replicas,
        "output_commit": outcome.output_commit,
        "operations": outcome.operations,
        "acknowledged": outcome.acknowledged,
        "lost_acknowledged": outcome.lost_acknowledged,
        "primary_failures": outcome.primary_failures,
        "failovers_ns": list(outcome.failovers_ns),
        "violations": [{"property": name, "explanation": text} for name, text in outcome.violations],
        "in_journals": sorted(set(outcome.in_journals)),
        "losses": json.dumps(dict(sorted(outcome.losses.items()))),
        "pruned": outcome.pruned,
        "trace_hash": outcome.trace_hash,
        "simulated_ns": outcome.simulated_ns,
        "records": len(outcome.records) + len(outcome.calls),
        "cpu_s": cpu_s,
    }
