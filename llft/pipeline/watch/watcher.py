"""One group under watch: rows in as they come, alarms out; what is remembered is bounded.

The primary of the view says what an order number is, or whoever reports it first; all others are compared
with that, as long as they are not further behind than the window. One that is further behind is a finding of
its own, once each time, and its rows from there on are left to the audit, which forgets nothing.

A primary that dies may have performed operations that nobody heard of, and a branch of a partition is
legitimate until it is healed: the numbers of both are given again, in a later view. So what was performed in
two views must be the same only up to the number at which the later one began; from there on the later view's
word counts.

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
SPAN = WINDOW - LAG_LIMIT
"""Order numbers that are looked at together: whoever is not told as a laggard finds its own in the window."""
MOST_VIEWS = 256
"""Views of which something is remembered."""
NO_LIMIT = 1 << 62

OPERATED, SENT, CLOCK_READ = 0, 1, 2
KINDS = {"Operated": OPERATED, "Sent": SENT, "ClockRead": CLOCK_READ}
CONDITIONS = ("theorem2", "digests", "clock")
PRIMARY, GAP, VIEW, MEMBER = 3, 4, 5, 6
"""Codes of rows that are no numbered deeds: a replica became primary (`content`: whether the view is named
after it), a journal has a gap (`content`: the count), a view begins (`number`: there), a replica is a member
(`number`: of the change)."""
VIEW_BITS = 31


def view_key(precedence: int, primary_view_num: int) -> int:
    """Higher for a view that supersedes (D-06), but for two that agree in both."""
    if precedence >> VIEW_BITS or primary_view_num >> VIEW_BITS:
        raise ValueError("no view is called so")
    return precedence << VIEW_BITS | primary_view_num


class Rows(NamedTuple):
    """Rows of one group, in the order of each replica's journal."""

    code: Any
    replica: Any
    number: Any
    content: Any
    view: Any
    primary: Any
    """1 if the replica is the primary of the view, else 0."""


class Alarm(NamedTuple):
    condition: str
    order_seq_num: int
    replica: int
    other_replica: int
    explanation: str


class Deeds(NamedTuple):
    """Numbered deeds of one kind, of one replica in one view."""

    code: int
    replica: int
    view: int
    primary: bool
    numbers: Any
    contents: Any

    def within(self, span: int) -> Deeds:
        here = self.numbers // SPAN == span
        return self._replace(numbers=self.numbers[here], contents=self.contents[here])


def _empty() -> Any:
    return np.zeros((3, WINDOW), dtype=np.int64)


