"""What the audit found: a condition, how grave it is, where, and the two values that differ."""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

VIOLATION = "violation"
"""A property of the paper, or of this system, does not hold; or the journals cannot show that it does."""
WARNING = "warning"
"""Nothing is known to be wrong, but less is proved than could be."""
LOSS = "loss"
"""What the fault model allows to be lost: told, and no violation (D-11)."""


class Finding(NamedTuple):
    """Fields that make no sense for a condition are None."""

    condition: str
    severity: str
    world: int
    group_id: int | None
    epoch: int | None = None
    """Which history of the group: one that died out entirely begins anew."""
    view: str | None = None
    order_seq_num: int | None = None
    replica: str | None = None
    other_replica: str | None = None
    connection: str | None = None
    begin_offset: int | None = None
    """Of the bytes concerned, in their direction of the connection."""
    end_offset: int | None = None
    expected: str | None = None
    found: str | None = None
    wall_ns: int | None = None
    explanation: str = ""


_TYPES = {"world": LongType(), "group_id": LongType(), "epoch": IntegerType(), "order_seq_num": LongType()}
_TYPES |= {"begin_offset": LongType(), "end_offset": LongType(), "wall_ns": LongType()}

FINDING_SCHEMA = StructType([StructField(name, _TYPES.get(name, StringType())) for name in Finding._fields])
