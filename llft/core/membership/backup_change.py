"""Change of a backup: joining, adding, removing (figure "addition and removal of a backup", lines 1-46).

The primary alone decides. It multicasts the new membership and repeats it until every backup in it has
acknowledged; who stays silent is excluded. The acknowledgments are the commit; then, and only then, the
state goes to whoever needs it. One change at a time: others wait in a queue.
"""

from __future__ import annotations

from llft.config import PartitionPolicy
from llft.core.membership.fault_detector import FaultDetector
from llft.core.membership.port import MembershipPort
from llft.core.membership.transitions import check_transition
from llft.core.outbox import Outbox
from llft.core.standing import BACKUP, JOINING, PRIMARY, Standing
from llft.identifiers import NO_BIRTH, NO_VIEW, BirthId, Member, ViewId
from llft.instant import NEVER
from llft.journal.record import MembershipChanged, RoleChanged
from llft.wire.messages import (
    Header,
    MembershipAckBody,
    MembershipBody,
    MessageType,
    ProposeBackupBody,
)


class Joining:
    """At a new process: lines 1-19."""

    def __init__(self, standing: Standing, port: MembershipPort, outbox: Outbox) -> None:
        self.standing = standing
        self.port = port
        self.outbox = outbox
        self.timeouts = standing.config.timeouts
        self.retransmit_ns = NEVER
        self.retransmission_count = 0
        self.may_found = True
        self.former = NO_BIRTH
        self.withdrawn: ViewId = NO_VIEW
        self.deferrals = 0

    def start(self, *, may_found: bool, former: BirthId, withdrawn: ViewId) -> None:
        """Lines 1-9. Logging has started with the process itself: what arrives is kept."""
        self.former, self.withdrawn = former, withdrawn
        self.may_found = may_found
        self.retransmission_count = 0
        self._propose()

    def _propose(self) -> None:
        body = ProposeBackupBody(self.standing.birth_id, self.former, self.withdrawn)
        self.port.send_local(MessageType.PROPOSE_BACKUP, body)
        self.retransmit_ns = self.outbox.now_ns + self.timeouts.join_interval_ns

    def on_retransmission_timer(self) -> None:
        """Lines 10-14."""
        if self.retransmission_count > self.timeouts.join_max_count and self.may_found:
            self.retransmit_ns = NEVER
            self.become_first_member()
            return
        self.retransmission_count += 1
        self._propose()

    def become_first_member(self) -> None:
        """Line 11."""
        check_transition(self.standing.role, PRIMARY)
        self.retransmit_ns = NEVER
        self.port.become_first_member()

    def on_other_joiner(self, body: ProposeBackupBody) -> None:
        """Two processes start a group together: the younger waits for the older one, for a bounded time."""
        mine, other = self.standing.birth_id, body.sender
        self.deferrals += 1
        if body.former != NO_BIRTH or self.deferrals > 4 * self.timeouts.join_max_count:
            return
        if (other.start_ns, other.host_id, other.pid) < (mine.start_ns, mine.host_id, mine.pid):
            self.retransmission_count = 0

    def on_accept_backup(self, header: Header, body: MembershipBody) -> None:
        """Lines 15-19."""
        standing = self.standing
        if all(member.birth_id != standing.birth_id for member in body.membership):
            return
        check_transition(standing.role, BACKUP)
        standing.role = BACKUP
        standing.view = header.source_view
        standing.change_num = body.change_num
        standing.membership = body.membership
        standing.next_precedence = body.next_precedence
        self.retransmit_ns = NEVER
        self.outbox.record(RoleChanged, BACKUP, "accepted")
        self.outbox.record(MembershipChanged, standing.change_num, standing.membership)
        self.port.accepted()


