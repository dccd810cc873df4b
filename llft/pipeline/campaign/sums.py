"""A campaign's totals, and those of each kind of runs: outcomes added up line by line.

The driver does it without Spark: a line takes it some microseconds, where the seed took a tenth of a
second of a processor, and Spark's SQL takes seconds to begin with, however few lines there are.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from llft.pipeline.audit.findings import VIOLATION
from llft.pipeline.campaign.plan import Campaign, Directory

SHARES = (0.5, 0.9, 0.99, 1.0)
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Kind:
    """Runs of one profile, so many replicas, one level of output commit."""

    profile: str
    replicas: int
    output_commit: int
    seeds: int
    primary_failures: int
    failovers: int
    failover_ms: tuple[float, ...]
    """Nearest ranks of `SHARES`."""
    acknowledged: int
    lost: int

    @property
    def loss(self) -> float:
        return self.lost / self.acknowledged if self.acknowledged else 0.0

    @property
    def loss_bound(self) -> float:
        return upper_bound(self.lost, self.acknowledged)


@dataclass(slots=True)
class _OfKind:
    seeds: int = 0
    primary_failures: int = 0
    acknowledged: int = 0
    lost: int = 0
    failovers_ns: list[int] = field(default_factory=list)

    def add(self, row: dict[str, Any]) -> None:
        self.seeds += 1
        self.primary_failures += row["primary_failures"]
        self.acknowledged += row["acknowledged"]
        self.lost += row["lost_acknowledged"]
        self.failovers_ns += row["failovers_ns"]

    def named(self, profile: str, replicas: int, output_commit: int) -> Kind:
        times = sorted(self.failovers_ns)
        ranks = [times[max(1, math.ceil(len(times) * share)) - 1] for share in SHARES] if times else []
        return Kind(
            profile=profile,
            replicas=replicas,
            output_commit=output_commit,
            seeds=self.seeds,
            primary_failures=self.primary_failures,
            failovers=len(times),
            failover_ms=tuple(rank / 1e6 for rank in ranks),
            acknowledged=self.acknowledged,
            lost=self.lost,
        )


@dataclass(slots=True)
class Sums:
    seeds: int = 0
    operations: int = 0
    primary_failures: int = 0
    simulated_ns: int = 0
    cpu_s: float = 0.0
    trace: int = 0
    accused: int = 0
    """Seeds of which the checkers or the audit found, in the worker, that something is violated."""
    _kinds: dict[tuple[str, int, int], _OfKind] = field(default_factory=dict)

    def add(self, row: dict[str, Any]) -> None:
        """A line of outcomes (`outcome.row_of`), with its findings."""
        self.seeds += 1
        self.operations += row["operations"]
        self.primary_failures += row["primary_failures"]
        self.simulated_ns += row["simulated_ns"]
        self.cpu_s += row["cpu_s"]
        self.trace ^= _trace_of(row)
        self.accused += _is_accused(row)
        key = (row["profile"], row["replicas"], row["output_commit"])
        self._kinds.setdefault(key, _OfKind()).add(row)

    def kinds(self) -> list[Kind]:
        return [self._kinds[key].named(*key) for key in sorted(self._kinds)]


def sums_of(campaign: Campaign, directory: Directory) -> Sums:
    sums = Sums()
    for batch in campaign.batches():
        for row in read_outcomes(directory, batch.number):
            sums.add(row)
    return sums


def read_outcomes(directory: Directory, batch: int) -> list[dict[str, Any]]:
    with open(directory.outcome_file(batch), encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def found_violation(directory: Directory, slices: Sequence[int]) -> bool:
    """By the audit, in doubtful worlds."""
    from pyarrow import parquet

    for number in slices:
        severities = parquet.read_table(directory.finding_file(number), columns=["severity"])
        if VIOLATION in severities["severity"].to_pylist():
            return True
    return False


def _is_accused(row: dict[str, Any]) -> bool:
    by_audit = any(found["severity"] == VIOLATION for found in row["findings"])
    return bool(row["violations"] or row["in_journals"] or by_audit)


def _trace_of(row: dict[str, Any]) -> int:
    text = f"{row['world']} {row['trace_hash']}".encode()
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big", signed=True)


def upper_bound(lost: int, tried: int, confidence: float = CONFIDENCE) -> float:
    """Of the probability, one-sided (Clopper and Pearson), by bisection on the binomial's lower tail. With
    none lost it is about 3 / tried."""
    if not tried:
        return 1.0
    low, high = lost / tried, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if _at_most(lost, tried, middle) > 1 - confidence:
            low = middle
        else:
            high = middle
    return high


def _at_most(lost: int, tried: int, probability: float) -> float:
    """That so many or fewer of `tried` are lost."""
    if probability >= 1.0:
        return 1.0 if lost >= tried else 0.0
    if probability <= 0.0:
        return 1.0
    log_p, log_q = math.log(probability), math.log1p(-probability)
    total = 0.0
    for count in range(lost + 1):
        log_choose = math.lgamma(tried + 1) - math.lgamma(count + 1) - math.lgamma(tried - count + 1)
        total += math.exp(log_choose + count * log_p + (tried - count) * log_q)
    return min(1.0, total)
