"""Journals as DataFrames: of any host, in any order, with copies, torn or corrupt.

    read_journals(spark, paths)   the records
    ingest(spark, paths)          the records, what was quarantined, and where reading stopped

A task reads one process after another, each in its order (`decode`). What is no record keeps its
place as a row of an inner kind, whose name begins with an underscore, so one pass gives everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from llft.errors import MisuseError
from llft.pipeline.decode import Row, flatten, records_of
from llft.pipeline.frames import Frame, Tail
from llft.pipeline.schema import DERIVED, FIELDS, KIND_FIELDS, RECORD_SCHEMA
from llft.pipeline.segments import (
    CONFLICT,
    HARMLESS,
    MALFORMED,
    MISSING,
    PLACE_BITS,
    TORN,
    Bad,
    Plan,
    plan,
    read_header,
    read_segment,
    state_of,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from llft.journal.record import Record
    from llft.pipeline.decode import ProcessState

SUFFIXES = (".llj", ".journal")
SEALED = "sealed"
"""The directory of a run's sealed records, if there is one, beside its live segments."""

QUARANTINED = "_Quarantined"
STATE = "_State"
BATCH_ROWS = 10_000

STAMP_FIELDS = ("time_ns", "group_id", "birth_id", "view")
PROVENANCE_FIELDS = ("world", "source", "place", "version")
INNER_FIELDS = {QUARANTINED: ("reason", "size", "entry"), STATE: ("entry",)}


@dataclass(frozen=True, slots=True)
class Ingested:
    records: DataFrame
    quarantined: DataFrame
    states: DataFrame
    """Of every process read: how far (`place`), and what to go on with (`state`)."""


def read_journals(spark: SparkSession, paths: Sequence[str | Path]) -> DataFrame:
    """The records of all journals at these paths (`schema.RECORD_SCHEMA`)."""
    return ingest(spark, paths).records


def ingest(spark: SparkSession, paths: Sequence[str | Path]) -> Ingested:
    return split(decode_plans(spark, plan(journal_files(paths))))


def journal_files(paths: Sequence[str | Path]) -> list[str]:
    """The journals named and all below the directories named; MisuseError if there are none."""
    found: dict[str, None] = {}
    for one in map(Path, paths):
        if one.is_file():
            here = [one]
        else:
            here = sorted(path for suffix in SUFFIXES for path in one.rglob(f"*{suffix}") if path.is_file())
        if not here:
            remedy = "give a journal, or a directory that has some below it"
            raise MisuseError("no-journals", remedy, path=str(one))
        found.update(dict.fromkeys(str(path.resolve()) for path in here))
    return list(found)


def decode_plans(spark: SparkSession, plans: Sequence[Plan]) -> DataFrame:
    """Everything that is in them, with rows of the inner kinds."""
    texts = [(one.to_json(),) for one in plans]
    tasks = max(1, min(len(texts), 4 * spark.sparkContext.defaultParallelism))
    planned = spark.createDataFrame(texts, "plan string").repartition(tasks)
    return planned.mapInArrow(_decode_batches, RECORD_SCHEMA)


def split(decoded: DataFrame) -> Ingested:
    """Rows of inner kinds go where they belong."""
    quarantined = decoded.filter(F.col("kind") == QUARANTINED).select(
        "world",
        "source",
        "place",
        "process",
        "group_id",
        "wall_ns",
        "reason",
        "size",
        F.col("entry").alias("sample"),
    )
    states = decoded.filter(F.col("kind") == STATE).select(
        "world", "source", "place", "process", F.col("entry").alias("state")
    )
    return Ingested(decoded.filter(~F.col("kind").startswith("_")), quarantined, states)


def _decode_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    texts = (text for batch in batches for text in batch.column(0).to_pylist())
    return decode_processes(Plan.from_json(text) for text in texts)


def decode_processes(plans: Iterable[Plan]) -> Iterator[pa.RecordBatch]:
    """The rows of processes as Arrow, gathered kind by kind: a kind fills few of the columns."""
    gathered: dict[str, list[Row]] = {}
    count = 0
    for kind, row in (one for each in plans for one in _rows(each)):
        gathered.setdefault(kind, []).append(row)
        count += 1
        if count == BATCH_ROWS:
            yield from arrow_batches(gathered)
            gathered, count = {}, 0
    yield from arrow_batches(gathered)


