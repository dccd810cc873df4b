"""One batch of seeds, in an executor: run, write the journals, write the outcomes.

A worker that dies takes its batch with it, and Spark gives the batch to another one. That one does not know
which seed was to blame, or whether any was, so it runs each in a process of its own.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.pandas.types import to_arrow_schema

from llft.pipeline.campaign.columns import OUTCOME_SCHEMA
from llft.pipeline.campaign.encode import Gathered, gather, table_of
from llft.pipeline.campaign.isolation import run_alone, run_guarded
from llft.pipeline.campaign.outcome import Cell, RunSeed, row_of, world_of
from llft.pipeline.campaign.plan import Batch, Directory

if TYPE_CHECKING:
    import pyarrow as pa

Work = Callable[[Iterable[Batch]], None]


def worker(run_seed: RunSeed, cells: Sequence[Cell], directory: Directory) -> Work:
    """A function for the partitions of an RDD of batches."""

    def work(batches: Iterable[Batch]) -> None:
        context = TaskContext.get()
        again = context is not None and context.attemptNumber() > 0
        for batch in batches:
            with _collector_off():
                run_batch(run_seed, cells[batch.cell], batch, directory, alone=again)

    return work


def run_batch(run_seed: RunSeed, cell: Cell, batch: Batch, directory: Directory, *, alone: bool) -> None:
    import pyarrow as pa

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
    journals = table_of(gathered)
    if journals is not None:
        write_whole(journals, directory.journal_file(batch.number))
    schema = to_arrow_schema(OUTCOME_SCHEMA)
    write_whole(pa.Table.from_pylist(rows, schema=schema), directory.outcome_file(batch.number))


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


def write_whole(table: pa.Table, path: Path) -> None:
    """By a rename: nobody sees half a file. Two that write the same at once do not meet. Each chunk is a row
    group, which whoever wants other kinds passes over; of other columns statistics would cost more than they
    help, as dictionaries would."""
    from pyarrow import parquet

    draft = path.with_name(f".{path.name}.{os.getpid()}.{time.monotonic_ns()}")
    with parquet.ParquetWriter(
        draft, table.schema, compression="lz4", use_dictionary=False, write_statistics=["kind", "rare"]
    ) as writer:
        for batch in table.to_batches():
            writer.write_batch(batch)
    os.replace(draft, path)
