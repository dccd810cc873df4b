"""What a backup would say of a view of its own, made while there is time.

When it takes over, clients wait, and what it goes through then is in no cache. Which view it would
propose follows from where it stands, and so does the order log's entry of that view's beginning where no
connection is open.

    nothing made --beat--> made, of one view --the view or its place changes--> made anew

Law: what is made is of the very view that `own_view` gives. Whoever wants to use it for a view compares.
"""

from __future__ import annotations

from llft.core.messaging.lane import Lane
from llft.core.outbox import Outbox
from llft.core.record_kinds import OPERATED_AS_TOLD
from llft.core.standing import Standing
from llft.identifiers import NO_VIEW, ViewId
from llft.wire.order import PRIMARY_VIEW, Entry, view_told
from llft.wire.order_context import OrderContext
from llft.wire.order_writers import write_primary_view


class Beforehand:
    __slots__ = ("data", "standing", "told", "view")

    def __init__(self, standing: Standing) -> None:
        self.standing = standing
        self.view: ViewId = NO_VIEW
        self.data = b""
        """The entry's bytes: of this kind, no context is needed for them."""
        self.told: tuple[str, Entry] = ("", ())
        """The same for the journal (`view_told`)."""

    def own_view(self) -> ViewId:
        """The view that this replica would propose now (lines 1-5, 26-27)."""
        standing = self.standing
        precedence, number = standing.precedence, standing.view[1] + 1
        if self.view[1] != number or self.view[0] != precedence:
            self._make(ViewId(precedence, number, standing.birth_id))
        return self.view

    def _make(self, view: ViewId) -> None:
        entry: Entry = (PRIMARY_VIEW, view, ())
        self.view = view
        self.data = bytes(write_primary_view(OrderContext(), entry))
        self.told = view_told(entry)

    def record(self, lane: Lane, outbox: Outbox) -> bool:
        """That this view begins where the order log ends, with no connection open. False: it is to be
        recorded like any entry, for this is of another view, or something goes with it."""
        encoder = lane.encoder
        if self.view is not self.standing.view or encoder is None or encoder.pending or lane.unmarked:
            return False
        lane.orders.append(self.data)
        encoder.go_on(len(self.data), encoder.count + 1)
        outbox.record(OPERATED_AS_TOLD, encoder.count, self.told[0], self.told[1])
        return True
