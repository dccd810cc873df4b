"""Rare records of every group -> its lives with their limits, and the findings that need no more than those.

One row for a group comes back, with two lists. Groups are judged each by itself, wherever Spark puts them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from llft.identifiers import BirthId
from llft.pipeline.audit import rare_sequences, rare_views
from llft.pipeline.audit.branches import split_epochs, trace
from llft.pipeline.audit.findings import FINDING_SCHEMA, Finding
from llft.pipeline.audit.history import History
from llft.pipeline.audit.lives import Life, Row, members_of, view_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

CHECKS = (*rare_views.CHECKS, *rare_sequences.CHECKS)
LIFE_SCHEMA = StructType(
    [
        StructField("process", LongType()),
        StructField("life", IntegerType()),
        StructField("epoch", IntegerType()),
        StructField("replica", StringType()),
        StructField("limit", LongType()),
        StructField("first_wall_ns", LongType()),
        StructField("last_wall_ns", LongType()),
        StructField("last_number", LongType()),
        StructField("pruned", BooleanType()),
        StructField("partial", BooleanType()),
    ]
)
OUTLINE_SCHEMA = StructType(
    [
        StructField("world", LongType()),
        StructField("group_id", LongType()),
        StructField("lives", ArrayType(LIFE_SCHEMA)),
        StructField("findings", ArrayType(FINDING_SCHEMA)),
    ]
)


@dataclass(frozen=True, slots=True)
class Outline:
    lives: DataFrame
    """`LIFE_SCHEMA` with world and group."""
    findings: DataFrame


def outline(records: DataFrame, prints: DataFrame) -> DataFrame:
    """One row for each group (`OUTLINE_SCHEMA`); worth keeping, for every other check needs it. `prints`: the
    fingerprints, which tell how far each life came and when."""
    rare = _rare_rows(records).groupBy("world", "group_id")
    return rare.cogroup(_extents(prints).groupBy("world", "group_id")).applyInArrow(
        _outline_group, OUTLINE_SCHEMA
    )


def unfold(outlined: DataFrame) -> Outline:
    lives = outlined.select("world", "group_id", F.explode("lives").alias("one"))
    findings = outlined.select(F.explode("findings").alias("one"))
    return Outline(lives.select("world", "group_id", "one.*"), findings.select("one.*"))


def _rare_rows(records: DataFrame) -> DataFrame:
    text = F.when(
        F.col("kind") == "Diverged",
        F.format_string(
            "its message %d on %d>%d#%d has the digest 0x%x, the primary's 0x%x",
            "position",
            "connection.client_group_id",
            "connection.server_group_id",
            "connection.conn_seq_num",
            "found",
            "expected",
        ),
    )
    return records.filter("rare").select(
        "world", "group_id", "process", "life", "birth_id", *Row._fields[:-1], text.alias("text")
    )


def _extents(prints: DataFrame) -> DataFrame:
    """Of every life: when its numbered deeds began and ended, and how far it came."""
    return prints.groupBy("world", "group_id", "process", "life").agg(
        F.min("first_wall_ns").alias("first_wall_ns"),
        F.max("last_wall_ns").alias("last_wall_ns"),
        F.max(F.when(F.col("kind") == "Operated", F.col("last_number"))).alias("last_number"),
    )


def _outline_group(rare: pa.Table, extents: pa.Table) -> pa.Table:
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    lives = lives_of(rare.to_pylist(), extents.to_pylist())
    whose = (rare if rare.num_rows else extents).select(["world", "group_id"]).slice(0, 1).to_pylist()[0]
    world, group_id = whose["world"], whose["group_id"]
    row = {
        "world": world,
        "group_id": group_id,
        "findings": [finding._asdict() for finding in judge(world, group_id, lives)],
        "lives": [_as_row(life) for life in lives],
    }
    return pa.Table.from_pylist([row], schema=to_arrow_schema(OUTLINE_SCHEMA))


def lives_of(rare: Iterable[dict[str, Any]], extents: Iterable[dict[str, Any]]) -> list[Life]:
    """Whoever did anything wrote something rare: it became something, or its first operation follows none."""
    lives: dict[tuple[int, int], Life] = {}
    for one in sorted(rare, key=lambda row: row["place"]):
        fields = {name: one[name] for name in Row._fields}
        fields |= {"view": view_of(one["view"]), "membership": members_of(one["membership"])}
        key, wall_ns = (one["process"], one["life"]), one["wall_ns"]
        if key not in lives:
            lives[key] = Life(one["group_id"], *key, BirthId(**one["birth_id"]), wall_ns, wall_ns)
        life = lives[key]
        life.rows.append(Row(**fields))
        life.first_wall_ns, life.last_wall_ns = (
            min(life.first_wall_ns, wall_ns),
            max(life.last_wall_ns, wall_ns),
        )
    for one in extents:
        life = lives[one["process"], one["life"]]
        life.first_wall_ns = min(life.first_wall_ns, one["first_wall_ns"])
        life.last_wall_ns = max(life.last_wall_ns, one["last_wall_ns"])
        life.last_number = one["last_number"] or 0
    return list(lives.values())


def judge(world: int, group_id: int, lives: Sequence[Life]) -> list[Finding]:
    """The findings of all histories of a group; sets epochs and limits of its lives."""
    found: list[Finding] = []
    for epoch, members in enumerate(split_epochs(lives)):
        history = History(world, group_id, epoch, members, trace(members))
        found += [finding for check in CHECKS for finding in check(history)]
        partial = history.partial
        for life in members:
            life.partial = partial
    return found


def _as_row(life: Life) -> dict[str, Any]:
    return {
        "process": life.process,
        "life": life.life,
        "epoch": life.epoch,
        "replica": str(life.birth_id),
        "limit": life.limit,
        "first_wall_ns": life.first_wall_ns,
        "last_wall_ns": life.last_wall_ns,
        "last_number": life.last_number,
        "pruned": life.pruned,
        "partial": life.partial,
    }
