"""What a campaign comes to: violations with their replay, fail-over times, probabilities of loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812

from llft.pipeline.audit.findings import FINDING_SCHEMA, VIOLATION
from llft.pipeline.campaign.columns import OUTCOME_SCHEMA
from llft.pipeline.campaign.outcome import WORLD_BITS, Cell
from llft.pipeline.campaign.plan import Campaign, Directory
from llft.pipeline.campaign.sums import Kind, found_violation, sums_of
from llft.pipeline.histories.transform import CONDITION as HISTORY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SHOWN = 200

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
    sums = sums_of(campaign, directory)
    # Most campaigns have nothing to ask Spark about.
    if sums.accused or found_violation(directory, range(len(campaign.slices()))):
        found = _found(spark, directory, _namer(campaign, replay))
    else:
        found = {}
    return Summary(
        seeds=sums.seeds,
        operations=sums.operations,
        primary_failures=sums.primary_failures,
        simulated_s=sums.simulated_ns / 1e9,
        cpu_s=sums.cpu_s,
        trace=sums.trace,
        kinds=sums.kinds(),
        **found,
    )


def _found(spark: SparkSession, directory: Directory, name: Namer) -> dict[str, Any]:
    outcomes = (
        spark.read.schema(OUTCOME_SCHEMA).json(str(directory.path / "outcomes" / "batch-*.json")).cache()
    )
    audited = _audited(spark, directory).cache()
    differ = _disagreements(outcomes, audited)
    try:
        return {
            "violation_count": _violation_count(outcomes, audited),
            "disagreement_count": differ.count(),
            "disagreements": [
                name(row.world, "both", "disagreement", row.text) for row in differ.take(SHOWN)
            ],
            "violations": [*_by_checkers(outcomes, name), *_by_audit(audited, name, outcomes)],
        }
    finally:
        outcomes.unpersist()
        audited.unpersist()


def _audited(spark: SparkSession, directory: Directory) -> DataFrame:
    """What the audit holds to be violated."""
    found = spark.read.schema(FINDING_SCHEMA).parquet(str(directory.path / "findings" / "slice-*.parquet"))
    return found.filter(F.col("severity") == VIOLATION).select("world", "condition", "explanation")


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
