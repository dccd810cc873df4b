"""Numbers that a dialogue (`core.dialogue`) is lent, of what is neither a connection nor a group."""

from __future__ import annotations

from typing import Final

from llft.core.messaging.connection import Connection
from llft.core.messaging.ordering import Cursor
from llft.core.standing import Standing
from llft.instant import NEVER

CLOCK_IDS: Final = (0, 1, 2)
"""Those that a dialogue knows, as runs do."""
LARGEST: Final = NEVER
"""Numbers are of 64 bits where they are lent to, with room for sums. A peer may have said larger ones."""


def who_is(standing: Standing) -> tuple[int, ...]:
    """Of the journal's records: group, process and view."""
    precedence, view_num, primary = standing.view
    return (standing.group_id, *standing.birth_id, precedence, view_num, *primary)


def has_read_all(cursor: Cursor, connections: list[Connection], end: int) -> bool:
    """At a backup: behind the entries that are lent nothing of the log is here, nor half read."""
    if cursor.waiting is not None or any(connection.ordered_partial for connection in connections):
        return False
    return cursor.decoder.between_entries and cursor.decoder.exhausted and cursor.fed == end


def are_usual(numbers: list[tuple[int, ...]]) -> bool:
    """None of them is too large."""
    return all(max(each) <= LARGEST for each in numbers)
