"""What a campaign comes to: violations with their replay, fail-over times, probabilities of loss."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812

from llft.pipeline.audit.findings import FINDING_SCHEMA, VIOLATION
from llft.pipeline.campaign.columns import OUTCOME_SCHEMA
from llft.pipeline.campaign.outcome import WORLD_BITS, Cell
from llft.pipeline.campaign.plan import Campaign, Directory
from llft.pipeline.histories.transform import CONDITION as HISTORY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SHARES = (0.5, 0.9, 0.99, 1.0)
SHOWN = 200
CONFIDENCE = 0.95

Replay = Callable[[int, Cell], str]


@dataclass(frozen=True, slots=True)
class Violation:
    cell: Cell
    seed: int
    found_by: str
    """The checkers, or the audit."""
    property: str
    explanation: str
    replay: str


Namer = Callable[[int, str, str, str], Violation]
"""Of a world who found what, and the words for it."""


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


@dataclass(frozen=True, slots=True)
class Summary:
    seeds: int
    operations: int
    primary_failures: int
    simulated_s: float
    cpu_s: float
    trace: int
    """An exclusive or over all seeds: the same campaign gives the same, however it was distributed."""
    violation_count: int = 0
    disagreement_count: int = 0
    disagreements: list[Violation] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    kinds: list[Kind] = field(default_factory=list)


def summarise(spark: SparkSession, campaign: Campaign, directory: Directory, replay: Replay) -> Summary:
    outcomes = (
        spark.read.schema(OUTCOME_SCHEMA).json(str(directory.path / "outcomes" / "batch-*.json")).cache()
    )
    audited = _audited(spark, directory).cache()
    try:
        name = _namer(campaign, replay)
        totals = _totals(outcomes)
        # Most campaigns have nothing of it, and each question takes Spark half a second.
        accused = totals.pop("accused") or audited.count()
        found = _found(outcomes, audited, name) if accused else {}
        return Summary(**totals, **found, kinds=_kinds(outcomes))
    finally:
        outcomes.unpersist()
        audited.unpersist()


def _found(outcomes: DataFrame, audited: DataFrame, name: Namer) -> dict[str, Any]:
    differ = _disagreements(outcomes, audited)
    return {
        "violation_count": _violation_count(outcomes, audited),
        "disagreement_count": differ.count(),
        "disagreements": [name(row.world, "both", "disagreement", row.text) for row in differ.take(SHOWN)],
        "violations": [*_by_checkers(outcomes, name), *_by_audit(audited, name, outcomes)],
    }


def _audited(spark: SparkSession, directory: Directory) -> DataFrame:
    """What the audit holds to be violated."""
    found = spark.read.schema(FINDING_SCHEMA).parquet(str(directory.path / "findings" / "slice-*.parquet"))
    return found.filter(F.col("severity") == VIOLATION).select("world", "condition", "explanation")


def _totals(outcomes: DataFrame) -> dict[str, Any]:
    sums = outcomes.agg(
        F.count(F.lit(1)).alias("seeds"),
        F.coalesce(F.sum("operations"), F.lit(0)).alias("operations"),
        F.coalesce(F.sum("primary_failures"), F.lit(0)).alias("primary_failures"),
        (F.coalesce(F.sum("simulated_ns"), F.lit(0)) / 1e9).alias("simulated_s"),
        F.coalesce(F.sum("cpu_s"), F.lit(0.0)).alias("cpu_s"),
        F.coalesce(F.bit_xor(F.xxhash64("world", "trace_hash")), F.lit(0)).alias("trace"),
        F.count_if((F.size("violations") > 0) | (F.size("in_journals") > 0)).alias("accused"),
    )
    found: dict[str, Any] = sums.collect()[0].asDict()
    return found


def _namer(campaign: Campaign, replay: Replay) -> Namer:
    def name(world: int, found_by: str, condition: str, explanation: str) -> Violation:
        cell, seed = campaign.cells[world >> WORLD_BITS], world & (1 << WORLD_BITS) - 1
        return Violation(cell, seed, found_by, condition, explanation, replay(seed, cell))

    return name


def _by_checkers(outcomes: DataFrame, name: Namer) -> list[Violation]:
    every = outcomes.select("world", F.explode("violations").alias("one")).select("world", "one.*")
    rows = every.orderBy("world").take(SHOWN)
    return [name(row.world, "checkers", row.property, row.explanation) for row in rows]


def _by_audit(audited: DataFrame, name: Namer, outcomes: DataFrame) -> list[Violation]:
    """Of worlds in which the checkers found nothing: else it is the same again in other words."""
    clean = outcomes.filter(F.size("violations") == 0)
    rows = audited.join(clean, "world", "leftsemi").orderBy("world").take(SHOWN)
    return [name(row.world, "audit", row.condition, row.explanation) for row in rows]


def _violation_count(outcomes: DataFrame, audited: DataFrame) -> int:
    by_checkers = outcomes.agg(F.coalesce(F.sum(F.size("violations")), F.lit(0))).collect()[0][0]
    by_audit = audited.join(outcomes.filter(F.size("violations") == 0), "world", "leftsemi").count()
    return int(by_checkers) + by_audit


def _disagreements(outcomes: DataFrame, audited: DataFrame) -> DataFrame:
    """Worlds of which one says that a property is violated that a journal can show, and the other does not.
    A seed that crashed has no journals to disagree about."""
    judged = outcomes.filter(F.col("records") > 0).select(
        "world",
        (F.size("in_journals") > 0).alias("checkers"),
        F.concat_ws(", ", "in_journals").alias("theirs"),
    )
    ours = (
        # The checkers have no counterpart of it.
        audited.filter(F.col("condition") != HISTORY)
        .groupBy("world")
        .agg(F.concat_ws(", ", F.sort_array(F.collect_set("condition"))).alias("ours"))
    )
    both = judged.join(ours, "world", "left").filter(F.col("checkers") != F.col("ours").isNotNull())
    text = F.format_string(
        "the checkers find %s in the journals, the audit %s",
        F.when(F.col("theirs") == "", "nothing").otherwise(F.col("theirs")),
        F.coalesce("ours", F.lit("nothing")),
    )
    return both.select("world", text.alias("text")).orderBy("world")


def _kinds(outcomes: DataFrame) -> list[Kind]:
    keys = ("profile", "replicas", "output_commit")
    sums = outcomes.groupBy(*keys).agg(
        F.count(F.lit(1)).alias("seeds"),
        F.sum("primary_failures").alias("primary_failures"),
        F.sum("acknowledged").alias("acknowledged"),
        F.sum("lost_acknowledged").alias("lost"),
        F.flatten(F.collect_list("failovers_ns")).alias("failovers_ns"),
    )
    times = F.sort_array("failovers_ns")
    count = F.size("failovers_ns")
    ranks = [
        F.try_element_at(times, F.greatest(F.lit(1), F.ceil(count * share)).cast("int")) for share in SHARES
    ]
    rows = sums.select("*", count.alias("failovers"), F.array(*ranks).alias("ranks")).orderBy(*keys).collect()
    return [
        Kind(
            profile=row.profile,
            replicas=row.replicas,
            output_commit=row.output_commit,
            seeds=row.seeds,
            primary_failures=row.primary_failures,
            failovers=row.failovers,
            failover_ms=tuple(rank / 1e6 for rank in row.ranks) if row.failovers else (),
            acknowledged=row.acknowledged,
            lost=row.lost,
        )
        for row in rows
    ]


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
