"""The records of simulated worlds as columns of numbers.

Seven thousand records a seed go this way, in the processor time of the simulation: nothing here is done
record by record but in the interpreter's own loops. What is no number (births, views, connections, texts)
is so few different values that each is given a number.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from pyspark.sql.types import LongType

from llft.identifiers import BirthId
from llft.journal.record import RECORD_TYPES, Record
from llft.pipeline.audit.prints import Numbers
from llft.pipeline.decode import process_number
from llft.pipeline.schema import KIND_FIELDS, RECORD_SCHEMA

KIND_CODES: dict[type, int] = {kind: code for code, kind in enumerate(RECORD_TYPES)}
WHOLE_NUMBERS = frozenset(one.name for one in RECORD_SCHEMA if one.dataType == LongType())


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
    lanes: list[Lane] = field(default_factory=list)
    stamps: Columns = field(default_factory=Columns)
    """Of all records, in their order: kind, lane, time, group, view."""
    fields: dict[type, Columns] = field(default_factory=dict)
    """Of the records of a kind, in their order."""
    codes: dict[str, Codes] = field(default_factory=dict)
    """Of a column that has no numbers: what its codes stand for."""

    def column(self, name: str, values: Iterable[Any], count: int) -> Numbers:
        if name in WHOLE_NUMBERS:
            return np.fromiter(values, np.int64, count)
        return self.codes.setdefault(name, Codes()).of(values, count)


def gather(into: Gathered, records: Iterable[Record], *, world: int) -> None:
    """Each process's records in their order, which is that of its journal."""
    by_kind: dict[type, list[Record]] = defaultdict(list)
    every = list(records)
    if not every:
        return
    for record in every:
        by_kind[type(record)].append(record)
    _gather_stamps(into, every, world)
    for kind, rows in by_kind.items():
        columns = into.fields.setdefault(kind, Columns())
        _, *fields = zip(*rows, strict=True)
        for name, values in zip(KIND_FIELDS[kind.__name__], fields, strict=True):
            columns.add(name, into.column(name, values, len(rows)))


def _gather_stamps(into: Gathered, every: list[Record], world: int) -> None:
    count = len(every)
    time_ns, group_id, births, views = zip(*[record[0] for record in every], strict=True)
    births_here = Codes()
    lane = births_here.of(births, count)
    into.stamps.add("lane", lane + len(into.lanes))
    into.stamps.add("kind", np.fromiter(map(KIND_CODES.__getitem__, map(type, every)), np.int64, count))
    into.stamps.add("time_ns", np.fromiter(time_ns, np.int64, count))
    into.stamps.add("group_id", np.fromiter(group_id, np.int64, count))
    into.stamps.add("view", into.column("view", views, count))
    for birth_id, first in zip(births_here, np.unique(lane, return_index=True)[1].tolist(), strict=True):
        process = process_number(world, group_id[first], birth_id)
        into.lanes.append(Lane(world, birth_id, process, birth_id.start_ns - time_ns[first]))
