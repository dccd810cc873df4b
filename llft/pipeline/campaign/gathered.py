"""The records of simulated worlds as columns of numbers.

Six thousand records a seed go this way, in the processor time of the simulation: nothing here is done
record by record but in the interpreter's own loops, and nothing that the checks of whole worlds can do
without (`encode` makes the rest, of the few worlds that are written down). What is no number is so few
different values in a world that each is given one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count as counting
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from llft.identifiers import BirthId
from llft.journal.record import RECORD_TYPES, ClockRead, Collected, Delivered, Operated, Record, Sent
from llft.pipeline.audit.prints import Numbers
from llft.pipeline.decode import process_number

KIND_CODES: dict[type, int] = {kind: code for code, kind in enumerate(RECORD_TYPES)}
WANTED: dict[type, tuple[str, ...]] = {
    Operated: ("order_seq_num", "entry"),
    Sent: ("connection", "position", "timestamp", "size", "digest", "order_seq_num"),
    Delivered: ("connection", "size", "stream_offset", "digest"),
    Collected: ("connection", "which", "up_to_timestamp"),
    ClockRead: ("clock_id", "value_ns", "order_seq_num"),
}
"""Of the kinds of which there are many, the fields that are looked at. The others are few, and looked at as
they are."""
CODED = frozenset(("which", "connection"))
COMPARED = frozenset(("entry",))
"""Of these only is asked whether they are equal, and most are new: where each came first is told at less cost
than a number of its own."""

_STAMP = itemgetter(0)
_TIME_NS, _BIRTH_ID = itemgetter(0), itemgetter(2)
_PLACES: dict[type, dict[str, int]] = {
    kind: {name: kind._fields.index(name) for name in names}  # type: ignore[attr-defined]
    for kind, names in WANTED.items()
}


class Codes(dict[Any, int]):
    """Values to numbers, in the order of their first coming."""

    def __missing__(self, value: Any) -> int:
        code = self[value] = len(self)
        return code

    def of(self, values: Iterable[Any], count: int) -> Numbers:
        return np.fromiter(map(self.__getitem__, values), np.int64, count)


class Lane(NamedTuple):
    """One process of one world."""

    world: int
    birth_id: BirthId
    group_id: int
    process: int
    wall_offset_ns: int


@dataclass(slots=True)
class Columns:
    """Pieces of columns, one for each world."""

    pieces: dict[str, list[Numbers]] = field(default_factory=dict)

    def add(self, name: str, piece: Numbers) -> None:
        self.pieces.setdefault(name, []).append(piece)

    def joined(self) -> dict[str, Numbers]:
        return {name: np.concatenate(every) for name, every in self.pieces.items()}


@dataclass(slots=True)
class Gathered:
    records: list[Record] = field(default_factory=list)
    lanes: list[Lane] = field(default_factory=list)
    stamps: Columns = field(default_factory=Columns)
    """Of all records, in their order: kind, lane, time."""
    fields: dict[type, Columns] = field(default_factory=dict)
    """Of the records of a kind that there are many of, in their order: `WANTED`. Equal entries have equal
    numbers within a world, connections a number of their own in each."""
    connections: list[tuple[int, ...]] = field(default_factory=list)
    """What their numbers stand for: world, client, server, number."""


def gather(into: Gathered, records: Iterable[Record], *, world: int) -> None:
    """Each process's records in their order, which is that of its journal."""
    every = list(records)
    if not every:
        return
    into.records += every
    kinds = _gather_stamps(into, every, world)
    codes: dict[str, Codes] = {name: Codes() for name in CODED}
    codes["which"].update(sent=1, delivered=0)
    for kind in WANTED:
        at = np.flatnonzero(kinds == KIND_CODES[kind]).tolist()
        if at:
            _gather_fields(into, kind, list(map(every.__getitem__, at)), codes)
    into.connections += [(world, *connection) for connection in codes["connection"]]


def _gather_stamps(into: Gathered, every: list[Record], world: int) -> Numbers:
    """Returns the kinds."""
    count = len(every)
    stamps = list(map(_STAMP, every))
    births_here = Codes()
    lane = births_here.of(map(_BIRTH_ID, stamps), count)
    into.stamps.add("lane", lane + len(into.lanes))
    kinds = np.fromiter(map(KIND_CODES.__getitem__, map(type, every)), np.int64, count)
    into.stamps.add("kind", kinds)
    into.stamps.add("time_ns", np.fromiter(map(_TIME_NS, stamps), np.int64, count))
    for birth_id, first in zip(births_here, np.unique(lane, return_index=True)[1].tolist(), strict=True):
        time_ns, group_id, *_ = stamps[first]
        process = process_number(world, group_id, birth_id)
        into.lanes.append(Lane(world, birth_id, group_id, process, birth_id.start_ns - time_ns))
    return kinds


def _gather_fields(into: Gathered, kind: type, rows: list[Record], codes: dict[str, Codes]) -> None:
    """All fields at once: to take them one by one costs half as much again."""
    columns = into.fields.setdefault(kind, Columns())
    every = list(zip(*rows, strict=True))
    for name, place in _PLACES[kind].items():
        values: Iterable[Any] = every[place]
        if name in CODED:
            coded = codes[name].of(values, len(rows))
            columns.add(name, coded + len(into.connections) if name == "connection" else coded)
            continue
        if name in COMPARED:
            values = map(dict[Any, int]().setdefault, values, counting())
        columns.add(name, np.fromiter(values, np.int64, len(rows)))
