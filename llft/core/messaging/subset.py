"""Connections for which a condition may hold, so that not all of them have to be looked at.

A connection is noted whenever the condition may have begun to hold, and found out about when the subset is
looked through; one for which it does not hold is dropped until it is noted again. Noting too often is
harmless. The order is that of the table, whatever the order of the notes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar, Final

from llft.core.messaging.connection import Connection
from llft.core.messaging.connection_table import ConnectionTable
from llft.errors import InvariantError

_NOTHING: Final[Iterator[Connection]] = iter(())
"""It has ended, for whoever asks: to make one takes longer."""


class Subset:
    audited: ClassVar[bool] = False
    """For tests: compare with the whole table."""

    __slots__ = ("_condition", "_noted", "_table")

    def __init__(self, table: ConnectionTable, condition: Callable[[Connection], object]) -> None:
        self._table = table
        self._condition = condition
        self._noted: dict[int, Connection] = {}

    def note(self, connection: Connection) -> None:
        self._noted[connection.number] = connection

    def note_all(self) -> None:
        for connection in self._table:
            self.note(connection)

    def __iter__(self) -> Iterator[Connection]:
        """Those for which it holds now, even if it does not any more when their turn comes."""
        noted, condition = self._noted, self._condition
        if not noted and not self.audited:
            return _NOTHING
        by_id = self._table.by_id
        found = []
        for number in sorted(noted):
            connection = noted[number]
            if condition(connection) and by_id.get(connection.connection_id) is connection:
                found.append(connection)
            else:
                del noted[number]
        if self.audited and found != [connection for connection in self._table if condition(connection)]:
            raise InvariantError("connection_overlooked", found=len(found))
        return iter(found)
