"""Client histories of a fleet -> findings: each object is judged by itself, wherever Spark puts it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema

from llft.errors import PeerError
from llft.pipeline.audit.findings import FINDING_SCHEMA, VIOLATION, WARNING, Finding
from llft.pipeline.histories.judge import judge
from llft.pipeline.histories.witness import ENDLESS_NS, Call

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

CONDITION = "history"
OBJECT = ("world", "group_id", "target")
FIELDS = ("client", "operation", "result", "call_ns", "return_ns", "call_order", "wall_ns")


def check_histories(records: DataFrame) -> DataFrame:
    """One finding at most for each object: where the group's order first fails to explain what clients
    saw."""
    calls = records.filter(F.col("kind") == "Called").select(*OBJECT, *FIELDS)
    return calls.groupBy(*OBJECT).applyInArrow(_judge_object, FINDING_SCHEMA)


def _judge_object(rows: pa.Table) -> pa.Table:
    import pyarrow as pa

    found = finding_of(rows.to_pylist())
    schema = to_arrow_schema(FINDING_SCHEMA)
    return pa.Table.from_pylist([found._asdict()] if found is not None else [], schema=schema)


def finding_of(rows: list[dict[str, Any]]) -> Finding | None:
    """The rows of one object. A target of which nobody has a model is a warning: less is proved than could
    be."""
    calls = [call_of(row) for row in rows]
    world, group_id, target = (rows[0][name] for name in OBJECT)
    return judge_calls(world, group_id, target, calls, max(row["wall_ns"] or 0 for row in rows))


def judge_calls(
    world: int, group_id: int, target: str, calls: list[Call], end_ns: int | None = None
) -> Finding | None:
    """`end_ns`: the time of day of the last."""
    try:
        found = judge(target, calls)
    except PeerError as error:
        return Finding(CONDITION, WARNING, world, group_id, found=target, explanation=str(error))
    if found is None:
        return None
    verdict, contradiction = found
    return Finding(
        CONDITION,
        VIOLATION,
        world,
        group_id,
        order_seq_num=contradiction.order,
        replica=contradiction.client,
        expected=contradiction.expected,
        found=contradiction.found,
        wall_ns=end_ns,
        explanation=f"{target} of group {group_id}, {verdict}: {contradiction.client} has "
        f"{contradiction.found} at place "
        f"{contradiction.order} of the group's order ({contradiction.condition}); expected "
        f"{contradiction.expected}.",
    )


def call_of(row: dict[str, Any]) -> Call:
    return call(*(row[name] for name in FIELDS[:-1]))


def call(client: str, operation: str, result: str, call_ns: int, return_ns: int, call_order: int) -> Call:
    if not return_ns:
        return Call(client, operation, None, call_ns, ENDLESS_NS, 0)
    return Call(client, operation, result, call_ns, return_ns, call_order)
