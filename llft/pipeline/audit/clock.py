"""The group clock never goes back along the order (D-18).

Every reading has the value of the same clock before it in the same journal, so within a life a filter is
enough. Between lives: where two overlap they have read the same (`agreement`); where one ends before
another begins, the first reading of the later is compared with the last of the earlier.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from llft.pipeline.audit.columns import VIEW_NUMBERS, as_findings, view_name
from llft.pipeline.audit.findings import VIOLATION
from llft.pipeline.audit.lives import NO_LIMIT
from llft.pipeline.audit.prints import Numbers, numbers, run_starts
from llft.pipeline.scan import Pass

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from llft.pipeline.scan import Rows

CLOCK = ("world", "group_id", "epoch", "clock_id")
READING = ("order_seq_num", "value_ns", "wall_ns", *VIEW_NUMBERS)
OWNER = ("process", "life", "clock_id")
COLUMNS = (*OWNER, *READING[:3], "previous", "view")
READING_SCHEMA = StructType(
    [
        StructField(name, IntegerType() if name == "life" else LongType())
        for name in (*OWNER, *READING, "previous", "last_at", "last_value_ns")
    ]
)


def steps_back(rows: Rows, outlined: pa.Table, lives: DataFrame) -> DataFrame:
    """Findings: the first step back of each clock. `outlined`: the lives again, for those who read rows."""
    readings = rows.through(READING_SCHEMA, reading(outlined)).select(
        *OWNER, *READING, "previous", "last_at", "last_value_ns"
    )
    whose = lives.select("world", "group_id", "process", "life", "epoch", "replica")
    named = readings.join(F.broadcast(whose), ["process", "life"], "inner")
    within = named.filter("last_at IS NULL").select(*CLOCK, *READING, "previous", "replica")
    every = within.unionByName(_between(named.filter("last_at IS NOT NULL").transform(_ends)))
    # The order number comes first among them; of several replicas that read it the same one is always named.
    first = every.groupBy(*CLOCK).agg(F.min(F.struct(*READING, "previous", "replica")).alias("one"))
    return first.select(*CLOCK, "one.*").transform(_as_findings)


def reading(outlined: pa.Table) -> Pass:
    columns = [outlined[name].to_pylist() for name in ("process", "life", "limit")]
    limits = {(one, life): limit for one, life, limit in zip(*columns, strict=True) if limit != NO_LIMIT}
    return Pass(partial(read_clocks, limits), COLUMNS, {"kind": ("ClockRead",)})


def read_clocks(
    limits: Mapping[tuple[int, int], int], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The steps back, with the reading before; and of every life and clock of a batch the first reading, with
    the last beside it."""
    import pyarrow as pa

    for batch in batches:
        keys = [numbers(batch.column(name)) for name in (*OWNER, "order_seq_num")]
        order = _surviving(limits, keys, np.lexsort(keys[::-1]))
        if not len(order):
            continue
        starts = run_starts(*(key[order] for key in keys[:3]))
        lasts = order[np.append(starts[1:], len(order)) - 1]
        previous = batch.column("previous")
        known: Numbers = previous.is_valid().to_numpy(zero_copy_only=False)
        steps = order[(known & (numbers(batch.column("value_ns")) < numbers(previous)))[order]]
        yield _readings(batch.take(pa.array(steps)), None)
        yield _readings(batch.take(pa.array(order[starts])), batch.take(pa.array(lasts)))


def _surviving(limits: Mapping[tuple[int, int], int], keys: Sequence[Numbers], order: Numbers) -> Numbers:
    """Of the rows in this order those below the limit of their life."""
    if not limits or not len(order):
        return order
    process, life, _, number = (key[order] for key in keys)
    starts = run_starts(process, life)
    each = [limits.get((int(process[at]), int(life[at])), NO_LIMIT) for at in starts]
    return order[number < np.repeat(each, np.diff(starts, append=len(order)))]


def _readings(firsts: pa.RecordBatch, lasts: pa.RecordBatch | None) -> pa.RecordBatch:
    import pyarrow as pa

    columns = {name: firsts.column(name) for name in (*OWNER, *READING[:3], "previous")}
    view = dict(zip(firsts.schema.field("view").type.names, firsts.column("view").flatten(), strict=True))
    columns |= {"view_num": view["primary_view_num"], "view_precedence": view["precedence"]}
    for name, of in (("last_at", "order_seq_num"), ("last_value_ns", "value_ns")):
        columns[name] = pa.nulls(firsts.num_rows, pa.int64()) if lasts is None else lasts.column(of)
    return pa.RecordBatch.from_pydict(columns)


def _ends(pieces: DataFrame) -> DataFrame:
    """The first and the last reading of every clock in every life."""
    at = "order_seq_num"
    return pieces.groupBy(*CLOCK, "process", "life", "replica").agg(
        *(F.min_by(name, at).alias(name) for name in READING if name != at),
        F.min(at).alias(at),
        F.max_by("last_value_ns", "last_at").alias("last_value_ns"),
        F.max("last_at").alias("last_at"),
    )


def _between(ends: DataFrame) -> DataFrame:
    """First readings of lives that are below the last of one that had ended before."""
    first = F.struct(*READING, "replica")
    begins = ends.select(
        *CLOCK,
        F.col("order_seq_num").alias("at"),
        first.alias("first"),
        F.lit(None).cast("long").alias("ended"),
    )
    nobody = F.lit(None).cast(begins.schema["first"].dataType)
    finishes = ends.select(
        *CLOCK, F.col("last_at").alias("at"), nobody.alias("first"), F.col("last_value_ns").alias("ended")
    )
    before = Window.partitionBy(*CLOCK).orderBy("at").rangeBetween(Window.unboundedPreceding, -1)
    return (
        begins.unionByName(finishes)
        .withColumn("previous", F.max("ended").over(before))
        .filter(F.col("first.value_ns") < F.col("previous"))
        .select(*CLOCK, "first.*", "previous")
    )


def _as_findings(found: DataFrame) -> DataFrame:
    values = {
        "condition": F.lit("clock"),
        "severity": F.lit(VIOLATION),
        "view": view_name(),
        "expected": F.format_string("%d ns or later", "previous"),
        "found": F.format_string("%d ns", "value_ns"),
        "explanation": F.format_string(
            "Clock %d of group %d went back from %d ns to %d ns at operation %d of replica %s.",
            *("clock_id", "group_id", "previous", "value_ns", "order_seq_num", "replica"),
        ),
    }
    return found.transform(as_findings, values)
