"""The entry of the order log with which a primary view begins (figure "change of the primary", lines 33, 35).

The new primary records it at the virtual synchrony point; its backups switch to the view when they come to
it. Either way numbers restart on each connection, and the journal is told once for each view.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llft.core.record_kinds import VIEW_INSTALLED
from llft.identifiers import NO_VIEW, ViewId
from llft.wire.order import PRIMARY_VIEW, Entry

if TYPE_CHECKING:
    from llft.core.replica import Replica


class ViewEntries:
    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.standing = replica.standing
        self.journalled_view: ViewId = NO_VIEW

    def record(self) -> None:
        """At the primary."""
        replica, view = self.replica, self.standing.view
        bases = []
        replica.performed_view = view
        for connection in replica.sockets.open_connections():
            base = connection.sent[0].position - 1 if connection.sent else connection.generated
            connection.begin_view(view, base)
            connection.transmitted = base
            if connection.sent:
                bases.append((connection.fd, base))
        beforehand = replica.primary_change.beforehand
        if bases or not beforehand.record(replica.messaging.lane, replica.outbox):
            replica.record((PRIMARY_VIEW, view, tuple(bases)))
        if view not in replica.lineage:
            replica.lineage.append(view)
        self.journal(view, replica.performed_count)

    def pass_on(self, entry: Entry) -> None:
        """At a backup: all operations ordered before the virtual synchrony point have been performed."""
        _, view, view_bases = entry
        bases = dict(view_bases)
        self.replica.performed_view = view
        for connection in self.replica.sockets.open_connections():
            connection.begin_view(view, bases.get(connection.fd, connection.generated))
        if view not in self.replica.lineage:
            self.replica.lineage.append(view)
        self.journal(view, self.replica.performed_count + 1)

    def journal(self, view: ViewId, number: int) -> None:
        """Once for each view: a semi-passive backup logs the entry long before it may perform it."""
        if view.primary_view_num > self.journalled_view.primary_view_num:
            self.journalled_view = view
            self.replica.outbox.record_of_view(view, VIEW_INSTALLED, number, self.standing.membership)
