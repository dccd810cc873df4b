"""Numbers that a dialogue (`core.dialogue`) is lent, of what is neither a connection nor a group."""

from __future__ import annotations

from typing import Final

from llft.core.standing import Standing

CLOCK_IDS: Final = (0, 1, 2)
"""Those that a dialogue knows, as runs do."""


def who_is(standing: Standing) -> tuple[int, ...]:
    """Of the journal's records: group, process and view."""
    precedence, view_num, primary = standing.view
    return (standing.group_id, *standing.birth_id, precedence, view_num, *primary)
