"""Numbers that a dialogue (`core.dialogue`) is lent, of what is neither a connection nor a group."""

from __future__ import annotations

from typing import Final

from llft.core.determinizer.clock import GroupClock
from llft.core.standing import Standing

CLOCK_IDS: Final = (0, 1, 2)
"""Those that a dialogue knows, as runs do."""
LEAST: Final = -(1 << 63)


def who_is(standing: Standing) -> tuple[int, ...]:
    """Of the journal's records: group, process and view."""
    precedence, view_num, primary = standing.view
    return (standing.group_id, *standing.birth_id, precedence, view_num, *primary)


def clocks_of(clock: GroupClock) -> tuple[int, ...]:
    """What each clock's local one is to be moved by, and what it must not be behind."""
    found: list[int] = []
    for clock_id in CLOCK_IDS:
        found += (clock.offsets.get(clock_id, 0), clock.last.get(clock_id, LEAST))
    return tuple(found)
