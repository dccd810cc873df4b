"""One batch of seeds, in an executor: run, judge where they came into being, write down what came of it.

A worker that dies takes its batch with it, and Spark gives the batch to another one. That one does not know
which seed was to blame, or whether any was, so it runs each in a process of its own.
"""

from __future__ import annotations

import gc
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext

from llft.pipeline.audit.worlds import Verdict, judge
from llft.pipeline.campaign.derive import Derived, derive
from llft.pipeline.campaign.encode import table_of
from llft.pipeline.campaign.gathered import Gathered, gather
from llft.pipeline.campaign.isolation import run_alone, run_guarded
from llft.pipeline.campaign.outcome import Cell, RunSeed, row_of, world_of
from llft.pipeline.campaign.plan import Batch, Directory
from llft.pipeline.campaign.whole import whole_of

if TYPE_CHECKING:
    import pyarrow as pa

Work = Callable[[Iterable[Batch]], None]


def worker(
    run_seed: RunSeed, cells: Sequence[Cell], directory: Directory, *, keep_journals: bool = False
) -> Work:
    """A function for the partitions of an RDD of batches."""

    def work(batches: Iterable[Batch]) -> None:
        context = TaskContext.get()
        again = context is not None and context.attemptNumber() > 0
        for batch in batches:
            with _collector_off():
                run_batch(
                    run_seed, cells[batch.cell], batch, directory, alone=again, keep_journals=keep_journals
                )

    return work


def run_batch(
    run_seed: RunSeed,
    cell: Cell,
    batch: Batch,
    directory: Directory,
    *,
    alone: bool,
    keep_journals: bool,
) -> None:
    run = run_alone if alone else run_guarded
    rows: list[dict[str, Any]] = []
    gathered = Gathered()
    for seed in batch.seeds:
        begun_s = time.process_time()
        outcome = run(run_seed, seed, cell)
        world = world_of(batch.cell, seed)
        gather(gathered, outcome.records, world=world)
        gather(gathered, outcome.calls, world=world)
        cpu_s = time.process_time() - begun_s
        rows.append(row_of(outcome, cell=batch.cell, kind=cell, cpu_s=cpu_s))
    if gathered.records:
        derived = derive(gathered)
        verdict = judge(whole_of(gathered, derived))
        if keep_journals or verdict.doubtful or any(row["violations"] for row in rows):
            _keep(gathered, derived, directory.journal_file(batch.number))
    else:
        verdict = Verdict(set(), [])
    _write_outcomes(rows, verdict, directory.outcome_file(batch.number))


def _keep(gathered: Gathered, derived: Derived, path: Path) -> None:
    journals = table_of(gathered, derived)
    if journals is not None:
        write_whole(journals, path)


def _write_outcomes(rows: list[dict[str, Any]], verdict: Verdict, path: Path) -> None:
    """As text: workers need no library for it, and it is little."""
    found: dict[int, list[dict[str, Any]]] = {}
    for one in verdict.findings:
        found.setdefault(one.world, []).append(one._asdict())
    with _renamed(path) as draft, open(draft, "w", encoding="utf-8") as file:
        for row in rows:
            world = row["world"]
            more = {"doubtful": world in verdict.doubtful, "findings": found.get(world, [])}
            file.write(json.dumps({**row, **more}) + "\n")


@contextmanager
def _collector_off() -> Iterator[None]:
    """The collector of cycles: records and columns have none, and there are many of them; what a seed itself
    makes is for whoever runs it to collect. Spark collects behind each task: then there is nothing to look
    at."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@contextmanager
def _renamed(path: Path) -> Iterator[Path]:
    """A name to write under: nobody sees half a file. Two that write the same at once do not meet."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.{time.monotonic_ns()}")
    yield draft
    os.replace(draft, path)


def write_whole(table: pa.Table, path: Path) -> None:
    """Each chunk is a row group, which whoever wants other kinds passes over; of other columns statistics
    would cost more than they help, as dictionaries would."""
    from pyarrow import parquet

    with (
        _renamed(path) as draft,
        parquet.ParquetWriter(
            draft, table.schema, compression="lz4", use_dictionary=False, write_statistics=["kind", "rare"]
        ) as writer,
    ):
        for batch in table.to_batches():
            writer.write_batch(batch)
