"""The driver's part of a campaign: give out batches, watch them come in, have the audit judge them, compare.

A slice of batches is one Spark job, a batch is one task: Spark gives it to another executor if the first is
lost. What a batch leaves are files, so a campaign that was interrupted, however, goes on with the first
batch that has none.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from llft.pipeline.audit.checks import findings, judging
from llft.pipeline.audit.findings import FINDING_SCHEMA, VIOLATION
from llft.pipeline.campaign.columns import DONE_SCHEMA, OUTCOME_SCHEMA
from llft.pipeline.campaign.outcome import RunSeed
from llft.pipeline.campaign.plan import Batch, Campaign, Directory
from llft.pipeline.campaign.work import worker
from llft.pipeline.ingest import split
from llft.pipeline.schema import RECORD_SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

POLL_INTERVAL_S = 0.2

Tell = Callable[[int], None]
"""Told how many seeds are done."""


@dataclass(frozen=True, slots=True)
class Timing:
    simulating_s: float
    judging_s: float
    simulated_seeds: int
    """Without those that were done before."""


def run_campaign(
    spark: SparkSession,
    run_seed: RunSeed,
    campaign: Campaign,
    directory: Directory,
    *,
    tell: Tell,
    keep_journals: bool = False,
) -> Timing:
    """All that is not done yet. What came of it is in the directory (`summary` reads it)."""
    directory.claim(campaign)
    simulating_s = judging_s = 0.0
    simulated = 0
    for number, batches in enumerate(campaign.slices()):
        begun_s = time.monotonic()
        todo = [batch for batch in batches if not directory.is_done(batch)]
        if todo:
            _simulate(spark, run_seed, campaign, todo, directory, tell=tell)
            simulated += sum(len(batch.seeds) for batch in todo)
        simulated_s = time.monotonic()
        if not directory.finding_file(number).exists():
            _judge(spark, batches, directory, number)
        if not keep_journals:
            _forget_clean(spark, batches, directory, number)
        simulating_s += simulated_s - begun_s
        judging_s += time.monotonic() - simulated_s
    return Timing(simulating_s, judging_s, simulated)


def _simulate(
    spark: SparkSession,
    run_seed: RunSeed,
    campaign: Campaign,
    todo: Sequence[Batch],
    directory: Directory,
    *,
    tell: Tell,
) -> None:
    """A task per batch. The job runs in a thread, so that this one can count what has come in."""
    work = worker(run_seed, campaign.cells, todo, directory)
    # A range makes exactly so many partitions of one row each; shuffling rows to partitions would not.
    job = spark.range(0, len(todo), 1, len(todo)).mapInArrow(work, DONE_SCHEMA)
    failures: list[Exception] = []

    def run() -> None:
        try:
            job.collect()
        except Exception as error:  # noqa: BLE001 - raised again in the thread that waits
            failures.append(error)

    thread = threading.Thread(target=run, name="campaign", daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(POLL_INTERVAL_S)
            tell(done_seeds(campaign, directory))
    except BaseException:
        spark.sparkContext.cancelAllJobs()
        raise
    if failures:
        raise failures[0]


def done_seeds(campaign: Campaign, directory: Directory) -> int:
    numbers = {name for name in os.listdir(directory.path / "outcomes") if name.startswith("batch-")}
    return sum(
        len(batch.seeds)
        for batch in campaign.batches()
        if directory.outcome_file(batch.number).name in numbers
    )


def journal_files(batches: Sequence[Batch], directory: Directory) -> list[str]:
    """Those there are: of a batch whose seeds left no record there is none."""
    every = (directory.journal_file(batch.number) for batch in batches)
    return [str(file) for file in every if file.exists()]


def _judge(spark: SparkSession, batches: Sequence[Batch], directory: Directory, number: int) -> None:
    target = directory.finding_file(number)
    draft = target.with_name(f".{target.name}")
    files = journal_files(batches, directory)
    if not files:
        found = spark.createDataFrame([], FINDING_SCHEMA)
        _write(found, draft, target)
        return
    records = spark.read.schema(RECORD_SCHEMA).parquet(*files)
    nothing = split(spark.createDataFrame([], RECORD_SCHEMA)).quarantined
    with judging(records, nothing, files=files) as case:
        _write(findings(case), draft, target)


def _write(found: DataFrame, draft: Path, target: Path) -> None:
    found.coalesce(1).write.mode("overwrite").parquet(str(draft))
    os.replace(draft, target)


def _forget_clean(spark: SparkSession, batches: Sequence[Batch], directory: Directory, number: int) -> None:
    """Journals of batches about which there is nothing to find out: a seed gives them again at any time."""
    if not journal_files(batches, directory):
        return
    outcomes = spark.read.schema(OUTCOME_SCHEMA).parquet(
        *(str(directory.outcome_file(batch.number)) for batch in batches)
    )
    violated = outcomes.filter(F.size("violations") > 0).select("world")
    found = spark.read.schema(FINDING_SCHEMA).parquet(str(directory.finding_file(number)))
    accused = found.filter(F.col("severity") == VIOLATION).select("world")
    worlds = violated.union(accused).distinct()
    guilty = outcomes.join(worlds, "world", "leftsemi").select("cell", "seed").collect()
    kept = {(row.cell, row.seed) for row in guilty}
    for batch in batches:
        if not any((batch.cell, seed) in kept for seed in batch.seeds):
            directory.journal_file(batch.number).unlink(missing_ok=True)