def _rows(plan: Plan) -> Iterator[tuple[str, Row]]:
    state = state_of(plan)
    for segment in plan.segments:
        path, base = segment.paths[0], segment.number << PLACE_BITS
        version = _version(path)
        end = segment.start
        if segment.number > state.segment + 1:
            state.forget()
            missing = Bad(0, 0, f"{MISSING} {state.segment + 1}")
            yield QUARANTINED, _inner(path, base, version, state, missing)
        state.begin_segment(segment.number)
        for piece in read_segment(segment):
            if isinstance(piece, Tail):
                end = piece.offset
                piece = Bad(piece.offset, piece.size, TORN)
                if not piece.size:
                    continue
            if isinstance(piece, Frame):
                records = _parsed(piece)
                if not isinstance(records, Bad):
                    # A frame has a byte for each of its records, so places are as many.
                    for place, record in enumerate(records, base + piece.offset):
                        row = (state.world, path, place, version, *flatten(record))
                        yield type(record).__name__, (*row, *state.derive(record))
                    continue
                piece = records
            if piece.reason not in HARMLESS and piece.reason != CONFLICT:
                state.forget()
            yield QUARANTINED, _inner(path, base + piece.offset, version, state, piece)
        yield STATE, _state_row(path, base + end, version, state)


def _parsed(frame: Frame) -> list[Record] | Bad:
    try:
        return records_of(frame.payload)
    except (ValueError, RecursionError) as error:
        return Bad(frame.offset, len(frame.payload), f"{MALFORMED}: {error}", frame.payload[:32])


def _inner(source: str, place: int, version: int, state: ProcessState, bad: Bad) -> Row:
    return (*_place(source, place, version, state), bad.reason, bad.size, bad.sample.hex(), *_whose(state))


def _state_row(source: str, place: int, version: int, state: ProcessState) -> Row:
    return (*_place(source, place, version, state), state.to_json(), *_whose(state))


def _place(source: str, place: int, version: int, state: ProcessState) -> Row:
    return (state.world, source, place, version, None, state.group_id, None, None)


def _whose(state: ProcessState) -> Row:
    return (state.process, state.life, None, state.performed, None, None, False)


def _version(path: str) -> int:
    with open(path, "rb") as file:
        header = read_header(file.read(64))
    return header.version if header is not None else 0


def arrow_batches(gathered: dict[str, list[Row]]) -> Iterator[pa.RecordBatch]:
    """Rows by kind, in the columns of `RECORD_SCHEMA`; those that a kind does not have are null."""
    import pyarrow as pa

    schema = arrow_schema()
    derived = tuple(DERIVED.names)
    for kind, rows in gathered.items():
        names = (*PROVENANCE_FIELDS, *STAMP_FIELDS, *(INNER_FIELDS.get(kind) or KIND_FIELDS[kind]), *derived)
        columns: dict[str, Any] = dict(zip(names, zip(*rows, strict=True), strict=True))
        columns["kind"] = [kind] * len(rows)
        arrays = [
            value_array(columns[one.name], one.type) if one.name in columns else pa.nulls(len(rows), one.type)
            for one in schema
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


@cache
def arrow_schema() -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(RECORD_SCHEMA)


def value_array(values: Sequence[Any], of: pa.DataType) -> pa.Array:
    import pyarrow as pa

    if pa.types.is_struct(of):
        return _repeated(values, of)
    try:
        return pa.array(values, of)
    except UnicodeEncodeError:  # half a surrogate pair, which JSON can say and no column can hold
        return pa.array([str(one).encode("utf-8", "backslashreplace").decode() for one in values], of)


def _repeated(values: Sequence[Any], of: pa.DataType) -> pa.Array:
    """Births, views, connections: a few, in many rows. Arrow makes a struct slowly, and repeats one fast."""
    import pyarrow as pa

    places: dict[Any, int] = {}
    indices = [places.setdefault(one, len(places)) for one in values]
    return pa.array(list(places), of).take(pa.array(indices, pa.int32()))


assert set(STAMP_FIELDS) <= set(FIELDS.names)
