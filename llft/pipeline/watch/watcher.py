"""One group under watch: rows in as they come, alarms out; what is remembered is bounded.

The first replica that reports an order number says what it is; all others are compared with that, as long
as they are not further behind than the window. One that is further behind is a finding of its own, once
each time, and its rows from there on are left to the audit, which forgets nothing.

Columns are numpy arrays: a busy group has a hundred thousand rows a second.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

WINDOW = 8192
"""Order numbers that are remembered, of each kind."""
LAG_LIMIT = 4096
"""Operations that a replica may be behind before it is told."""

OPERATED, SENT, CLOCK_READ = 0, 1, 2
KINDS = {"Operated": OPERATED, "Sent": SENT, "ClockRead": CLOCK_READ}
CONDITIONS = ("theorem2", "digests", "clock")
PRIMARY = 3
GAP = 4
"""Codes of rows that are no numbered deeds: a replica became primary (`number` its view's, `content`
whether the view is named after it), a journal has a gap (`content` the count)."""


class Rows(NamedTuple):
    """Rows of one group, in the order of each replica's journal."""

    code: Any
    replica: Any
    number: Any
    content: Any


class Alarm(NamedTuple):
    condition: str
    order_seq_num: int
    replica: int
    other_replica: int
    explanation: str


def _empty() -> Any:
    return np.zeros((3, WINDOW), dtype=np.int64)


@dataclass(slots=True)
class Watcher:
    numbers: Any = field(default_factory=_empty)
    """Which order number each place of the window is about; by kind."""
    contents: Any = field(default_factory=_empty)
    owners: Any = field(default_factory=_empty)
    reached: dict[int, int] = field(default_factory=dict)
    """The highest operation of each replica."""
    lagging: set[int] = field(default_factory=set)
    primaries: dict[int, int] = field(default_factory=dict)
    """By view number: who said to be its primary."""
    diverged: set[int] = field(default_factory=set)
    """Replicas that were told of: what follows a divergence diverges too."""

    def step(self, rows: Rows) -> list[Alarm]:
        alarms = self._step_rare(rows)
        for replica in np.unique(rows.replica).tolist():
            mine = rows.replica == replica
            for code in (OPERATED, SENT, CLOCK_READ):
                chosen = mine & (rows.code == code)
                if chosen.any():
                    alarms += self._compare(code, replica, rows.number[chosen], rows.content[chosen])
        return alarms + self._lags()

    def _compare(self, code: int, replica: int, numbers: Any, contents: Any) -> list[Alarm]:
        if code == OPERATED:
            self.reached[replica] = max(self.reached.get(replica, 0), int(numbers.max()))
        # What is longer than the window is judged in pieces, before its older rows are overwritten.
        alarms: list[Alarm] = []
        for start in range(0, len(numbers), WINDOW):
            piece = slice(start, start + WINDOW)
            alarms += self._compare_piece(code, replica, numbers[piece], contents[piece])
        return alarms

    def _compare_piece(self, code: int, replica: int, numbers: Any, contents: Any) -> list[Alarm]:
        places = numbers % WINDOW
        known = self.numbers[code][places] == numbers
        newer = self.numbers[code][places] < numbers
        wrong = known & (self.contents[code][places] != contents)
        alarms = []
        if wrong.any() and replica not in self.diverged:
            self.diverged.add(replica)
            first = np.flatnonzero(wrong)[np.argmin(numbers[wrong])]
            number, place = int(numbers[first]), int(places[first])
            other = int(self.owners[code][place])
            text = f"{int(self.contents[code][place]):#x} there and {int(contents[first]):#x} here"
            alarms.append(Alarm(CONDITIONS[code], number, replica, other, f"order number {number}: {text}"))
        fresh = places[newer]
        self.numbers[code][fresh] = numbers[newer]
        self.contents[code][fresh] = contents[newer]
        self.owners[code][fresh] = replica
        return alarms

    def _step_rare(self, rows: Rows) -> list[Alarm]:
        alarms = []
        for index in np.flatnonzero(rows.code >= PRIMARY).tolist():
            replica, number = int(rows.replica[index]), int(rows.number[index])
            content = int(rows.content[index])
            if rows.code[index] == GAP:
                text = f"the journal lost {content} records behind operation {number}"
                alarms.append(Alarm("gap", number, replica, 0, text))
                continue
            first = self.primaries.setdefault(number, replica)
            if not content or first != replica:
                text = (
                    f"a second primary in view {number}"
                    if first != replica
                    else f"primary of another's view {number}"
                )
                alarms.append(Alarm("theorem1", number, replica, first, text))
            while len(self.primaries) > WINDOW:
                del self.primaries[min(self.primaries)]
        return alarms

    def _lags(self) -> list[Alarm]:
        """Told when it begins; told again if it ends and begins again."""
        furthest = max(self.reached.values(), default=0)
        alarms = []
        for replica, number in self.reached.items():
            behind = furthest - number
            if behind > LAG_LIMIT and replica not in self.lagging:
                self.lagging.add(replica)
                alarms.append(
                    Alarm("lag", number, replica, 0, f"{behind} operations behind at operation {number}")
                )
            elif behind <= LAG_LIMIT // 2:
                self.lagging.discard(replica)
        for replica in [one for one, number in self.reached.items() if furthest - number > 16 * WINDOW]:
            del self.reached[replica]  # it is dead, or an audit's business
            self.lagging.discard(replica)
        return alarms

    def to_bytes(self) -> bytes:
        arrays: Sequence[Any] = (self.numbers, self.contents, self.owners)
        rest = {
            "reached": list(self.reached.items()),
            "lagging": sorted(self.lagging),
            "primaries": list(self.primaries.items()),
            "diverged": sorted(self.diverged),
        }
        return b"".join(array.tobytes() for array in arrays) + json.dumps(rest).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Watcher:
        size = 3 * WINDOW * 8
        numbers, contents, owners = (
            np.frombuffer(data, np.int64, 3 * WINDOW, index * size).reshape(3, WINDOW).copy()
            for index in range(3)
        )
        rest = json.loads(data[3 * size :])
        return cls(
            numbers,
            contents,
            owners,
            reached=dict(rest["reached"]),
            lagging=set(rest["lagging"]),
            primaries=dict(rest["primaries"]),
            diverged=set(rest["diverged"]),
        )