@dataclass(slots=True)
class Watcher:
    numbers: Any = field(default_factory=_empty)
    """Which order number each place of the window is about; by kind."""
    contents: Any = field(default_factory=_empty)
    owners: Any = field(default_factory=_empty)
    views: Any = field(default_factory=_empty)
    reached: dict[int, int] = field(default_factory=dict)
    """The highest operation of each replica."""
    lagging: set[int] = field(default_factory=set)
    primaries: dict[int, int] = field(default_factory=dict)
    """By view: who said to be its primary."""
    starts: dict[int, int] = field(default_factory=dict)
    """By view: the order number at which it began."""
    diverged: set[int] = field(default_factory=set)
    """Replicas that were told of: what follows a divergence diverges too."""
    told: dict[int, int] = field(default_factory=dict)
    """By order number: the kind of which a divergence was told there. One is enough."""
    change: tuple[int, int] = (0, 0)
    """The newest change of the membership: view, and number."""
    members: set[int] = field(default_factory=set)
    """As of that change; empty: not known."""

    def step(self, rows: Rows) -> list[Alarm]:
        alarms = self._step_rare(rows)
        every = _deeds_of(rows)
        for deeds in every:
            if deeds.code == OPERATED:
                highest = int(deeds.numbers.max())
                self.reached[deeds.replica] = max(self.reached.get(deeds.replica, 0), highest)
        # All replicas span by span: rows may be more than the window holds, and what one of them did is to be
        # compared with the others before it is overwritten.
        for span in np.unique(rows.number[rows.code < PRIMARY] // SPAN).tolist():
            for deeds in every:
                alarms += self._compare(deeds.within(span))
        return alarms + self._lags()

    def _compare(self, deeds: Deeds) -> list[Alarm]:
        code, replica, view, primary, numbers, contents = deeds
        places = numbers % WINDOW
        known = self.numbers[code][places] == numbers
        newer = (self.numbers[code][places] < numbers) | (known & (self.views[code][places] < view))
        wrong = known & (self.contents[code][places] != contents)
        alarms = self._alarm(deeds, np.flatnonzero(wrong)) if wrong.any() else []
        if primary:
            newer |= known & (self.views[code][places] == view)
        fresh = places[newer]
        self.numbers[code][fresh] = numbers[newer]
        self.contents[code][fresh] = contents[newer]
        self.owners[code][fresh] = replica
        self.views[code][fresh] = view
        return alarms

    def _alarm(self, deeds: Deeds, wrong: Any) -> list[Alarm]:
        """For the first of the wrong ones that must not be. Of a primary and another the other is wrong."""
        code, replica, view, primary, numbers, contents = deeds
        for index in wrong[np.argsort(numbers[wrong], kind="stable")].tolist():
            number = int(numbers[index])
            place = number % WINDOW
            accused, other = (int(self.owners[code][place]), replica)[:: 1 if primary else -1]
            if accused in self.diverged or self.told.get(number) == code:
                continue
            if number < self._same_below(view, int(self.views[code][place])):
                self.diverged.add(accused)
                self.told[number] = code
                values = f"{int(self.contents[code][place]):#x} and {int(contents[index]):#x}"
                return [Alarm(CONDITIONS[code], number, accused, other, f"order number {number}: {values}")]
        return []

    def _same_below(self, one: int, other: int) -> int:
        """Up to which number operations of two views must be the same; 0 if that is not known."""
        if one == other:
            return NO_LIMIT
        earlier, later = min(one, other), max(one, other)
        if later not in self.starts:
            return 0
        return min(start for view, start in self.starts.items() if earlier < view <= later)

    def _step_rare(self, rows: Rows) -> list[Alarm]:
        alarms = []
        for index in np.flatnonzero(rows.code >= PRIMARY).tolist():
            code, replica, number, content, view, _ = (int(column[index]) for column in rows)
            if code == GAP:
                text = f"the journal lost {content} records behind operation {number}"
                alarms.append(Alarm("gap", number, replica, 0, text))
            elif code == PRIMARY:
                alarms += self._became_primary(replica, view, own_view=bool(content))
            elif code == VIEW:
                self.starts[view] = min(number, self.starts.get(view, number))
            else:
                self._member(replica, (view, number))
        for known in (self.primaries, self.starts, self.told):
            while len(known) > MOST_VIEWS:
                del known[min(known)]
        return alarms

    def _became_primary(self, replica: int, view: int, *, own_view: bool) -> list[Alarm]:
        first = self.primaries.setdefault(view, replica)
        number = view & (1 << VIEW_BITS) - 1
        if first != replica:
            return [Alarm("theorem1", number, replica, first, f"a second primary in view {number}")]
        if not own_view:
            return [Alarm("theorem1", number, replica, first, f"primary of another's view {number}")]
        return []

    def _member(self, replica: int, change: tuple[int, int]) -> None:
        if change > self.change:
            self.change, self.members = change, set()
        if change == self.change:
            self.members.add(replica)

    def _lags(self) -> list[Alarm]:
        """Told when it begins; told again if it ends and begins again. Only of members: one that is dead, or
        has still to join, is no laggard."""
        furthest = max(self.reached.values(), default=0)
        alarms = []
        for replica, number in self.reached.items():
            behind = furthest - number
            is_member = not self.members or replica in self.members
            if behind > LAG_LIMIT and is_member and replica not in self.lagging:
                self.lagging.add(replica)
                text = f"{behind} operations behind at operation {number}"
                alarms.append(Alarm("lag", number, replica, 0, text))
            elif behind <= LAG_LIMIT // 2 or not is_member:
                self.lagging.discard(replica)
        for replica in [one for one, number in self.reached.items() if furthest - number > 16 * WINDOW]:
            del self.reached[replica]  # it is dead, or an audit's business
            self.lagging.discard(replica)
        return alarms

    def to_bytes(self) -> bytes:
        arrays: Sequence[Any] = (self.numbers, self.contents, self.owners, self.views)
        rest = {
            "reached": list(self.reached.items()),
            "lagging": sorted(self.lagging),
            "primaries": list(self.primaries.items()),
            "starts": list(self.starts.items()),
            "diverged": sorted(self.diverged),
            "told": list(self.told.items()),
            "change": self.change,
            "members": sorted(self.members),
        }
        return b"".join(array.tobytes() for array in arrays) + json.dumps(rest).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Watcher:
        size = 3 * WINDOW * 8
        numbers, contents, owners, views = (
            np.frombuffer(data, np.int64, 3 * WINDOW, index * size).reshape(3, WINDOW).copy()
            for index in range(4)
        )
        rest = json.loads(data[4 * size :])
        return cls(
            numbers,
            contents,
            owners,
            views,
            reached=dict(rest["reached"]),
            lagging=set(rest["lagging"]),
            primaries=dict(rest["primaries"]),
            starts=dict(rest["starts"]),
            diverged=set(rest["diverged"]),
            told=dict(rest["told"]),
            change=tuple(rest["change"]),
            members=set(rest["members"]),
        )


def _deeds_of(rows: Rows) -> list[Deeds]:
    """By view, the earlier first: what it did is there to be compared when the later comes. Of a view the
    primary first: what it did is what others are compared with."""
    numbered = rows.code < PRIMARY
    found = []
    for view in np.unique(rows.view[numbered]).tolist():
        for primary in (True, False):
            here = numbered & (rows.view == view) & ((rows.primary == 1) == primary)
            for replica in np.unique(rows.replica[here]).tolist():
                mine = here & (rows.replica == replica)
                for code in (OPERATED, SENT, CLOCK_READ):
                    chosen = mine & (rows.code == code)
                    if chosen.any():
                        deeds = rows.number[chosen], rows.content[chosen]
                        found.append(Deeds(code, replica, view, primary, *deeds))
    return found
