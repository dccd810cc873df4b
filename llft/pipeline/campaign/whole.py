"""The worlds of a batch, as the audit takes whole worlds (`audit.whole`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Any

import numpy as np

from llft.journal.record import RECORD_TYPES, Called, Delivered, Diverged
from llft.pipeline.audit import lives
from llft.pipeline.audit.lives import Life
from llft.pipeline.audit.outline import divergence_text
from llft.pipeline.audit.prints import COMPARED, Numbers
from llft.pipeline.audit.whole import UNKNOWN, Columns, Object, Row, Whole
from llft.pipeline.campaign.derive import Derived, previous
from llft.pipeline.campaign.gathered import KIND_CODES, WANTED, Gathered
from llft.pipeline.histories.transform import FIELDS, call
from llft.pipeline.histories.witness import Call

KINDS: dict[str, type] = {kind.__name__: kind for kind in RECORD_TYPES}
OF_A_RECORD = lives.Row._fields[5:-1]
"""What a rare row has of its record: null of the kinds that have no such field."""
BY_CONNECTION = ("Sent", "Delivered", "Collected")
_PLACES: dict[type, list[int | None]] = {
    kind: [kind._fields.index(name) if name in kind._fields else None for name in OF_A_RECORD]
    for kind in RECORD_TYPES
}
_OF_A_CALL = attrgetter(*FIELDS[:-1])
_NUMBERS = np.iinfo(np.int64)
_IS_COMPARED = np.array([kind.__name__ in COMPARED for kind in RECORD_TYPES])


def whole_of(gathered: Gathered, derived: Derived) -> Whole:
    shelf = _Shelf(gathered, derived)
    worlds = [gathered.lanes[at].world for at in derived.lane[shelf.starts].tolist()]
    return Whole(
        shelf.lives(),
        worlds,
        gathered.connections,
        shelf.columns,
        shelf.rows,
        shelf.rows_at,
        _calls(gathered, derived),
    )


class _Shelf:
    def __init__(self, gathered: Gathered, derived: Derived) -> None:
        self._gathered = gathered
        self._derived = derived
        begins = derived.begins & (derived.kind != KIND_CODES[Called])
        self.starts = np.flatnonzero(begins)
        """What clients write is no life: it stands behind one, and counts for nothing there."""
        self._life: Numbers = np.cumsum(begins) - 1
        """The number of the life that each row is of."""
        self._group_id = np.array([one.group_id for one in gathered.lanes], np.int64)
        self._known: dict[str, Columns] = {}

    def lives(self) -> list[Life]:
        """How long each lasted is told by what is compared, and by what is rare."""
        derived, starts = self._derived, self.starts
        counts = derived.rare | _IS_COMPARED[derived.kind]
        first_ns = np.minimum.reduceat(np.where(counts, derived.wall_ns, _NUMBERS.max), starts)
        last_ns = np.maximum.reduceat(np.where(counts, derived.wall_ns, _NUMBERS.min), starts)
        last_number = np.maximum.reduceat(derived.number, starts)
        columns = (derived.lane[starts], derived.life[starts], first_ns, last_ns, last_number)
        found = []
        for lane_at, life, *seen in zip(*(column.tolist() for column in columns), strict=True):
            lane = self._gathered.lanes[lane_at]
            found.append(Life(lane.group_id, lane.process, life, lane.birth_id, *seen))
        rare = np.flatnonzero(derived.rare)
        for place, row in zip(derived.place[rare].tolist(), self._taken(rare), strict=True):
            found[row.life].rows.append(_rare(row, place))
        return found

    def columns(self, kind: str) -> Columns:
        if kind not in self._known:
            self._known[kind] = self._columns(kind)
        return self._known[kind]

    def _columns(self, kind: str) -> Columns:
        derived = self._derived
        rows = self._of_kind(kind)
        columns = self._fields(kind, derived.order[rows])
        columns["life"] = self._life[rows]
        if kind not in BY_CONNECTION:
            return columns
        columns["wall_ns"] = derived.wall_ns[rows]
        columns["performed"] = np.where(derived.performed_unknown[rows], UNKNOWN, derived.performed[rows])
        columns["group_id"] = self._group_id[derived.lane[rows]]
        if KINDS[kind] is Delivered:
            before, unknown = previous(derived, rows, columns["connection"], columns["stream_offset"])
            columns["previous"] = np.where(unknown, UNKNOWN, before)
        return columns

    def _fields(self, kind: str, records: Numbers) -> Columns:
        """Of these records, which are all of the kind, but in the order of processes; fields are in that in
        which the records came."""
        known = self._gathered.fields.get(KINDS[kind])
        if known is None:
            return {name: np.empty(0, np.int64) for name in WANTED[KINDS[kind]]}
        is_of_kind = np.zeros(len(self._life), bool)
        is_of_kind[records] = True
        at = (np.cumsum(is_of_kind) - 1)[records]
        return {name: values[at] for name, values in known.joined().items()}

    def rows(self, kind: str, lives: Iterable[int]) -> Iterator[Row]:
        rows = self._of_kind(kind)
        return self._taken(rows[np.isin(self._life[rows], list(lives))])

    def rows_at(self, kind: str, places: Numbers) -> Iterator[Row]:
        return self._taken(self._of_kind(kind)[places])

    def _of_kind(self, kind: str) -> Numbers:
        return np.flatnonzero(self._derived.kind == KIND_CODES[KINDS[kind]])

    def _taken(self, rows: Numbers) -> Iterator[Row]:
        derived, records = self._derived, self._gathered.records
        columns = (self._life, derived.performed, derived.wall_ns, derived.performed_unknown, derived.order)
        for life, performed, wall_ns, unknown, at in zip(
            *(one[rows].tolist() for one in columns), strict=True
        ):
            yield Row(life, None if unknown else performed, wall_ns, records[at])


def _rare(row: Row, place: int) -> lives.Row:
    record: Any = row.record
    kind = type(record)
    fields = [None if at is None else record[at] for at in _PLACES[kind]]
    text = divergence_text(*record[1:]) if kind is Diverged else None
    view = record.stamp.view
    return lives.Row._make((kind.__name__, place, row.wall_ns, view, row.performed, *fields, text))


def _calls(gathered: Gathered, derived: Derived) -> dict[Object, list[Call]]:
    calls: dict[Object, list[Call]] = {}
    called = np.flatnonzero(derived.kind == KIND_CODES[Called])
    lanes = (gathered.lanes[at].world for at in derived.lane[called].tolist())
    for world, at in zip(lanes, derived.order[called].tolist(), strict=True):
        record: Any = gathered.records[at]
        whose = Object(world, record.stamp.group_id, record.target)
        calls.setdefault(whose, []).append(call(*_OF_A_CALL(record)))
    return calls
