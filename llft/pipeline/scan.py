"""Rows for a *kernel*: a function over Arrow batches, which sees only the rows and columns that it asks for.

Parquet files are read by the Python workers themselves, a part of a file at a time: Spark plans, spreads and
gathers, and no row goes through Java on its way. Parts whose statistics show that nothing in them is wanted
are passed over. Where there are no files the same kernel gets the same rows from a DataFrame.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial, reduce
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema

from llft.pipeline.schema import RECORD_SCHEMA

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile, RowGroupMetaData
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

PART_BYTES = 32 << 20
TASKS_PER_CORE = 2

Kernel = Callable[[Iterable["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]
Where = Mapping[str, Sequence[Any]]
"""Of each column named the values that are wanted; a range is as good as its numbers."""


class Pass(NamedTuple):
    """What is done with the rows and columns that are wanted."""

    kernel: Kernel
    columns: Sequence[str]
    where: Where


class Part(NamedTuple):
    """One of so many parts of a file, of about equal numbers of row groups."""

    path: str
    number: int
    of: int


@dataclass(frozen=True, slots=True)
class Rows:
    """Records (`RECORD_SCHEMA`), and the Parquet files that have exactly those, if there are such."""

    frame: DataFrame
    files: Sequence[str] = ()

    def through(self, schema: StructType, *passes: Pass) -> DataFrame:
        """What the kernels make of them, one below the other; a column that one does not make is null. Rows
        that were neighbours stay so within a batch. Several passes over files are one job."""
        if not self.files:
            return reduce(_below, (self._through_frame(schema, one) for one in passes))
        spark = self.frame.sparkSession
        shares = _shares(self.files, TASKS_PER_CORE * spark.sparkContext.defaultParallelism)
        work = partial(_of_shares, shares, passes, to_arrow_schema(schema))
        return spark.range(0, len(shares), 1, len(shares)).mapInArrow(work, schema)

    def _through_frame(self, schema: StructType, one: Pass) -> DataFrame:
        work = partial(_conforming, to_arrow_schema(schema), one.kernel)
        return self.frame.filter(_condition(one.where)).select(*one.columns).mapInArrow(work, schema)

    def read(self, one: Pass) -> Iterator[pa.RecordBatch]:
        """The same of files, here and now: for a few rows a job costs more than their reading."""
        for path in self.files:
            with opened(path) as file:
                rows = read_groups(file, range(file.num_row_groups), one.columns, one.where)
                yield from one.kernel(rows)


def _below(upper: DataFrame, lower: DataFrame) -> DataFrame:
    return upper.union(lower)


def _condition(where: Where) -> Column:
    conditions = [
        F.col(name).between(values.start, values.stop - 1)
        if isinstance(values, range)
        else F.col(name).isin(*values)
        for name, values in where.items()
    ]
    return reduce(lambda one, other: one & other, conditions)


def _shares(files: Sequence[str], most: int) -> list[list[Part]]:
    """The parts of all files, dealt out."""
    parts = []
    for path in files:
        count = 1 + os.path.getsize(path) // PART_BYTES
        parts += [Part(path, number, count) for number in range(count)]
    tasks = min(len(parts), most)
    return [parts[index::tasks] for index in range(tasks)]


def _of_shares(
    shares: Sequence[Sequence[Part]],
    passes: Sequence[Pass],
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """The batches tell which shares are this task's."""
    for number in (number for batch in batches for number in batch.column(0).to_pylist()):
        for part in shares[number]:
            with opened(part.path) as file:
                groups = groups_of(file, part)
                for one in passes:
                    rows = read_groups(file, groups, one.columns, one.where)
                    yield from _conforming(schema, one.kernel, rows)


