"""The columns of what a campaign keeps. Types and no text: executors have nobody who could parse it."""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)


def _columns(**types: DataType) -> StructType:
    return StructType([StructField(name, of) for name, of in types.items()])


OUTCOME_SCHEMA = _columns(
    world=LongType(),
    cell=IntegerType(),
    seed=LongType(),
    profile=StringType(),
    replicas=IntegerType(),
    output_commit=IntegerType(),
    operations=LongType(),
    acknowledged=LongType(),
    lost_acknowledged=LongType(),
    primary_failures=LongType(),
    failovers_ns=ArrayType(LongType()),
    violations=ArrayType(_columns(property=StringType(), explanation=StringType())),
    in_journals=ArrayType(StringType()),
    losses=StringType(),
    pruned=BooleanType(),
    trace_hash=StringType(),
    simulated_ns=LongType(),
    records=LongType(),
    doubtful=BooleanType(),
    cpu_s=DoubleType(),
)
"""A row per seed (`outcome.row_of`)."""
