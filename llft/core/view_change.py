"""Recovery from the change of a primary, at the new primary and at the groups it talks to.

`membership.recovery` keeps the books; here connections, order log and determinizer are brought to
the virtual synchrony point. Lines 26-41 of the figure "change of the primary"; D-07, D-08.
"""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Final

from llft.config import Replication
from llft.core import view_answers as answers
from llft.core import view_questions as questions
from llft.core.membership.recovery import COLLECTING, PERFORMING, Recovery
from llft.core.membership.transitions import check_transition
from llft.core.messaging.connection import Connection
from llft.core.record_kinds import LATENCY, ROLE_CHANGED
from llft.core.standing import PRIMARY, RECOVERING
from llft.core.view_entries import ViewEntries
from llft.identifiers import NO_VIEW, BirthId, ConnectionId, ViewId
from llft.instant import NEVER
from llft.wire.messages import (
    UNSETTLED,
    Header,
    NewPrimaryViewAckBody,
    NewPrimaryViewBody,
)
from llft.wire.order import OrderEncoder

if TYPE_CHECKING:
    from llft.core.replica import Replica

OTHER_BRANCH: Final = "lost: another branch of the group had sent something else"


class ViewChange:
    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.standing = replica.standing
        self.messaging = replica.messaging
        self.recovery: Recovery | None = None
        self._of_the_last = Recovery(order_ends={}, started_ns=0)
        """Of one who is alone, made while there is time. There is one recovery in a life."""
        self.messaging.on_unagreed_view = self.object_to_view
        self.messaging.on_lost_messages = self.give_up_connection
        self.entries = ViewEntries(replica)
        self.settled_view: ViewId = NO_VIEW
        self.settled_start = UNSETTLED
        """The newest view of which this replica knows where it began, and where."""
        self.unsettled_ns = NEVER
        """When to ask again the groups whose connections are not settled in this view."""

    # -- the new primary: lines 26-32 --------------------------------------------------------

    def start(self, order_ends: dict[BirthId, int], old_view: ViewId) -> None:
        """Lines 26-29. The view number was raised with the proposal."""
        replica = self.replica
        self.standing.view_start = UNSETTLED
        if old_view is self.settled_view or old_view == self.settled_view:
            # Else ours may go on beyond where that view began.
            self.messaging.recoverable_view = old_view
        self.messaging.uncache()
        if order_ends:
            self.recovery = Recovery(order_ends=order_ends, started_ns=replica.now_ns)
        else:
            self.recovery, self._of_the_last.started_ns = self._of_the_last, replica.now_ns
        self.recovery.bound_ns = replica.now_ns + replica.config.timeouts.recovery_bound_ns
        if replica.config.replication is Replication.SEMI_PASSIVE:
            replica.semi_passive.execute_log()
        questions.ask_newly_known(replica, self.recovery)
        questions.ask_members(replica, self.recovery)

    def ask(self) -> None:
        """Line 29 once more, where there is no definite answer yet."""
        recovery = self.recovery
        assert recovery is not None
        for connection_id in list(recovery.unanswered):
            connection = self.messaging.table.by_id.get(connection_id)
            if connection is None:
                recovery.on_gone(connection_id)
            else:
                questions.send_question(self.replica, connection)
        questions.ask_members(self.replica, recovery)

    def on_timer(self, now_ns: int) -> None:
        recovery = self.recovery
        if recovery is not None:
            if now_ns >= recovery.bound_ns:
                self._on_bound()
            elif now_ns >= recovery.ask_ns:
                self.ask()
        elif now_ns >= self.unsettled_ns:
            self.ask_unsettled()

    def next_deadline(self) -> int:
        if self.recovery is not None:
            return min(self.recovery.ask_ns, self.recovery.bound_ns)
        return self.unsettled_ns

    def _on_bound(self) -> None:
        """D-07: what is not here by now will not come."""
        replica, recovery = self.replica, self.recovery
        assert recovery is not None
        if recovery.phase == COLLECTING:
            recovery.stop_waiting()
            self.progress()
        elif recovery.is_over(replica.performed_count, caught_up=replica.determinizer.caught_up):
            self._settle_view()
        else:  # the application computes, or is given what was missing: not for us to bound, within reason
            bound_ns = replica.now_ns + replica.config.timeouts.recovery_bound_ns
            recovery.put_off(bound_ns, replica.performed_count)

    def on_new_primary_view_ack(
        self, connection: Connection, header: Header, body: NewPrimaryViewAckBody
    ) -> None:
        """Lines 30-31."""
        if body.view != self.standing.view or self.standing.role not in (PRIMARY, RECOVERING):
            return
        if connection.reset_reason:
            return
        newer = header.source_view != connection.in_view
        if newer and not header.source_view.supersedes(connection.in_view):
            return
        if body.definite and body.last_sent > connection.received_up_to and not newer:
            connection.want(body.last_sent)
            self.messaging.nack_soon(connection)
        recovery = self.recovery
        if recovery is not None:
            recovery.on_answer(connection.connection_id, header, body)
        elif not body.definite and connection.settled:
            connection.settled = bool(connection.reset_reason)
            self.ask_unsettled()
        elif body.definite and not connection.settled:
            self.settle_connection(connection, header, body)

    def give_up_connection(self, connection: Connection) -> None:
        """The remote group's surviving branch lacks what we delivered, or were told that all of it had."""
        if self.standing.role == PRIMARY and connection.settled:
            self.replica.reset_connection(connection, "lost: a pruned branch of the remote group had more")

    def object_to_view(self, connection: Connection, header: Header) -> None:
        """After a partition: the remote group speaks to us in a view that has agreed with another primary
        of our group, not with us. It must ask us first, so we answer as if it had, indefinitely."""
        if header.view_start == UNSETTLED:
            return  # it is recovering, and asks
        answer = (header.source_view, answers.received_view(connection), connection.generated)
        answers.send_answer(self.replica, connection, *answer, definite=False, checked=False)

    def _flush_undelivered(self, connection: Connection) -> None:
        """Line 38 (D-26): all after the last message delivered. What still counts is sent again."""
        self.messaging.discard_from(connection, answers.read_position(connection) + 1)

    def progress(self) -> None:
        """Move on from phase to phase as far as what is known allows."""
        recovery = self.recovery
        if recovery is None:
            return
        questions.ask_newly_known(self.replica, recovery)
        if recovery.phase == COLLECTING and recovery.collected(self.messaging.lane.orders.end):
            recovery.begin_performing(self.replica.performed_count)
            recovery.bound_ns = self.replica.now_ns + self.replica.config.timeouts.recovery_bound_ns
        if recovery.phase == PERFORMING:
            if recovery.untaken and not self._take_pieces(recovery):
                return
            if self._performed_everything(recovery):
                self._settle_view()

    def _take_pieces(self, recovery: Recovery) -> bool:
        """What the remote groups hold continues our own order stream; where they know of a later view than
        this replica has order information of, ours ends at its start. False: this replica is of no use."""
        lineage, orders = self.replica.lineage, self.messaging.lane.orders
        if recovery.pieces:
            if not self._cut_at(recovery.new_start(lineage, self.settled_view)):
                return False
            for start, data in recovery.usable_pieces(lineage, self.settled_view, self.settled_start):
                orders.insert(start, data)
        orders.forget_early()
        recovery.untaken = False
        self.replica.follow_log()
        questions.ask_newly_known(self.replica, recovery)
        return self.standing.role == RECOVERING

    def _performed_everything(self, recovery: Recovery) -> bool:
        """Line 32, and nobody is left who may know more."""
        cursor = self.replica.cursor
        performed = cursor is not None and cursor.at_end and self.replica.determinizer.caught_up
        return performed and recovery.collected(self.messaging.lane.orders.end)

    # -- the virtual synchrony point: lines 33-35 ----------------------------------------------

    def _settle_view(self) -> None:
        replica = self.replica
        standing = self.standing
        recovery = self.recovery
        if not replica.determinizer.caught_up:
            replica.reset_and_rejoin("the application does not follow the order log")
            return
        assert recovery is not None and replica.cursor is not None
        context, offset, count, repeated = replica.cursor.give_up()
        lane = self.messaging.lane
        lane.orders.truncate(offset)
        lane.encoder = OrderEncoder(context, offset, count)
        for entry in repeated:
            lane.encoder.append(entry)
        check_transition(standing.role, PRIMARY)
        standing.role = PRIMARY
        standing.view_start = offset
        self.settled_view, self.settled_start = standing.view, offset
        self.recovery = None
        self.messaging.recoverable_view = NO_VIEW
        lane.orders.reset_reflected(recovery.all_have(offset))
        self.entries.record()
        replica.become_primary()
        replica.outbox.record(ROLE_CHANGED, PRIMARY, "virtual synchrony point reached")
        replica.outbox.record(LATENCY, "recovery", replica.now_ns - recovery.started_ns)
        if len(self.messaging.table):  # else nothing has happened since all who wait were tried
            self._settle_connections(recovery)

    def _settle_connections(self, recovery: Recovery) -> None:
        for connection in self.messaging.table:
            answer = recovery.answers.get(connection.connection_id)
            if connection.reset_reason:
                connection.settled = True
            elif answer is not None:
                self.settle_connection(connection, *answer)
            elif connection.connection_id in recovery.gone:
                self.end_connection(connection)
        self.messaging.indexes.touched.note_everything()
        self.ask_unsettled(questions.still_answering(self.replica, recovery))
        self.replica.determinizer.poke(self.replica.now_ns)

    def settle_connection(
        self, connection: Connection, header: Header, answer: NewPrimaryViewAckBody
    ) -> None:
        """Does the remote group know more of our past than we do? Then the connection is reset (D-07). If it
        has a new view itself, that is accepted now: everything of its old one has been performed."""
        changed = answers.read_position(connection) > 0 and header.source_view != connection.delivered_view
        if changed and not answer.checked:
            return  # it is asked again, whether what we delivered is of its history
        pruned = changed and answers.read_position(connection) > answer.last_sent
        if header.source_view != connection.in_view:
            if connection.in_view.supersedes(header.source_view):
                return
            self._flush_undelivered(connection)
            self.messaging.adopt_remote_view(connection, header)
            connection.want(answer.last_sent)
            self.messaging.nack_soon(connection)
        connection.settled = True
        if connection.closed_here:
            connection.skip_to(answer.last_sent)
            connection.delivered_view = connection.in_view
            # What was skipped will never come, so its timestamps are known by their bound only.
            connection.delivered_timestamp = max(connection.delivered_timestamp, header.timestamp)
            self.replica.mark_delivered(connection)
        known = connection.generated_before_successor(answer.received_view)
        if answer.received_up_to and (known is None or answer.received_up_to > known):
            self.replica.reset_connection(connection, "lost: the remote group knows more of the old primary")
        elif pruned or answer.received_up_to < connection.collected_up_to:
            self.give_up_connection(connection)
        elif answers.has_sent_other(connection, answer.received_up_to, answer.received_digest):
            self.replica.reset_connection(connection, OTHER_BRANCH)
        else:
            # Less than the old primary had acknowledged, if the remote group flushed what was undelivered.
            connection.acked = connection.transmitted = answer.received_up_to
            self.messaging.push(connection)
            if connection.acked < connection.generated:
                self.replica.retention.retransmit_later(connection)

    def end_connection(self, connection: Connection) -> None:
        """The remote group says that the connection is over, or that it never knew it."""
        connection.settled = True
        ended = connection.half_closed_here and connection.half_closed_there
        if connection.closed_here or ended:
            connection.collect_sent(connection.sent[-1].timestamp if connection.sent else 0)
            connection.half_closed_there = True
            connection.over_at = 0  # the remote group has nothing more to ask us
        else:
            self.replica.sockets.reset(connection, "reset by the remote group")

    def ask_unsettled(self, spared: Container[ConnectionId] = ()) -> None:
        self.unsettled_ns = questions.ask_unsettled(self.replica, spared)

    # -- at a backup ---------------------------------------------------------------------------

    def learn_view_start(self, view_start: int) -> None:
        """Where the new primary's own part of the order stream begins."""
        standing = self.standing
        if view_start == UNSETTLED or standing.view_start != UNSETTLED:
            return
        standing.view_start = view_start
        self.settled_view, self.settled_start = standing.view, view_start
        self.messaging.lane.orders.forget_early()
        self._cut_at(view_start)

    def _cut_at(self, offset: int) -> bool:
        """Give up what this replica knows of an older view beyond the start of a newer one."""
        cursor = self.replica.cursor
        if not self.standing.has_state or cursor is None or self.messaging.lane.orders.end <= offset:
            return True
        if cursor.cut(offset):
            return True
        self.replica.reset_and_rejoin("performed more than the new primary")
        return False

    # -- the remote group: lines 36-41 ---------------------------------------------------------

    def on_new_primary_view(
        self, connection: Connection | None, header: Header, body: NewPrimaryViewBody
    ) -> None:
        """At the primary of a remote group; one that recovers itself answers with what it holds."""
        standing = self.standing
        if standing.role not in (PRIMARY, RECOVERING):
            return
        if connection is None:
            connection = answers.unknown_connection(self.replica, header)
            if connection is None:
                return
        if connection.in_view != NO_VIEW and connection.in_view.supersedes(header.source_view):
            return
        definite = standing.role == PRIMARY
        if definite and connection.in_view != header.source_view:
            self._freeze_old_view(header)
            self._flush_undelivered(connection)
            received_in = answers.received_view(connection)
            self.messaging.adopt_remote_view(connection, header)
        else:
            received_in = answers.received_view(connection)
        checked = definite and body.settled and not connection.reset_reason
        if checked and answers.has_sent_other(connection, body.delivered_up_to, body.delivered_digest):
            self.replica.reset_connection(connection, OTHER_BRANCH)
            return
        answer = (header.source_view, received_in, max(connection.generated, connection.transmitted))
        answers.send_answer(self.replica, connection, *answer, definite=definite, checked=checked)

    def _freeze_old_view(self, header: Header) -> None:
        """What we hold of the old primary's order information is told once for all connections with that
        group, so none of them may take any more of it, though each is agreed upon by itself."""
        for connection in self.messaging.table:
            if connection.remote_group_id != header.source_group_id or connection.reset_reason:
                continue
            if connection.in_view != NO_VIEW and header.source_view.supersedes(connection.in_view):
                self._flush_undelivered(connection)
                connection.frozen = True
        self.messaging.uncache()
