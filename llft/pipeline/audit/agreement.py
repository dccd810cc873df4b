"""The central check: all replicas of a group performed, sent and read the same under the same order number.

Fingerprint, then drill. Where the lives of a group agree in their fingerprints (`prints`) nothing more is
looked at; where they do not (`suspects`), because one joined, ended or was pruned in between, or because
they really differ, the rows themselves are compared (`drill`), group by group.

It finds Theorem 2 (operations), output digests (D-09) and clock readings (D-18), each by its first
divergence.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StructField, StructType

from llft.identifiers import ConnectionId
from llft.pipeline.audit.drill import Drill, differing_groups, suspected
from llft.pipeline.audit.findings import FINDING_SCHEMA, VIOLATION, Finding
from llft.pipeline.audit.lives import view_of
from llft.pipeline.audit.prints import COMPARED, run_starts
from llft.pipeline.audit.streams import begin_offsets, surviving_sent
from llft.pipeline.scan import Pass
from llft.pipeline.schema import FIELDS, RECORD_SCHEMA

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from llft.pipeline.audit.outline import Outline
    from llft.pipeline.scan import Rows

CONDITIONS = dict(zip(COMPARED, ("theorem2", "digests", "clock"), strict=True))
NOUNS = {
    "Operated": "Operation",
    "Sent": "The message sent at order number",
    "ClockRead": "The clock reading at order number",
}
FEW_SUSPECTS = 16
"""So many buckets are read by the one who asks, without a job: each has 4096 numbers."""
KEYS = ("world", "group_id", "kind", "process", "life", "order_seq_num", "content", "position", "connection")
VALUES = ("birth_id", "view", "wall_ns", "entry", "size", "digest", "timestamp", "clock_id", "value_ns")
DRILL_SCHEMA = StructType([RECORD_SCHEMA[name] for name in (*KEYS, *VALUES)])
PLACED_SCHEMA = StructType(
    [
        *FINDING_SCHEMA,
        RECORD_SCHEMA["kind"],
        StructField("key_connection", FIELDS["connection"].dataType),
        StructField("key_number", LongType()),
        StructField("greater_size", LongType()),
    ]
)
"""A finding, and of a message what tells where its bytes are."""


def divergences(rows: Rows, outline: Outline, lives: DataFrame) -> DataFrame:
    """Findings: the first divergence of each history and kind, in the buckets that are suspected."""
    drill = Drill.of(outline)
    if outline.suspects.num_rows > FEW_SUSPECTS:
        drill = drill.narrowed(differing_groups(rows, drill))
        if not drill.places:
            return rows.frame.sparkSession.createDataFrame([], FINDING_SCHEMA)
    near = Pass(partial(suspected, drill), DRILL_SCHEMA.names, drill.where)
    if rows.files and sum(map(len, drill.places.values())) <= FEW_SUSPECTS:
        found = rows.frame.sparkSession.createDataFrame(_first_of_few(drill, rows.read(near)), PLACED_SCHEMA)
    else:
        found = _first_of_many(drill, rows.through(DRILL_SCHEMA, near))
    if "Sent" in drill.kinds:
        group_id = F.col("group_id").isin(*drill.groups)
        placed = begin_offsets(found.drop("begin_offset"), surviving_sent(rows.frame.filter(group_id), lives))
        found = placed.withColumn("end_offset", F.col("begin_offset") + F.col("greater_size"))
    return found.select(*FINDING_SCHEMA.names)


def _first_of_many(drill: Drill, near: DataFrame) -> DataFrame:
    def first(rows: pa.Table) -> pa.Table:  # Spark does not take a partial for this
        return _first(drill, rows)

    return near.groupBy("world", "group_id").applyInArrow(first, PLACED_SCHEMA)


def _first_of_few(drill: Drill, batches: Iterable[pa.RecordBatch]) -> pa.Table:
    import pyarrow as pa
    from pyarrow import compute

    near = list(batches)
    rows = pa.Table.from_batches(near) if near else to_arrow_schema(DRILL_SCHEMA).empty_table()
    found = [to_arrow_schema(PLACED_SCHEMA).empty_table()]
    for world, group_id in sorted({key[:2] for key in drill.places}):
        whose = compute.and_(compute.equal(rows["world"], world), compute.equal(rows["group_id"], group_id))
        found.append(_first(drill, rows.filter(whose)))
    return pa.concat_tables(found)


def _first(drill: Drill, rows: pa.Table) -> pa.Table:
    """Of one group."""
    import pyarrow as pa
    from pyarrow import compute

    epochs = [drill.whose[owner][0] for owner in zip(*_lists(rows, "process", "life"), strict=True)]
    rows = rows.append_column("epoch", pa.array(epochs, pa.int32())).combine_chunks()
    found = []
    for epoch in sorted(set(epochs)):
        for kind in COMPARED:
            is_one = compute.and_(compute.equal(rows["epoch"], epoch), compute.equal(rows["kind"], kind))
            versions = _first_differing(rows.filter(is_one), kind).to_pylist()
            if versions:
                found.append(_placed(drill, versions))
    return pa.Table.from_pylist(found, schema=to_arrow_schema(PLACED_SCHEMA))


def _lists(rows: pa.Table, *names: str) -> list[list[Any]]:
    return [rows[name].to_pylist() for name in names]


def _first_differing(rows: pa.Table, kind: str) -> pa.Table:
    """All that lives have at the first place where two of them differ. A message is told by connection and
    position, all else by its order number."""
    if not rows.num_rows:
        return rows
    number, content = (rows[name].to_numpy() for name in ("order_seq_num", "content"))
    keys = [number]
    if kind == "Sent":
        keys = [rows["position"].to_numpy()]
        keys += [part.to_numpy() for part in rows["connection"].combine_chunks().flatten()]
    order = np.lexsort((content, *keys))
    sorted_keys = [key[order] for key in keys]
    starts = run_starts(*sorted_keys)
    ends = np.append(starts[1:], len(order))
    differs = content[order][starts] != content[order][ends - 1]
    if not differs.any():
        return rows.slice(0, 0)
    at = np.minimum.reduceat(number[order], starts)
    one = np.flatnonzero(differs)[np.argmin(at[differs])]
    return rows.take(order[starts[one] : ends[one]])


def _placed(drill: Drill, versions: list[dict[str, Any]]) -> dict[str, Any]:
    """The primary's word comes first, else the earliest; the other is the first that is not the same."""

    def name(one: dict[str, Any]) -> str:
        return drill.whose[one["process"], one["life"]][2]

    def rank(one: dict[str, Any]) -> tuple[bool, int, str, int]:
        return one["view"]["birth_id"] != one["birth_id"], one["wall_ns"], name(one), one["content"]

    versions.sort(key=rank)
    expected = versions[0]
    found = next(one for one in versions if one["content"] != expected["content"])
    kind, connection = expected["kind"], expected["connection"] if expected["kind"] == "Sent" else None
    finding = Finding(
        CONDITIONS[kind],
        VIOLATION,
        expected["world"],
        expected["group_id"],
        epoch=expected["epoch"],
        view=str(view_of(found["view"])),
        order_seq_num=expected["order_seq_num"],
        replica=name(found),
        other_replica=name(expected),
        connection=str(ConnectionId(**connection)) if connection else None,
        expected=_value(expected),
        found=_value(found),
        wall_ns=found["wall_ns"],
        explanation=f"{NOUNS[kind]} {expected['order_seq_num']} of group {expected['group_id']} is "
        f"{_value(expected)} at replica {name(expected)} and {_value(found)} at replica {name(found)}.",
    )
    sizes = (expected["size"], found["size"])
    return finding._asdict() | {
        "kind": kind,
        "key_connection": connection,
        "key_number": expected["position"] if connection else expected["order_seq_num"],
        "greater_size": max(sizes) if connection else None,
    }


def _value(version: dict[str, Any]) -> str:
    """What a replica has there, as text."""
    if version["kind"] == "Operated":
        return str(version["entry"])
    if version["kind"] == "ClockRead":
        return f"clock {version['clock_id']} at {version['value_ns']} ns"
    return (
        f"size {version['size']}, digest {version['digest']:#x}, timestamp {version['timestamp']}, "
        f"order number {version['order_seq_num']}"
    )
