"""What was done for nothing, which the fault model allows: told, operation by operation, and no violation
(D-11).

pruned_operations     performed on a side branch that was superseded
unheard_operations    performed by a primary that died before anybody heard of them

Workers pick the operations out (`cut_off`); they are few, and told by whoever has all of a group (`tell`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BooleanType, IntegerType, LongType, StringType, StructField, StructType

from llft.pipeline.audit.findings import FINDING_SCHEMA, LOSS, Finding
from llft.pipeline.audit.prints import numbers, run_starts
from llft.pipeline.scan import Pass

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from llft.pipeline.audit.whole import Limits, Row, Whole
    from llft.pipeline.scan import Rows

PRUNED = "pruned_operations"
UNHEARD = "unheard_operations"
IS_CUT = "last_number >= `limit`"
"""Of a life: it did more than what survives."""

READ = ("world", "group_id", "process", "life", "order_seq_num", "entry", "wall_ns", "view")
_TYPES = {"epoch": IntegerType(), "entry": StringType(), "replica": StringType(), "pruned": BooleanType()}
LOST = ("world", "group_id", "epoch", "view_num", "view_precedence", "order_seq_num", "wall_ns", "replica")
LOST_SCHEMA = StructType(
    [StructField(name, _TYPES.get(name, LongType())) for name in (*LOST, "entry", "pruned")]
)


class Cut(NamedTuple):
    """Of a life that did more than what survives."""

    epoch: int
    limit: int
    replica: str
    pruned: bool


Cuts = Mapping[tuple[int, int], Cut]


def cuts_of(outlined: pa.Table) -> Cuts:
    """By process and life, of `Outline.lives`."""
    every = outlined.to_pylist()
    return {
        (one["process"], one["life"]): Cut(*(one[name] for name in Cut._fields))
        for one in every
        if one["last_number"] >= one["limit"]
    }


def lost_operations(rows: Rows, cuts: Cuts) -> DataFrame:
    """Findings: each operation of a branch once, however many replicas performed it."""
    lost = rows.through(LOST_SCHEMA, cutting(cuts))
    return lost.repartition("world", "group_id").mapInArrow(tell, FINDING_SCHEMA)


def cutting(cuts: Cuts) -> Pass:
    return Pass(partial(cut_off, cuts), READ, {"kind": ("Operated",)})


def cut_off(cuts: Cuts, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """`LOST_SCHEMA`: the operations behind the limits of their lives."""
    import pyarrow as pa

    for batch in batches:
        if not batch.num_rows:
            continue
        process, life, number = (numbers(batch.column(name)) for name in ("process", "life", "order_seq_num"))
        starts = run_starts(process, life)
        whose = [cuts.get((int(process[at]), int(life[at]))) for at in starts]
        for begin, end, cut in zip(starts, [*starts[1:], len(number)], whose, strict=True):
            if cut is None:
                continue
            at = begin + np.flatnonzero(number[begin:end] >= cut.limit)
            if len(at):
                yield _lost(batch.take(pa.array(at)), cut)


def _lost(rows: pa.RecordBatch, cut: Cut) -> pa.RecordBatch:
    import pyarrow as pa

    view = dict(zip(rows.schema.field("view").type.names, rows.column("view").flatten(), strict=True))
    there = {name: rows.column(name) for name in READ[:-1]}
    there |= {"view_num": view["primary_view_num"], "view_precedence": view["precedence"]}
    for name in ("epoch", "replica", "pruned"):
        there[name] = pa.repeat(getattr(cut, name), rows.num_rows)
    schema = to_arrow_schema(LOST_SCHEMA)
    return pa.RecordBatch.from_arrays([there[one.name].cast(one.type) for one in schema], schema=schema)


def tell(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """All of a group is here."""
    import pyarrow as pa

    found = [one._asdict() for one in told(row for batch in batches for row in batch.to_pylist())]
    yield from pa.Table.from_pylist(found, schema=to_arrow_schema(FINDING_SCHEMA)).to_batches()


def told(rows: Iterable[dict[str, Any]]) -> list[Finding]:
    """`LOST_SCHEMA`, all rows of each group. Of several who did it the first is named."""
    first: dict[tuple[int, ...], dict[str, Any]] = {}
    for row in rows:
        key = tuple(row[name] for name in LOST[:-2])
        known = first.setdefault(key, row)
        if (row["wall_ns"], row["replica"]) < (known["wall_ns"], known["replica"]):
            first[key] = row
    return [_finding(row) for _, row in sorted(first.items())]


def lost_in(whole: Whole, limits: Limits) -> list[Finding]:
    """The same of whole worlds."""
    operated = whole.columns("Operated")
    lost = np.flatnonzero(operated["order_seq_num"] >= limits.limit[operated["life"]])
    return told(_lost_row(whole, row) for row in whole.rows_at("Operated", lost))


def _lost_row(whole: Whole, row: Row) -> dict[str, Any]:
    life, record = whole.lives[row.life], row.record
    return {
        "world": whole.worlds[row.life],
        "group_id": life.group_id,
        "epoch": life.epoch,
        "view_num": record.stamp.view.primary_view_num,
        "view_precedence": record.stamp.view.precedence,
        "order_seq_num": record.order_seq_num,
        "wall_ns": row.wall_ns,
        "replica": str(life.birth_id),
        "entry": record.entry,
        "pruned": life.pruned,
    }


def _finding(row: dict[str, Any]) -> Finding:
    view, number = f"v{row['view_num']}/p{row['view_precedence']}", row["order_seq_num"]
    return Finding(
        PRUNED if row["pruned"] else UNHEARD,
        LOSS,
        row["world"],
        row["group_id"],
        epoch=row["epoch"],
        view=view,
        order_seq_num=number,
        replica=row["replica"],
        found=row["entry"],
        wall_ns=row["wall_ns"],
        explanation=f"Operation {number} of group {row['group_id']} in view {view} was lost: {row['entry']}.",
    )
