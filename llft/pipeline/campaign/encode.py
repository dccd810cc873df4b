"""The records of a simulated world as the rows that journals on disk become: the same columns, the same
audit.

Seven thousand records a seed go this way, in the processor time of the simulation. Hence the short cut for
operations, which are most of them; a test holds it against `ProcessState.derive`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

from llft.identifiers import NO_BIRTH, NO_VIEW, BirthId
from llft.journal.record import SCHEMA_VERSION, Operated, Record, Stamp
from llft.pipeline.decode import ProcessState, Row, content_of
from llft.pipeline.ingest import arrow_batches

if TYPE_CHECKING:
    import pyarrow as pa

Gathered = dict[str, list[Row]]
"""Rows by kind."""
SOURCE = "simulated"


class _Lane:
    """One process: what is known of it, and how many records it has."""

    __slots__ = ("place", "state")

    def __init__(self, world: int) -> None:
        self.state = ProcessState(world=world)
        self.place = 0


def gather(into: Gathered, records: Iterable[Record], *, world: int) -> None:
    """Each process's records in their order, which is that of its journal."""
    lanes: dict[BirthId, _Lane] = {}
    operated = into.setdefault(Operated.__name__, [])
    for record in records:
        stamp = record[0]
        lane = lanes.get(stamp[2])
        if lane is None:
            lane = lanes[stamp[2]] = _Lane(world)
        lane.place += 1
        state = lane.state
        if type(record) is Operated and state.group_id is not None:
            number, entry = record[1], record[2]
            before = state.performed
            state.performed = number
            state.milestones += 1
            rare = before is None or number != before + 1
            operated.append(
                (world, SOURCE, lane.place, SCHEMA_VERSION, *stamp, number, entry, state.process, state.life,
                 stamp[0] + state.wall_offset_ns, before, None, _content_of(entry), rare)
            )  # fmt: skip
        else:
            row = (world, SOURCE, lane.place, SCHEMA_VERSION, *stamp, *record[1:], *state.derive(record))
            into.setdefault(type(record).__name__, []).append(row)
    if not operated:
        del into[Operated.__name__]


@lru_cache(maxsize=1 << 13)
def _content_of(entry: str) -> int | None:
    """Remembered: the replicas of a group have the same entries."""
    return content_of(Operated(_ANY_STAMP, 0, entry))


_ANY_STAMP = Stamp(0, 0, NO_BIRTH, NO_VIEW)


def table_of(gathered: Gathered) -> pa.Table | None:
    """None if there is nothing: no file is better than an empty one."""
    import pyarrow as pa

    batches = list(arrow_batches(gathered))
    return pa.Table.from_batches(batches) if batches else None
