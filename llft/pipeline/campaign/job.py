"""The driver's part of a campaign: give out batches, watch them come in, have all checks made of doubtful
worlds, compare.

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
from typing import TYPE_CHECKING, Any

from pyspark.sql.pandas.types import to_arrow_schema

from llft.pipeline.audit.doubtful import judge_doubtful
from llft.pipeline.audit.findings import FINDING_SCHEMA, VIOLATION
from llft.pipeline.campaign.outcome import RunSeed
from llft.pipeline.campaign.plan import Batch, Campaign, Directory
from llft.pipeline.campaign.sums import read_outcomes
from llft.pipeline.campaign.work import Work, worker
from llft.pipeline.daemon import EARLY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
    spark.sparkContext.environment[EARLY] = wanted_early(run_seed)
    simulating_s = judging_s = 0.0
    simulated = 0
    for number, batches in enumerate(campaign.slices()):
        begun_s = time.monotonic()
        todo = [batch for batch in batches if not directory.is_done(batch)]
        if todo:
            work = worker(run_seed, campaign.cells, directory, keep_journals=keep_journals)
            _simulate(spark, work, todo, Count.of(campaign, directory), tell=tell)
            simulated += sum(len(batch.seeds) for batch in todo)
        simulated_s = time.monotonic()
        if not directory.finding_file(number).exists():
            _settle(spark, batches, directory, number)
        if not keep_journals:
            _forget_clean(batches, directory, number)
        simulating_s += simulated_s - begun_s
        judging_s += time.monotonic() - simulated_s
    return Timing(simulating_s, judging_s, simulated)


def wanted_early(run_seed: RunSeed) -> str:
    """What every worker of a campaign imports."""
    return f"{worker.__module__},{run_seed.__module__}"


def _simulate(spark: SparkSession, work: Work, todo: Sequence[Batch], count: Count, *, tell: Tell) -> None:
    """A task per batch. The job runs in a thread, so that this one can count what has come in. An RDD:
    Spark's SQL has nothing to plan here, and takes seconds to begin with."""
    given_out = spark.sparkContext.parallelize(todo, len(todo))
    failures: list[Exception] = []

    def run() -> None:
        try:
            given_out.foreachPartition(work)
        except Exception as error:  # noqa: BLE001 - raised again in the thread that waits
            failures.append(error)

    thread = threading.Thread(target=run, name="campaign", daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(POLL_INTERVAL_S)
            tell(count.seeds())
    except BaseException:
        spark.sparkContext.cancelAllJobs()
        raise
    if failures:
        raise failures[0]


@dataclass(frozen=True, slots=True)
class Count:
    """Of what is done, often asked for: a batch is done that has outcomes."""

    path: Path
    sizes: dict[str, int]
    """Of every batch, by the name of its outcomes."""

    @classmethod
    def of(cls, campaign: Campaign, directory: Directory) -> Count:
        files = {batch: directory.outcome_file(batch.number) for batch in campaign.batches()}
        sizes = {file.name: len(batch.seeds) for batch, file in files.items()}
        return cls(directory.path / "outcomes", sizes)

    def seeds(self) -> int:
        return sum(self.sizes.get(name, 0) for name in os.listdir(self.path))


def _settle(spark: SparkSession, batches: Sequence[Batch], directory: Directory, number: int) -> None:
    """All checks of the worlds that are in doubt; what was found with what workers found at once. All records
    of a world are in the file of its batch."""
    import pyarrow as pa
    from pyarrow import parquet

    told: list[dict[str, Any]] = []
    doubtful: list[int] = []
    files: list[str] = []
    for batch in batches:
        rows = read_outcomes(directory, batch.number)
        told += [found for row in rows for found in row["findings"]]
        worlds = [row["world"] for row in rows if row["doubtful"]]
        doubtful += worlds
        files += [str(directory.journal_file(batch.number))] if worlds else []
    tables = [pa.Table.from_pylist(told, schema=to_arrow_schema(FINDING_SCHEMA))]
    if doubtful:
        tables.append(judge_doubtful(spark, files, doubtful))
    target = directory.finding_file(number)
    draft = target.with_name(f".{target.name}")
    parquet.write_table(pa.concat_tables(tables), draft)
    os.replace(draft, target)


def _forget_clean(batches: Sequence[Batch], directory: Directory, number: int) -> None:
    """Journals of batches about which there is nothing to find out: a seed gives them again at any time."""
    from pyarrow import parquet

    found = parquet.read_table(directory.finding_file(number), columns=["world", "severity"]).to_pylist()
    accused = {one["world"] for one in found if one["severity"] == VIOLATION}
    for batch in batches:
        if not directory.journal_file(batch.number).exists():
            continue
        rows = read_outcomes(directory, batch.number)
        if not any(row["violations"] or row["world"] in accused for row in rows):
            directory.journal_file(batch.number).unlink(missing_ok=True)
