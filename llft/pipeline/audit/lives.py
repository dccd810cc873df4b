"""The life of a replica, from the rare records of its journal.

A replica that is removed or superseded rejoins as a new process (paper, fault model), so a life has one
consecutive sequence of operations and one sequence of views. Operations are not here but for the *breaks*:
those whose number is not one more than that of the operation before. Between two rows of a life all
operations follow each other, so that `performed`, which every row has, tells what they were.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from llft.identifiers import NO_VIEW, BirthId, Member, ViewId

NO_LIMIT = 1 << 62

PRIMARY = "primary"
SETTLED = frozenset(("Operated", "ViewInstalled", "StateApplied", "MembershipChanged"))
"""Kinds that only a member writes: the view of the first such row is the one it joined in."""


class Row(NamedTuple):
    """A rare record."""

    kind: str
    place: int
    wall_ns: int
    view: ViewId
    performed: int | None
    order_seq_num: int | None
    membership: tuple[Member, ...] | None
    change_num: int | None
    role: str | None
    digest: int | None
    lost_count: int | None
    reason: str | None
    text: str | None


@dataclass(slots=True)
class Life:
    group_id: int
    process: int
    life: int
    birth_id: BirthId
    first_wall_ns: int
    last_wall_ns: int
    last_number: int = 0
    """Of the last operation performed; 0: none."""
    rows: list[Row] = field(default_factory=list)
    """In the order of the journal."""
    epoch: int = 0
    limit: int = NO_LIMIT
    """Operations from this number on are not of the surviving branch."""
    pruned: bool = False
    """It was on a side branch at its end."""
    split_off: bool = False
    """The same, and a replica of its group was told so: that proves a partition, or a pause, which looks the
    same to all others. Without it the branch may as well have been lost by a fault of the protocol."""
    partial: bool = False
    """Not all journals of this history are here, or one has a gap: what is not found may yet have been."""

    @property
    def name(self) -> str:
        return f"replica {self.birth_id} of group {self.group_id}"

    def of_kind(self, *kinds: str) -> list[Row]:
        return [row for row in self.rows if row.kind in kinds]

    @property
    def has_gap(self) -> bool:
        return any(row.kind == "Gap" or row.performed is None for row in self.rows)

    @property
    def followed(self) -> bool:
        """Whether it performed operations under another's view, which a semi-passive backup never does. Its
        first operation follows none, so it is here."""
        return any(row.view.birth_id != self.birth_id for row in self.of_kind("Operated"))

    @property
    def founds(self) -> bool:
        """Whether the history of its group begins here."""
        return any(row.order_seq_num == 1 for row in self.of_kind("ViewInstalled"))

    @property
    def superseded(self) -> bool:
        return any(row.kind == "Superseded" for row in self.rows)

    @property
    def views(self) -> list[ViewId]:
        """The primary views it was a member of, in order, without repetition."""
        settled = [row.view for row in self.rows if row.kind in SETTLED and row.view != NO_VIEW]
        views = settled[:1]
        for row in self.of_kind("ViewInstalled", "StateApplied"):
            if not views or row.view.primary_view_num > views[-1].primary_view_num:
                views.append(row.view)
        return views


def view_of(value: dict[str, Any]) -> ViewId:
    return ViewId(value["precedence"], value["primary_view_num"], BirthId(**value["birth_id"]))


def members_of(value: list[dict[str, Any]] | None) -> tuple[Member, ...] | None:
    if value is None:
        return None
    return tuple(Member(BirthId(**one["birth_id"]), one["precedence"]) for one in value)
