"""Which connections are to be looked at, and why: the cost of an event must not grow with the idle ones.

With thousands of connections nearly all are idle, while watermarks, commits and timers come many times a
second. So whoever changes a connection notes it where it may matter; the loops of the paper over all
connections then look at those only. Tests compare with the whole table (`Subset.audited`).
"""

from __future__ import annotations

from llft.core.messaging.connection_table import ConnectionTable
from llft.core.messaging.due import Due
from llft.core.messaging.subset import Subset
from llft.core.messaging.touched import Touched


class Indexes:
    __slots__ = ("closing", "due", "embryos", "held_back", "marked", "touched", "unacknowledged")

    def __init__(self, table: ConnectionTable) -> None:
        self.touched = Touched()
        self.due = Due()
        self.marked = Subset(table, lambda connection: connection.marks)
        """Something was delivered that not all members are known to have."""
        self.held_back = Subset(table, lambda connection: connection.transmitted < connection.generated)
        self.unacknowledged = Subset(table, lambda connection: connection.sent)
        """By all members of the remote group: the sent list is not empty."""
        self.closing = Subset(table, lambda connection: connection.closed_here)
        self.embryos = Subset(table, lambda connection: not connection.fd)
        """Not accepted yet."""

    def become_primary(self) -> None:
        """A backup does not note all of it: what there is, is looked at once."""
        self.touched.active = True
        for subset in (self.marked, self.held_back, self.unacknowledged, self.closing):
            subset.note_all()
