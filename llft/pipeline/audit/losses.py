"""What was done for nothing, which the fault model allows: told, operation by operation, and no violation
(D-11).

pruned_operations     performed on a side branch that was superseded
unheard_operations    performed by a primary that died before anybody heard of them
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from llft.pipeline.audit.columns import VIEW_NUMBERS, as_findings, view_name, view_numbers
from llft.pipeline.audit.findings import LOSS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PRUNED = "pruned_operations"
UNHEARD = "unheard_operations"
IS_CUT = "last_number >= `limit`"
"""Of a life: it did more than what survives."""


def lost_operations(records: DataFrame, lives: DataFrame) -> DataFrame:
    """Each operation of a branch once, however many replicas performed it."""
    cut = lives.filter(IS_CUT).select("process", "life", "epoch", "limit", "replica", "pruned")
    lost = (
        records.filter("kind = 'Operated'")
        .select("world", "group_id", "process", "life", "order_seq_num", "entry", "wall_ns", *view_numbers())
        .join(F.broadcast(cut), ["process", "life"], "inner")
        .filter(F.col("order_seq_num") >= F.col("limit"))
    )
    names = ("replica", "entry", "wall_ns", "pruned")
    once = lost.groupBy("world", "group_id", "epoch", *VIEW_NUMBERS, "order_seq_num").agg(
        F.min_by(F.struct(*names), "wall_ns").alias("one")
    )
    values = {
        "condition": F.when(F.col("one.pruned"), PRUNED).otherwise(UNHEARD),
        "severity": F.lit(LOSS),
        "view": view_name(),
        "replica": F.col("one.replica"),
        "found": F.col("one.entry"),
        "wall_ns": F.col("one.wall_ns"),
        "explanation": F.format_string(
            "Operation %d of group %d in view %s was lost: %s.",
            *("order_seq_num", "group_id", view_name(), "one.entry"),
        ),
    }
    return once.transform(as_findings, values)
