"""Rare records and fingerprints of every group -> its lives with their limits, the findings that need no more
than those, and where its lives may differ.

One row for a group comes back, with lists. Groups are judged each by itself, wherever Spark puts them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from llft.identifiers import BirthId, ConnectionId
from llft.pipeline.audit import rare_sequences, rare_views
from llft.pipeline.audit.branches import split_epochs, trace
from llft.pipeline.audit.findings import FINDING_SCHEMA, Finding
from llft.pipeline.audit.history import History
from llft.pipeline.audit.lives import Life, Row, members_of, view_of
from llft.pipeline.audit.prints import PRINT_SCHEMA, PRINTING
from llft.pipeline.audit.suspects import Print, suspects
from llft.pipeline.scan import Pass

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from llft.pipeline.scan import Rows

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
        StructField("split_off", BooleanType()),
        StructField("partial", BooleanType()),
    ]
)
SUSPECT_SCHEMA = StructType(
    [
        StructField("epoch", IntegerType()),
        StructField("kind", StringType()),
        StructField("bucket", LongType()),
    ]
)
OUTLINE_SCHEMA = StructType(
    [
        StructField("world", LongType()),
        StructField("group_id", LongType()),
        StructField("lives", ArrayType(LIFE_SCHEMA)),
        StructField("findings", ArrayType(FINDING_SCHEMA)),
        StructField("suspects", ArrayType(SUSPECT_SCHEMA)),
    ]
)
NAMED_IN_TEXT = ("connection", "position", "found", "expected")
RARE_COLUMNS = ("world", "group_id", "process", "life", "birth_id", *Row._fields[:-1], *NAMED_IN_TEXT)
RARE_SCHEMA = StructType(
    [
        StructField("world", LongType()),
        StructField("group_id", LongType()),
        StructField("rare", StringType()),
    ]
)
"""A record as JSON: on the way to the one place where it is looked at, columns would cost more than they
are worth."""

BOTH_SCHEMA = StructType([*RARE_SCHEMA, *(one for one in PRINT_SCHEMA if one.name not in RARE_SCHEMA.names)])


@dataclass(slots=True)
class Group:
    """What there is of one."""

    rare: list[dict[str, Any]] = field(default_factory=list)
    prints: list[Print] = field(default_factory=list)


Groups = dict[tuple[int, int], Group]
"""By world and group."""


@dataclass(frozen=True, slots=True)
class Outline:
    """Tables on the driver, from where every check takes what it needs."""

    lives: pa.Table
    """`LIFE_SCHEMA` with world and group: one row for each life of a process."""
    findings: pa.Table
    suspects: pa.Table
    """`SUSPECT_SCHEMA` with world and group."""


def outline(rows: Rows, prints: DataFrame | None = None) -> Outline:
    """`prints`: the fingerprints, which tell how far each life came and when, and where lives differ. If they
    are not known yet, one pass makes them beside the rare records."""
    if prints is None:
        both = rows.through(BOTH_SCHEMA, GATHERING, PRINTING)
    else:
        both = rows.through(RARE_SCHEMA, GATHERING).unionByName(prints, allowMissingColumns=True)
    outlined = both.repartition("world", "group_id").mapInArrow(_outline_groups, OUTLINE_SCHEMA)
    return unfolded(outlined.toArrow())


def unfolded(outlined: pa.Table) -> Outline:
    """`OUTLINE_SCHEMA` as tables."""
    return Outline(*(_unfolded(outlined, name) for name in ("lives", "findings", "suspects")))


def _unfolded(outlined: pa.Table, name: str) -> pa.Table:
    """The lists of all groups as one table, with world and group in front unless they are in it."""
    import pyarrow as pa
    from pyarrow import compute

    lists = outlined.select(["world", "group_id", name]).combine_chunks()
    structs = compute.list_flatten(lists[name]).combine_chunks()
    own = dict(zip(structs.type.names, structs.flatten(), strict=True))
    whose = lists.select(["world", "group_id"]).take(compute.list_parent_indices(lists[name]))
    return pa.table({"world": whose["world"], "group_id": whose["group_id"], **own})


def _as_json(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    for batch in batches:
        whose = {name: batch.column(name) for name in ("world", "group_id")}
        yield pa.RecordBatch.from_pydict(whose | {"rare": [json.dumps(row) for row in batch.to_pylist()]})


def _outline_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """All rows of a group are here, in any order."""
    groups: Groups = {}
    for batch in batches:
        columns = (batch.column(name).to_pylist() for name in ("world", "group_id", "rare", *Print._fields))
        for world, group_id, rare, *printed in zip(*columns, strict=True):
            group = groups.setdefault((world, group_id), Group())
            if rare is None:
                group.prints.append(Print._make(printed))
            else:
                group.rare.append(json.loads(rare))
    yield from outline_groups(groups).to_batches()


def outline_groups(groups: Groups) -> pa.Table:
    """`OUTLINE_SCHEMA`."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    outlined = [_outline_group(*whose, group) for whose, group in sorted(groups.items())]
    return pa.Table.from_pylist(outlined, schema=to_arrow_schema(OUTLINE_SCHEMA))


def _outline_group(world: int, group_id: int, group: Group) -> dict[str, Any]:
    lives = lives_of(group.rare, group.prints)
    found = judge(world, group_id, lives)
    return {
        "world": world,
        "group_id": group_id,
        "lives": [_as_row(life) for life in lives],
        "findings": [finding._asdict() for finding in found],
        "suspects": [one._asdict() for one in suspects(group.prints, lives)],
    }


def lives_of(rare: Iterable[dict[str, Any]], prints: Iterable[Print]) -> list[Life]:
    """Whoever did anything wrote something rare: it became something, or its first operation follows none."""
    lives: dict[tuple[int, int], Life] = {}
    for one in sorted(rare, key=lambda row: row["place"]):
        fields = {name: one[name] for name in Row._fields[:-1]} | {"text": _text(one)}
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
    for each in prints:
        life = lives[each.process, each.life]
        life.first_wall_ns = min(life.first_wall_ns, each.first_wall_ns)
        life.last_wall_ns = max(life.last_wall_ns, each.last_wall_ns)
        if each.kind == "Operated":
            life.last_number = max(life.last_number, each.last_number)
    return list(lives.values())


def _text(rare: dict[str, Any]) -> str | None:
    """What a replica says that found itself diverging (D-09)."""
    if rare["kind"] != "Diverged":
        return None
    connection = ConnectionId(**rare["connection"])
    return divergence_text(connection, rare["position"], rare["expected"], rare["found"])


def divergence_text(connection: ConnectionId, position: int, expected: int, found: int) -> str:
    return f"its message {position} on {connection} has the digest {found:#x}, the primary's {expected:#x}"


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
        "split_off": life.split_off,
        "partial": life.partial,
    }


GATHERING = Pass(_as_json, RARE_COLUMNS, {"rare": (True,)})
