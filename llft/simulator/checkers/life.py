"""The life of a replica: what one process did from joining its group to its end.

A replica that is removed or superseded rejoins as a new process (paper, fault model), so a life
has one consecutive sequence of operations (Theorem 3) and one sequence of views. Normally a life is a
birth id; a replica that starts joining again under the same birth id begins another life.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from llft.identifiers import NO_VIEW, BirthId, ViewId
from llft.journal.record import (
    ClockRead,
    ConnectionEnded,
    Delivered,
    Diverged,
    MembershipChanged,
    Operated,
    Record,
    RoleChanged,
    Sent,
    Stamp,
    StateApplied,
    StateTaken,
    Superseded,
    ViewInstalled,
)

NO_LIMIT = 1 << 62

Milestone = Operated | ViewInstalled | StateApplied


@dataclass(slots=True)
class Life:
    group_id: int
    birth_id: BirthId
    stamp: Stamp
    """Of the last record."""
    first_view: ViewId = NO_VIEW
    performed_count: int = 0
    """The number of the last operation performed."""
    milestones: list[Milestone] = field(default_factory=list)
    """Operations, view changes and adopted states, as they came."""
    sent: list[Sent] = field(default_factory=list)
    delivered: list[tuple[int, Delivered]] = field(default_factory=list)
    """With the number of the last operation performed before."""
    ended: list[tuple[int, ConnectionEnded]] = field(default_factory=list)
    clock_reads: list[ClockRead] = field(default_factory=list)
    installed: list[ViewInstalled] = field(default_factory=list)
    memberships: list[MembershipChanged] = field(default_factory=list)
    roles: list[RoleChanged] = field(default_factory=list)
    taken: list[StateTaken] = field(default_factory=list)
    applied: list[StateApplied] = field(default_factory=list)
    diverged: list[Diverged] = field(default_factory=list)
    superseded: bool = False
    limit: int = NO_LIMIT
    """Operations from this number on are not of the surviving branch."""

    @property
    def name(self) -> str:
        return f"replica {self.birth_id} of group {self.group_id}"

    @property
    def views(self) -> list[ViewId]:
        """The primary views it was a member of, in order, without repetition."""
        views = [] if self.first_view == NO_VIEW else [self.first_view]
        for record in self.milestones:
            if type(record) is Operated:
                continue  # a state may be adopted in a view whose beginning it covers
            if not views or record.stamp.view.primary_view_num > views[-1].primary_view_num:
                views.append(record.stamp.view)
        return views

    def surviving_sent(self) -> list[Sent]:
        limit = self.limit
        return self.sent if limit == NO_LIMIT else [r for r in self.sent if r.order_seq_num < limit]

    def surviving_delivered(self) -> list[Delivered]:
        """Deliveries carry no order number. One that follows the last surviving operation may belong
        to it or to the next, so it is left out."""
        last = self.limit - 1
        return [r for performed, r in self.delivered if performed < last]

    def surviving_ended(self) -> list[ConnectionEnded]:
        return [r for performed, r in self.ended if performed < self.limit]

    def add(self, record: Record) -> None:
        """Files a record under its type; types that no checker reads are dropped."""
        stamp = self.stamp = record[0]
        _FILES.get(type(record), _ignore)(self, record)
        if self.first_view == NO_VIEW and stamp.view != NO_VIEW and type(record) in _SETTLED:
            self.first_view = stamp.view


def _add_operated(life: Life, record: Operated) -> None:
    life.milestones.append(record)
    life.performed_count = record.order_seq_num


def _add_installed(life: Life, record: ViewInstalled) -> None:
    life.milestones.append(record)
    life.installed.append(record)


def _add_applied(life: Life, record: StateApplied) -> None:
    life.milestones.append(record)
    life.applied.append(record)


def _add_superseded(life: Life, record: Superseded) -> None:
    life.superseded = True


def _ignore(life: Life, record: Record) -> None:
    pass


_SETTLED = frozenset((Operated, ViewInstalled, StateApplied, Sent, Delivered, ClockRead, MembershipChanged))
"""Records that only a member writes: the view of the first one is the view it joined in."""

_FILES: dict[type, Callable[[Life, Any], None]] = {
    Operated: _add_operated,
    ViewInstalled: _add_installed,
    StateApplied: _add_applied,
    Superseded: _add_superseded,
    Sent: lambda life, record: life.sent.append(record),
    Delivered: lambda life, record: life.delivered.append((life.performed_count, record)),
    ConnectionEnded: lambda life, record: life.ended.append((life.performed_count, record)),
    ClockRead: lambda life, record: life.clock_reads.append(record),
    MembershipChanged: lambda life, record: life.memberships.append(record),
    RoleChanged: lambda life, record: life.roles.append(record),
    StateTaken: lambda life, record: life.taken.append(record),
    Diverged: lambda life, record: life.diverged.append(record),
}
