"""Columns that several checks make."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from llft.pipeline.audit.findings import FINDING_SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def view_text(view: Column) -> Column:
    """As `str(ViewId)`."""
    return F.format_string("v%d/p%d", view["primary_view_num"], view["precedence"])


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
