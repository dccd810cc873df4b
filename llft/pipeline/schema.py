"""The columns of a journal record in Spark, generated from `llft.journal.record`.

One wide row for all kinds of records: `kind` says which, and the fields that a kind does not have are
null. Fields of one name are one column, so they must be of one type. Nested named tuples are structs.
In front of the fields stands where the record was read; behind them what is derived while a journal is
decoded in its order, so that no check has to sort for it:

    world              0, or the seed of a simulation: group ids are unique within a world
    source, place      the file, and the place in the journal of the process: segment << 40 | offset of its
                       frame, and one more for each record before it in that
    version            of the schema that it was written in
    process            64 bits that stand for world, group and birth id: what to group by
    life               0, and one more each time the process begins to join again
    wall_ns            the time of day, as far as the birth id shows it; comparable between hosts
    performed          the number of the last operation before this record; 0: none, null: not known
    previous           its predecessor: of a ClockRead the value of the same clock before, of a Delivered
                       the offset reached, of a Sent the position; 0: none, null: not known
    content            64 bits that stand for what all replicas must have in common at this order number
    rare               whether the checks of rare records need it; sealed records are sorted by this first

"Not known" follows a gap: what was lost may have been the predecessor.
"""

from __future__ import annotations

import types
import typing
from enum import Enum
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from llft.journal.record import RECORD_TYPES, Stamp

PIPELINE_VERSION = 2
"""Of the columns that are not the journal's own, and of marks: changes when what is derived does."""

PROVENANCE = StructType(
    [
        StructField("world", LongType()),
        StructField("source", StringType()),
        StructField("place", LongType()),
        StructField("version", IntegerType()),
        StructField("kind", StringType()),
    ]
)
DERIVED = StructType(
    [
        StructField("process", LongType()),
        StructField("life", IntegerType()),
        StructField("wall_ns", LongType()),
        StructField("performed", LongType()),
        StructField("previous", LongType()),
        StructField("content", LongType()),
        StructField("rare", BooleanType()),
    ]
)
_SCALARS: dict[Any, DataType] = {int: LongType(), str: StringType(), bool: BooleanType()}


def column_type(hint: Any) -> DataType:
    """Of a field with this type hint."""
    if hint in _SCALARS:
        return _SCALARS[hint]
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        (something,) = (argument for argument in arguments if argument is not type(None))
        return column_type(something)
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return ArrayType(column_type(arguments[0]))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return column_type(type(next(iter(hint)).value))
    if isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_fields"):
        return StructType([StructField(name, column_type(of)) for name, of in _hints(hint).items()])
    raise TypeError(f"no column can hold a {hint!r}")


def _hints(named_tuple: type) -> dict[str, Any]:
    return typing.get_type_hints(named_tuple)


def _field_types() -> dict[str, DataType]:
    """Of all kinds together, the stamp's first."""
    found = {name: column_type(hint) for name, hint in _hints(Stamp).items()}
    for kind in RECORD_TYPES:
        for name, hint in _hints(kind).items():
            if name == "stamp":
                continue
            known = found.setdefault(name, column_type(hint))
            if known != column_type(hint):
                raise TypeError(f"{kind.__name__}.{name} is another type than a field of that name before")
    return found


FIELDS = StructType([StructField(name, of) for name, of in _field_types().items()])
RECORD_SCHEMA = StructType([*PROVENANCE.fields, *FIELDS.fields, *DERIVED.fields])

KIND_FIELDS: dict[str, tuple[str, ...]] = {
    kind.__name__: tuple(name for name in _hints(kind) if name != "stamp") for kind in RECORD_TYPES
}
"""The fields of a kind behind its stamp."""

assert not {field.name for field in FIELDS} & {field.name for field in [*PROVENANCE, *DERIVED]}