def _conforming(
    schema: pa.Schema, kernel: Kernel, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    for made in kernel(batches):
        there = dict(zip(made.schema.names, made.columns, strict=True))
        arrays = [
            there[one.name] if one.name in there else pa.nulls(made.num_rows, one.type) for one in schema
        ]
        yield pa.RecordBatch.from_arrays(arrays, names=schema.names)


def opened(path: str) -> ParquetFile:
    from pyarrow import parquet

    return parquet.ParquetFile(path, read_dictionary=["kind"], memory_map=True)


def groups_of(file: ParquetFile, part: Part) -> range:
    groups = range(file.num_row_groups)
    return groups[part.number * len(groups) // part.of : (part.number + 1) * len(groups) // part.of]


def read_groups(
    file: ParquetFile, groups: Iterable[int], columns: Sequence[str], where: Where
) -> Iterator[pa.RecordBatch]:
    there = {file.schema.column(at).path: at for at in range(len(file.schema))}
    names = [name for name in file.schema_arrow.names if name in columns or name in where]
    for number in groups:
        known = _statistics(file.metadata.row_group(number), there, names)
        if not all(_may_have(known.get(name), values) for name, values in where.items()):
            continue
        constants = {name: one.min for name, one in known.items() if _is_constant(name, one)}
        read = [name for name in names if name not in constants] or names
        table = file.read_row_group(number, columns=read, use_threads=False)
        questions = {name: values for name, values in where.items() if name in read}
        for batch in _chosen(table, questions).combine_chunks().to_batches():
            yield _in_order(batch, columns, constants)


def _statistics(group: RowGroupMetaData, there: Mapping[str, int], names: Iterable[str]) -> dict[str, Any]:
    """Of the columns that have any. A column of one value only need not be read."""
    known = {name: group.column(there[name]).statistics for name in names if name in there}
    return {name: one for name, one in known.items() if one is not None and one.has_min_max}


def _is_constant(name: str, statistics: Any) -> bool:
    """Of long texts statistics may have the beginning only."""
    is_whole = name == "kind" or not isinstance(statistics.min, str)
    return bool(is_whole and statistics.min == statistics.max and statistics.null_count == 0)


def _may_have(statistics: Any, values: Sequence[Any]) -> bool:
    return statistics is None or _overlaps(values, statistics.min, statistics.max)


def _overlaps(values: Sequence[Any], low: Any, high: Any) -> bool:
    if isinstance(values, range):
        return bool(values.start <= high and low < values.stop)
    return any(low <= value <= high for value in values)


def _chosen(table: pa.Table, questions: Where) -> pa.Table:
    import pyarrow as pa
    from pyarrow import compute

    for name, values in questions.items():
        column = table[name]
        if isinstance(values, range):
            wanted = compute.and_(
                compute.greater_equal(column, values.start), compute.less(column, values.stop)
            )
        else:
            wanted = compute.is_in(column, value_set=pa.array(values, _value_type(column.type)))
        table = table.filter(wanted)
    return table


def _value_type(of: pa.DataType) -> pa.DataType:
    import pyarrow as pa

    return of.value_type if pa.types.is_dictionary(of) else of


def _in_order(batch: pa.RecordBatch, columns: Sequence[str], constants: Mapping[str, Any]) -> pa.RecordBatch:
    """The columns asked for; those that an older version did not have are null."""
    import pyarrow as pa

    arrays = [
        batch.column(name)
        if name in batch.schema.names
        else _repeated(constants.get(name), _types()[name], batch.num_rows)
        for name in columns
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _repeated(value: Any, of: pa.DataType, count: int) -> pa.Array:
    return _many(value, of, 1 << max(count - 1, 0).bit_length()).slice(0, count)


@lru_cache(maxsize=16)
def _many(value: Any, of: pa.DataType, count: int) -> pa.Array:
    """Kept: what is constant in one row group is mostly so in the next, and making it is a fifth of the
    reading."""
    import pyarrow as pa

    if pa.types.is_string(of) and value is not None:
        return pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), count), [value])
    return pa.repeat(pa.scalar(value, of), count)


@cache
def _types() -> dict[str, pa.DataType]:
    return {field.name: field.type for field in to_arrow_schema(RECORD_SCHEMA)}
