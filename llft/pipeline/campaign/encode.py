"""The records of a simulated world as the rows that journals on disk become: the same columns, the same
audit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from llft.identifiers import BirthId
from llft.journal.record import SCHEMA_VERSION, Record
from llft.pipeline.decode import ProcessState, Row, flatten
from llft.pipeline.ingest import arrow_batches

if TYPE_CHECKING:
    import pyarrow as pa

Gathered = dict[str, list[Row]]
"""Rows by kind."""


def gather(into: Gathered, records: Iterable[Record], *, world: int) -> None:
    """Each process's records in their order, which is that of its journal."""
    states: dict[tuple[int, BirthId], ProcessState] = {}
    places: dict[tuple[int, BirthId], int] = {}
    for record in records:
        stamp = record[0]
        key = (stamp.group_id, stamp.birth_id)
        state = states.get(key)
        if state is None:
            state = states[key] = ProcessState(world=world)
        place = places[key] = places.get(key, 0) + 1
        row = (world, "simulated", place, SCHEMA_VERSION, *flatten(record), *state.derive(record))
        kind = type(record).__name__
        rows = into.get(kind)
        if rows is None:
            rows = into[kind] = []
        rows.append(row)


def table_of(gathered: Gathered) -> pa.Table | None:
    """None if there is nothing: no file is better than an empty one."""
    import pyarrow as pa

    batches = list(arrow_batches(gathered))
    return pa.Table.from_batches(batches) if batches else None