class Commit:
    """At the primary: lines 22-42."""

    def __init__(
        self, standing: Standing, detector: FaultDetector, port: MembershipPort, outbox: Outbox
    ) -> None:
        self.standing = standing
        self.detector = detector
        self.port = port
        self.outbox = outbox
        self.timeouts = standing.config.timeouts
        self.message_type: MessageType = MessageType.ACCEPT_BACKUP
        self.body: MembershipBody | None = None
        self.acked: list[BirthId] = []
        self.need_state: list[BirthId] = []
        self.retransmit_ns = NEVER
        self.retransmission_count = 0
        self.queue: list[tuple[MessageType, BirthId]] = []

    @property
    def in_progress(self) -> bool:
        return self.body is not None

    # -- lines 22-29 -------------------------------------------------------------------------

    def on_propose_backup(self, body: ProposeBackupBody) -> None:
        """Lines 22-26. A duplicate is answered by the retransmission of what was decided."""
        joiner = body.sender
        if self.standing.rank_of(body.former) > 1:
            self.detector.certify(body.former)
            self.remove(body.former)
            if self.in_progress:
                self._conclude_if_complete()
        if self.standing.rank_of(joiner):
            if not self.in_progress:
                self._resend_to(joiner)
            return
        self._enqueue(MessageType.ACCEPT_BACKUP, joiner)

    def remove(self, backup: BirthId) -> None:
        """Lines 27-29."""
        if self.standing.rank_of(backup):
            self._enqueue(MessageType.REMOVE_BACKUP, backup)

    def _enqueue(self, message_type: MessageType, subject: BirthId) -> None:
        if self.body is not None and self.body.subject == subject and self.message_type == message_type:
            return
        if (message_type, subject) not in self.queue:
            self.queue.append((message_type, subject))
        self.start_next()

    def start_next(self) -> None:
        while self.queue and not self.in_progress and self.standing.role == PRIMARY:
            message_type, subject = self.queue.pop(0)
            adding = message_type == MessageType.ACCEPT_BACKUP
            if adding == bool(self.standing.rank_of(subject)):
                continue  # done already, by another change
            if adding and self.detector.is_dead(subject):
                continue
            self._change(message_type, subject)

    def _change(self, message_type: MessageType, subject: BirthId) -> None:
        """Lines 23-24, 27-28: precedences in order of joining, ranks in order of precedence."""
        standing = self.standing
        old = standing.membership
        if message_type == MessageType.ACCEPT_BACKUP:
            standing.membership = (*old, Member(subject, standing.next_precedence))
            standing.next_precedence += 1
        else:
            standing.membership = tuple(member for member in old if member.birth_id != subject)
        self.message_type = message_type
        self._multicast_change(subject, old)

    def _multicast_change(self, subject: BirthId, old: tuple[Member, ...]) -> None:
        """Lines 30-32."""
        standing = self.standing
        standing.change_num += 1
        self.outbox.record(MembershipChanged, standing.change_num, standing.membership)
        self.body = MembershipBody(
            subject, standing.change_num, standing.next_precedence, old, standing.membership
        )
        self.acked = []
        self.need_state = []
        self.retransmission_count = 0
        self.detector.watch(standing.backups, self.outbox.now_ns)
        self.port.membership_changed()
        self._send()
        self._conclude_if_complete()

    def _send(self) -> None:
        assert self.body is not None
        self.port.send_local(self.message_type, self.body)
        self.retransmit_ns = self.outbox.now_ns + self.timeouts.propose_interval_ns

    def _resend_to(self, member: BirthId) -> None:
        """A member that has not noticed being one: tell it the membership again."""
        standing = self.standing
        body = MembershipBody(
            member,
            standing.change_num,
            standing.next_precedence,
            standing.membership,
            standing.membership,
        )
        self.port.send_local(MessageType.ACCEPT_BACKUP, body, to=member)

    def tell_removed(self, stranger: BirthId) -> None:
        """A process that believes it is a member learns that it was removed."""
        standing = self.standing
        body = MembershipBody(
            stranger,
            standing.change_num,
            standing.next_precedence,
            standing.membership,
            standing.membership,
        )
        self.port.send_local(MessageType.REMOVE_BACKUP, body, to=stranger)

    # -- lines 33-38 -------------------------------------------------------------------------

    def on_retransmission_timer(self) -> None:
        if self.body is None:
            self.retransmit_ns = NEVER
            return
        if self.retransmission_count > self.timeouts.max_count:
            self._exclude_silent()
            return
        self.retransmission_count += 1
        self._send()

    def _exclude_silent(self) -> None:
        """Lines 34-36."""
        standing = self.standing
        assert self.body is not None
        if not self._majority_acknowledged(self.body.old_membership):
            self.retransmission_count = 0
            self._send()
            return
        old = standing.membership
        standing.membership = tuple(
            member for member in old if member.birth_id == standing.birth_id or member.birth_id in self.acked
        )
        self._multicast_change(self.body.subject, old)

    def _majority_acknowledged(self, old: tuple[Member, ...]) -> bool:
        """Majority policy (D-11): nobody is excluded by less than most of the last membership."""
        if self.standing.config.partition is not PartitionPolicy.MAJORITY:
            return True
        return 2 * (1 + sum(member.birth_id in self.acked for member in old)) > len(old)

    # -- lines 39-42 -------------------------------------------------------------------------

    def on_membership_ack(self, body: MembershipAckBody) -> None:
        standing = self.standing
        if standing.role != PRIMARY or body.view != standing.view or not standing.rank_of(body.sender):
            return
        if self.body is None or body.change_num != self.body.change_num:
            return
        if body.sender not in self.acked:
            self.acked.append(body.sender)
        if body.needs_state and body.sender not in self.need_state:
            self.need_state.append(body.sender)
        self._conclude_if_complete()

    def _conclude_if_complete(self) -> None:
        if any(b not in self.acked and not self.detector.is_dead(b) for b in self.standing.backups):
            return
        need_state = self.need_state
        self.body = None
        self.retransmit_ns = NEVER
        self.port.membership_committed(need_state)
        self.start_next()


def on_membership_change(
    standing: Standing,
    detector: FaultDetector,
    port: MembershipPort,
    outbox: Outbox,
    header: Header,
    body: MembershipBody,
) -> None:
    """At an existing backup: lines 43-46."""
    if standing.role in (JOINING, PRIMARY):
        return
    if header.source_view != standing.view or body.change_num < standing.change_num:
        return
    if all(member.birth_id != standing.birth_id for member in body.membership):
        port.reset_and_rejoin("removed from the membership")
        return
    if body.change_num > standing.change_num:
        standing.change_num = body.change_num
        standing.membership = body.membership
        standing.next_precedence = body.next_precedence
        outbox.record(MembershipChanged, standing.change_num, standing.membership)
        detector.watch([member.birth_id for member in standing.membership], outbox.now_ns)
    ack = MembershipAckBody(
        standing.birth_id, standing.view, body.change_num, not standing.has_state, port.order_end()
    )
    port.send_local(MessageType.MEMBERSHIP_ACK, ack, to=header.source_view.birth_id)
