"""Whole worlds, judged where they lie: files that have all records of every world that they have any of.

What is judged group by group or connection by connection needs no shuffle then, nor a table of the fleet: one
worker has it all, and asks the same kernels one after the other. Whatever they cannot clear for certain makes
its world doubtful, and of those all checks are made as of any fleet (`checks`). What was done for nothing
(`losses`) and what rare records show (`outline`) is told at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema

from llft.pipeline.audit import clearing, clock, drill, losses, pardons
from llft.pipeline.audit.checks import findings, judging
from llft.pipeline.audit.findings import FINDING_SCHEMA
from llft.pipeline.audit.outline import (
    RARE_COLUMNS,
    Group,
    Groups,
    Outline,
    outline_groups,
    unfolded,
)
from llft.pipeline.audit.prints import PRINTING
from llft.pipeline.audit.suspects import Print
from llft.pipeline.histories.transform import FIELDS, OBJECT, finding_of
from llft.pipeline.ingest import arrow_schema, split
from llft.pipeline.scan import Pass, opened, read_groups
from llft.pipeline.schema import RECORD_SCHEMA

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile
    from pyspark.sql import SparkSession

TASKS_PER_CORE = 4


class Verdict(NamedTuple):
    """Of a file."""

    file: str
    doubtful: list[int]
    """The worlds in which there may be something to be found."""
    findings: list[dict[str, object]]
    """Of the others (`FINDING_SCHEMA`)."""


def judge_worlds(spark: SparkSession, files: Sequence[str]) -> pa.Table:
    """Findings (`FINDING_SCHEMA`). Each world is in one file only."""
    import pyarrow as pa

    context = spark.sparkContext
    tasks = min(len(files), TASKS_PER_CORE * context.defaultParallelism)
    # No SQL: it takes seconds to begin with, and there is nothing for it to plan.
    verdicts = context.parallelize(files, tasks).map(_judge).collect()
    found = [one for verdict in verdicts for one in verdict.findings]
    tables = [pa.Table.from_pylist(found, schema=to_arrow_schema(FINDING_SCHEMA))]
    doubtful = [verdict for verdict in verdicts if verdict.doubtful]
    if doubtful:
        worlds = [world for verdict in doubtful for world in verdict.doubtful]
        tables.append(_judge_doubtful(spark, [verdict.file for verdict in doubtful], worlds))
    return pa.concat_tables(tables)


def _judge_doubtful(spark: SparkSession, files: Sequence[str], worlds: Sequence[int]) -> pa.Table:
    records = spark.read.schema(RECORD_SCHEMA).parquet(*files)
    nothing = split(spark.createDataFrame([], RECORD_SCHEMA)).quarantined
    with judging(records, nothing, files=files) as case:
        found = findings(case).filter(F.col("world").isin(*worlds)).select(*FINDING_SCHEMA.names).toArrow()
    return found.cast(to_arrow_schema(FINDING_SCHEMA))


def _judge(path: str) -> Verdict:
    with opened(path) as file:
        doubtful, found = judge_file(file)
    return Verdict(path, sorted(doubtful), found)


def judge_file(file: ParquetFile) -> tuple[set[int], list[dict[str, object]]]:
    """Worlds that are doubtful, and the findings of all others."""

    def through(one: Pass) -> Iterator[pa.RecordBatch]:
        return one.kernel(read_groups(file, range(file.num_row_groups), one.columns, one.where))

    def read(kind: str, columns: Sequence[str]) -> pa.Table:
        import pyarrow as pa

        rows = list(through(Pass(_as_they_are, columns, {"kind": (kind,)})))
        if rows:
            return pa.Table.from_batches(rows)
        return pa.schema([arrow_schema().field(name) for name in columns]).empty_table()

    rare = through(Pass(_as_they_are, RARE_COLUMNS, {"rare": (True,)}))
    outline = unfolded(outline_groups(_groups(rare, through(PRINTING))))
    doubtful = clock.worlds_with_steps_back(through(clock.reading(outline.lives)), outline.lives)
    doubtful |= _with_other_histories(read)
    doubtful |= _with_other_connections(read, clearing.Lives.of(outline.lives))
    doubtful |= _with_divergences(outline, file)
    told = [outline.findings]
    cuts = losses.cuts_of(outline.lives)
    if cuts:
        told += losses.tell(through(losses.cutting(cuts)))
    found = [one for table in told for one in table.to_pylist() if one["world"] not in doubtful]
    return doubtful, found


def _as_they_are(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from (batch for batch in batches if batch.num_rows)


def _groups(rare: Iterable[pa.RecordBatch], prints: Iterable[pa.RecordBatch]) -> Groups:
    groups: Groups = {}
    for row in (row for batch in rare for row in batch.to_pylist()):
        groups.setdefault((row["world"], row["group_id"]), Group()).rare.append(row)
    for batch in prints:
        columns = (batch.column(name).to_pylist() for name in ("world", "group_id", *Print._fields))
        for world, group_id, *printed in zip(*columns, strict=True):
            groups.setdefault((world, group_id), Group()).prints.append(Print._make(printed))
    return groups


def _with_divergences(outline: Outline, file: ParquetFile) -> set[int]:
    if not outline.suspects.num_rows:
        return set()
    suspected = drill.Drill.of(outline)
    rows = read_groups(file, range(file.num_row_groups), drill.SHORT, suspected.where)
    differing = drill.compare(drill.shorten(suspected, rows))
    return {world for batch in differing for world in batch.column("world").to_pylist()}


def _with_other_connections(read: clearing.Read, lives: clearing.Lives) -> set[int]:
    doubts = clearing.doubts(read, lives)
    astray = doubts.astray
    if astray:
        astray = astray - pardons.excused(read, lives, astray)
    return {world for world, *_ in doubts.wrong | astray}


def _with_other_histories(read: clearing.Read) -> set[int]:
    objects: dict[tuple[object, ...], list[dict[str, object]]] = {}
    for row in read("Called", (*OBJECT, *FIELDS)).to_pylist():
        objects.setdefault(tuple(row[name] for name in OBJECT), []).append(row)
    return {rows[0]["world"] for rows in objects.values() if finding_of(rows) is not None}  # type: ignore[misc]
