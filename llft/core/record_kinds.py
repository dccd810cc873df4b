"""Kinds of records that a change of the primary makes. Compiled, a class of another module is looked up by
its name wherever it is used, unless it is a constant; and when clients wait, no name is in any cache."""

from __future__ import annotations

from typing import Any, Final

from llft.journal.batch import Row, fill
from llft.journal.record import (
    Latency,
    MembershipChanged,
    Operated,
    Record,
    RoleChanged,
    Stamp,
    Suspected,
    ViewInstalled,
)


def _operated(stamp: Stamp, number: int, template: str, entry: Row) -> Record:
    return Operated(stamp, number, fill(template, entry))


LATENCY: Final[Any] = Latency
MEMBERSHIP_CHANGED: Final[Any] = MembershipChanged
OPERATED: Final[Any] = Operated
ROLE_CHANGED: Final[Any] = RoleChanged
SUSPECTED: Final[Any] = Suspected
VIEW_INSTALLED: Final[Any] = ViewInstalled
OPERATED_AS_TOLD: Final[Any] = _operated
"""An `Operated` whose text is made when the record is (`view_told`)."""
