"""Kinds of records that a change of the primary makes. Compiled, a class of another module is looked up by
its name wherever it is used, unless it is a constant; and when clients wait, no name is in any cache."""

from __future__ import annotations

from typing import Any, Final

from llft.journal.record import (
    Latency,
    MembershipChanged,
    Operated,
    RoleChanged,
    Suspected,
    ViewInstalled,
)

LATENCY: Final[Any] = Latency
MEMBERSHIP_CHANGED: Final[Any] = MembershipChanged
OPERATED: Final[Any] = Operated
ROLE_CHANGED: Final[Any] = RoleChanged
SUSPECTED: Final[Any] = Suspected
VIEW_INSTALLED: Final[Any] = ViewInstalled
OPERATED_AS_TOLD: Final[Any] = object()
"""An `Operated` by its number, a template and an entry (`view_told`), whose text is made later."""
