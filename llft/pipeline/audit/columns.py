"""Columns that several checks make.

A check takes the few columns that it needs before it does anything else: every step over all of a record's
columns costs Spark more time for planning than most journals cost for reading.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from llft.pipeline.audit.findings import FINDING_SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def view_text(view: Column) -> Column:
    """As `str(ViewId)`."""
    return F.format_string("v%d/p%d", view["primary_view_num"], view["precedence"])


def view_numbers() -> tuple[Column, Column]:
    """What `view_name` needs: two numbers, which aggregates take better than a struct."""
    return F.col("view.primary_view_num").alias("view_num"), F.col("view.precedence").alias("view_precedence")


VIEW_NUMBERS = ("view_num", "view_precedence")


def view_name() -> Column:
    """As `view_text`, of the two numbers."""
    return F.format_string("v%d/p%d", *VIEW_NUMBERS)


def by_other() -> Column:
    """Whether somebody else is the primary of the view that a record was written in."""
    return F.col("view.birth_id") != F.col("birth_id")


def connection_text(connection: Column) -> Column:
    """As `str(ConnectionId)`; null for null."""
    parts = (connection[name] for name in ("client_group_id", "server_group_id", "conn_seq_num"))
    return F.when(connection.isNotNull(), F.format_string("%d>%d#%d", *parts))


def as_findings(rows: DataFrame, values: dict[str, Column]) -> DataFrame:
    """The columns of a finding: those given, those that are there, and null for the rest."""
    columns = []
    for field in FINDING_SCHEMA:
        there = F.col(field.name) if field.name in rows.columns else F.lit(None)
        columns.append(values.get(field.name, there).cast(field.dataType).alias(field.name))
    return rows.select(*columns)
