"""Which whole worlds may have replicas that differ, or clocks that go back: all rows are here, so they are
compared, and no sum of theirs.

Says of a world what `agreement` and `clock` would find, without the words for it: nothing may be found in one
that is cleared here. A life whose own rows contradict each other is in doubt, too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from llft.pipeline.audit.prints import Numbers
from llft.pipeline.audit.whole import Columns, Limits, Whole

NAMES = {
    "Operated": (("order_seq_num",), ("entry",)),
    "Sent": (("connection", "position"), ("order_seq_num", "timestamp", "size", "digest")),
    "ClockRead": (("order_seq_num",), ("clock_id", "value_ns")),
}
"""Of a kind what a row is told by, and what all replicas must have in common then."""


def worlds_that_differ(whole: Whole, limits: Limits) -> set[int]:
    found: set[int] = set()
    for kind, (names, contents) in NAMES.items():
        rows = surviving(whole.columns(kind), limits)
        keys = [limits.owner[rows["life"]], *(rows[name] for name in names)]
        order = _sorted(keys)
        differs = np.logical_or.reduce([_steps(rows[name][order]) != 0 for name in contents])
        found |= limits.worlds_of(rows["life"][order[1:][_alike(keys, order) & differs]])
    return found


def worlds_with_steps_back(whole: Whole, limits: Limits) -> set[int]:
    """Along the order of its history a clock goes on, and so it does along every journal."""
    rows = surviving(whole.columns("ClockRead"), limits)
    life, value_ns = rows["life"], rows["value_ns"]
    found: set[int] = set()
    for whose in (limits.owner[life], life):
        keys = [whose, rows["clock_id"]]
        order = _sorted(keys if whose is life else [*keys, rows["order_seq_num"]])
        back = _alike(keys, order) & (_steps(value_ns[order]) < 0)
        found |= limits.worlds_of(life[order[1:][back]])
    return found


def surviving(rows: Columns, limits: Limits) -> Columns:
    survives = rows["order_seq_num"] < limits.limit[rows["life"]]
    return rows if survives.all() else {name: one[survives] for name, one in rows.items()}


def _sorted(keys: Sequence[Numbers]) -> Numbers:
    """By the first of them, then the next; else in the order of the journals."""
    return np.lexsort(keys[::-1])


def _steps(values: Numbers) -> Numbers:
    steps: Numbers = np.diff(values)
    return steps


def _alike(keys: Sequence[Numbers], order: Numbers) -> Numbers:
    """Of all but the first row in this order: whether all keys are those of the row before."""
    same: Numbers = np.logical_and.reduce([_steps(key[order]) == 0 for key in keys])
    return same
