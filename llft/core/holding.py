"""One backup's holding commits, and it says so itself (D-75).

Where one answer commits (D-48), what asks for it is a KeepAlive that carries the order information to that
backup alone (COMMITS), and the answer is a Held. It goes to the primary, and at the same time to the groups
that wait for the output commit: so what they hold back is let go without a way through the primary, which may
be busy with the next request.

    at a backup    nothing asked; asked up to `wanted_end`, until all of that is here, messages included

Laws:
 - Held is said of the view that the question was of, and only there is it believed: what is committed in a
   view is collected by whoever recovers from it, for the backup answers no question after it has acknowledged
   a newer one.
 - A backup that could not take over (D-70) does not say it.
 - It says nothing of what it has performed, nor how its fellows are: that is for heartbeats. Nothing is
   forgotten because of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llft.core.standing import BACKUP, PRIMARY
from llft.identifiers import NO_VIEW, BirthId, GroupId, ViewId
from llft.wire.codec import encode, encode_body
from llft.wire.messages import Header, Message, MessageType, StateAckBody

if TYPE_CHECKING:
    from llft.core.replica import Replica


class Holding:
    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.standing = replica.standing
        self.messaging = replica.messaging
        self.outbox = replica.outbox
        self.wanted_end = 0
        """At a backup: up to where it was asked; 0: it was not."""

    # -- at a backup -------------------------------------------------------------------------------

    def on_question(self, end: int) -> None:
        """The settled primary of our view asks. Who could not take over says so instead."""
        if self.standing.has_past:
            self.wanted_end = max(self.wanted_end, end)
        else:
            self.replica.asking.answer_wanted = True
        self.replica.intra.asked_ns = self.outbox.now_ns

    def answer(self) -> None:
        """If all of it is here."""
        end, is_backup = self.wanted_end, self.standing.role == BACKUP
        if is_backup and self.replica.own_watermark() < end:
            return
        self.wanted_end = 0
        if not is_backup:
            return
        for group_id in self.who_waits():
            self.outbox.multicast(group_id, encode(self._message(self.header_to(group_id), end)))
        self.outbox.transmit(self.standing.view.birth_id, encode(self._message(self.header(), end)))

    def who_waits(self) -> list[GroupId]:
        """Groups that are connected with ours and wait for its output commit."""
        if self.replica.config.output_commit_level == 0:
            return []
        table = self.messaging.table
        held = self.messaging.lane.held
        return [group_id for group_id in held if held[group_id].waits and table.is_connected_with(group_id)]

    def _message(self, header: Header, end: int) -> Message:
        return Message(header, payload=encode_body(StateAckBody(self.standing.birth_id, end)))

    def header(self) -> Header:
        """Of a Held, to the primary."""
        standing = self.standing
        return Header(
            MessageType.HELD,
            standing.group_id,
            standing.group_id,
            source_view=standing.view,
            dest_view=standing.view,
            view_start=standing.view_start,
        )

    def header_to(self, group_id: GroupId) -> Header:
        """The same, to a group. What it is in is for our primary to say."""
        standing = self.standing
        return Header(
            MessageType.HELD,
            standing.group_id,
            group_id,
            source_view=standing.view,
            dest_view=NO_VIEW,
            view_start=standing.view_start,
        )

    # -- at the primary ----------------------------------------------------------------------------

    def on_held(self, header: Header, body: StateAckBody) -> None:
        lane = self.messaging.lane
        lane.flush()
        if self.standing.role != PRIMARY or header.source_view != self.standing.view:
            return
        if body.order_offset <= lane.orders.end:
            self.note(body.sender, body.order_offset)

    def note(self, backup: BirthId, end: int) -> None:
        """It holds so much. Who waits for that outside was told by the backup itself."""
        self.messaging.watermarks.hold(backup, end)
        self.replica.asking.note_commit(announced=True)
        for connection in self.messaging.indexes.held_back:
            self.messaging.push(connection)

    # -- in a group that waits -----------------------------------------------------------------------

    def on_remote_held(self, header: Header, body: StateAckBody) -> None:
        """Who waits for it finds out: `Touched.await_commit`."""
        self.note_remote(header.source_group_id, header.source_view, body.order_offset)

    def note_remote(self, group_id: GroupId, view: ViewId, end: int, answer: bytes = b"") -> None:
        """`answer`: the datagram that says so, if it says nothing else."""
        held = self.messaging.lane.held.get(group_id)
        if held is not None and held.view == view:
            held.committed = max(held.committed, end)
            held.answer = answer
