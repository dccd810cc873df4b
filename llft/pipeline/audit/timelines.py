"""The timelines of the groups worth looking at, from the records: those with findings, then the restless
ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812

from llft.pipeline.audit.columns import view_text
from llft.pipeline.audit.page import SHOWN_GROUPS, Mark, Span, Timeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Group = tuple[int, int]
MARKS_PER_GROUP = 300


def timelines(records: DataFrame, lives: DataFrame, findings: Sequence[Mapping[str, Any]]) -> list[Timeline]:
    """At most `SHOWN_GROUPS`; what is drawn is small, so it is collected."""
    chosen = _worth_looking_at(lives, findings)
    if not chosen:
        return []
    wanted = F.broadcast(records.sparkSession.createDataFrame(chosen, "world long, group_id long"))
    rows = (
        records.filter(F.col("kind").isin("RoleChanged", "ViewInstalled"))
        .join(wanted, ["world", "group_id"], "left_semi")
        .select(
            "world",
            "group_id",
            "process",
            "life",
            "kind",
            "role",
            "wall_ns",
            view_text(F.col("view")).alias("view"),
        )
        .orderBy("wall_ns")
        .collect()
    )
    known = lives.join(wanted, ["world", "group_id"], "left_semi").orderBy("first_wall_ns").collect()
    return [
        Timeline(world, group_id, spans_of(known, rows, (world, group_id)), marks)
        for world, group_id in chosen
        if (marks := _marks(known, rows, findings, (world, group_id))) is not None
    ]


def _worth_looking_at(lives: DataFrame, findings: Sequence[Mapping[str, Any]]) -> list[Group]:
    accused = {(one["world"], one["group_id"]): None for one in findings if one["group_id"] is not None}
    restless = lives.groupBy("world", "group_id").count().orderBy(F.desc("count"), "world", "group_id")
    calm = [(row["world"], row["group_id"]) for row in restless.limit(SHOWN_GROUPS).collect()]
    return list(dict.fromkeys([*accused, *calm]))[:SHOWN_GROUPS]


def spans_of(lives: Sequence[Any], rows: Sequence[Any], group: Group) -> list[Span]:
    """The roles of every life, one after the other, up to its last word."""
    spans = []
    for life in lives:
        if (life["world"], life["group_id"]) != group:
            continue
        changes = [(life["first_wall_ns"], "")]
        changes += [
            (row["wall_ns"], row["role"])
            for row in rows
            if row["kind"] == "RoleChanged"
            and (row["process"], row["life"]) == (life["process"], life["life"])
        ]
        ends = [*(at_ns for at_ns, _ in changes[1:]), life["last_wall_ns"]]
        spans += [
            Span(life["replica"], role, begin_ns, end_ns)
            for (begin_ns, role), end_ns in zip(changes, ends, strict=True)
            if role or end_ns > begin_ns
        ]
    return spans


def _marks(
    lives: Sequence[Any], rows: Sequence[Any], findings: Sequence[Mapping[str, Any]], group: Group
) -> list[Mark]:
    names = {(life["process"], life["life"]): life["replica"] for life in lives}
    views = [
        Mark(names.get((row["process"], row["life"])), row["wall_ns"], f"view {row['view']}", grave=False)
        for row in rows
        if row["kind"] == "ViewInstalled" and (row["world"], row["group_id"]) == group
    ]
    found = [
        Mark(one["replica"], one["wall_ns"], f"{one['condition']}: {one['explanation']}", grave=True)
        for one in findings
        if (one["world"], one["group_id"]) == group and one["wall_ns"] is not None
    ]
    return [*views[:MARKS_PER_GROUP], *found[:MARKS_PER_GROUP]]
