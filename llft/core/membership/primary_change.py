"""Change of the primary, first phase: the election (figure "change of the primary", lines 1-25).

A backup that suspects its primary appoints itself, excludes the members of lower precedence, and asks the
others. Each acknowledges at most the proposal of highest precedence. One round, no majority.

Laws:
 - A proposed view is (own precedence, primaryViewNum + 1, own birthId); it supersedes the old one.
 - Whoever acknowledges adopts the view at once and takes no more order information of the old one, except
   through the new primary. So the new primary learns from the acknowledgments how far its members are.
 - A process without the group's state, or without its program's past (D-70), never proposes itself: it
   makes way for the next in rank, who would exclude it.
"""

from __future__ import annotations

from llft.config import PartitionPolicy
from llft.core.beforehand import Beforehand
from llft.core.membership.fault_detector import FaultDetector
from llft.core.membership.footing import Footings
from llft.core.membership.port import MembershipPort
from llft.core.membership.transitions import check_transition
from llft.core.outbox import Outbox
from llft.core.record_kinds import MEMBERSHIP_CHANGED, ROLE_CHANGED, SUSPECTED
from llft.core.standing import BACKUP, JOINING, PRIMARY, PROPOSING, RECOVERING, Standing
from llft.identifiers import BirthId, Member, ViewId
from llft.instant import NEVER
from llft.wire.messages import (
    Header,
    MembershipAckBody,
    MembershipBody,
    MessageType,
    ProposePrimaryBody,
)


class PrimaryChange:
    def __init__(
        self, standing: Standing, detector: FaultDetector, port: MembershipPort, outbox: Outbox
    ) -> None:
        self.standing = standing
        self.detector = detector
        self.port = port
        self.outbox = outbox
        self.timeouts = standing.config.timeouts
        self.footings, self.beforehand = Footings(standing), Beforehand(standing)
        self._start_recovery = port.start_recovery  # to look it up takes longer, when clients wait
        self.old_view: ViewId = standing.view
        self.old_membership: tuple[Member, ...] = ()
        self.acked: dict[BirthId, MembershipAckBody] = {}
        self.retransmit_ns = NEVER
        self.retransmission_count = 0

    # -- lines 1-7 ---------------------------------------------------------------------------

    def on_primary_timeout(self, reason: str) -> None:
        """The fault detection timeout for the primary expired, or its death is certified."""
        standing = self.standing
        primary = standing.view.birth_id
        self.outbox.record(SUSPECTED, primary, reason)
        if not standing.has_state:
            self.port.reset_and_rejoin("primary lost before the state came")
        elif not standing.has_past:
            self.port.reset_and_rejoin("primary lost before the program's past came")
        elif self.majority_policy and 2 * len(self.surviving_members()) <= len(standing.membership):
            self.detector.restart(primary, self.outbox.now_ns)  # it could not win: wait for the others
        else:
            self.propose(reason)

    @property
    def majority_policy(self) -> bool:
        return self.standing.config.partition is PartitionPolicy.MAJORITY

    def propose(self, reason: str) -> None:
        standing = self.standing
        check_transition(standing.role, PROPOSING)
        self.old_view = standing.view
        self.old_membership = standing.membership
        standing.role = PROPOSING
        standing.view = self.beforehand.own_view()
        standing.change_num += 1
        standing.membership = self.surviving_members()
        self.outbox.record(ROLE_CHANGED, PROPOSING, reason)
        self.outbox.record(MEMBERSHIP_CHANGED, standing.change_num, standing.membership)
        self.multicast_proposal()

    def surviving_members(self) -> tuple[Member, ...]:
        """Line 4: exclude all members with lower precedences than mine, and the certified dead."""
        own = self.standing.precedence
        return tuple(
            member
            for member in self.standing.membership
            if member.precedence >= own and not self.detector.is_dead(member.birth_id)
        )

    def multicast_proposal(self) -> None:
        """Lines 5-7."""
        self.acked = {}
        self.retransmission_count = 0
        if not self._is_last():
            self._send_proposal()
        self._conclude_if_complete()

    def _is_last(self) -> bool:
        """Everybody else is certified to be dead: there is nobody to ask, and nobody to be told that it is
        excluded."""
        own = self.standing.birth_id
        dead = all(self.detector.is_dead(m.birth_id) for m in self.old_membership if m.birth_id != own)
        return dead and self.may_exclude_silent()

    def _send_proposal(self) -> None:
        standing = self.standing
        body = ProposePrimaryBody(
            standing.birth_id,
            self.old_view,
            standing.change_num,
            self.old_membership,
            standing.membership,
        )
        self.port.send_local(MessageType.PROPOSE_PRIMARY, body)
        self.retransmit_ns = self.outbox.now_ns + self.timeouts.propose_interval_ns

    # -- lines 8-13 --------------------------------------------------------------------------

    def on_retransmission_timer(self) -> None:
        standing = self.standing
        if self.retransmission_count > self.timeouts.max_count:
            if not self.may_exclude_silent():
                self.retransmission_count = 0
                self._send_proposal()
                return
            standing.membership = tuple(
                member
                for member in standing.membership
                if member.birth_id == standing.birth_id or member.birth_id in self.acked
            )
            standing.change_num += 1
            self.outbox.record(MEMBERSHIP_CHANGED, standing.change_num, standing.membership)
            self.multicast_proposal()
            return
        self.retransmission_count += 1
        self._send_proposal()

    def exclude_dead(self, dead: BirthId) -> None:
        """A member whose death is certified will not acknowledge."""
        standing = self.standing
        standing.membership = tuple(m for m in standing.membership if m.birth_id != dead)
        standing.change_num += 1
        self.outbox.record(MEMBERSHIP_CHANGED, standing.change_num, standing.membership)
        self.multicast_proposal()

    def may_exclude_silent(self) -> bool:
        """Majority policy (D-11): the new membership must be most of the last one."""
        if not self.majority_policy:
            return True
        return 2 * (1 + len(self.acked)) > len(self.old_membership)

    def on_removed(self, header: Header, body: MembershipBody) -> None:
        """Majority policy: while this replica proposed itself, most of the others removed it."""
        standing = self.standing
        if standing.role == PROPOSING and self.majority_policy and self.port.has_followed(header.source_view):
            if all(member.birth_id != standing.birth_id for member in body.membership):
                self.port.reset_and_rejoin("removed by the majority")

    # -- lines 14-16 -------------------------------------------------------------------------

    def on_propose_primary_ack(self, body: MembershipAckBody) -> None:
        standing = self.standing
        if standing.role != PROPOSING or body.view != standing.view:
            return
        if body.change_num == standing.change_num and standing.rank_of(body.sender):
            self.acked[body.sender] = body
            self._conclude_if_complete()

    def _conclude_if_complete(self) -> None:
        standing = self.standing
        if any(backup not in self.acked for backup in standing.backups):
            return
        if not self.may_exclude_silent():
            return
        self.retransmit_ns = NEVER
        check_transition(standing.role, RECOVERING)
        standing.role = RECOVERING
        self.outbox.record(ROLE_CHANGED, RECOVERING, "all acknowledged")
        self._start_recovery({birth: ack.order_end for birth, ack in self.acked.items()})

    def members_without_state(self) -> list[BirthId]:
        return [birth for birth, ack in self.acked.items() if ack.needs_state]

    # -- lines 17-25 -------------------------------------------------------------------------

    def on_propose_primary(self, header: Header, body: ProposePrimaryBody) -> None:
        standing = self.standing
        proposed = header.source_view
        if standing.role == JOINING or proposed in self.footings.withdrawn:
            return
        if proposed == standing.view and standing.role == BACKUP:
            self._acknowledge_again(body)
            return
        if self.majority_policy and not standing.rank_of(body.sender):
            if standing.role == PRIMARY:
                self.port.tell_removed(body.sender)
            return  # removed by a majority: it cannot win one
        if not proposed.supersedes(standing.view):
            return  # line 20: a proposal of lower precedence; its author will hear of ours
        included = any(member.birth_id == standing.birth_id for member in body.membership)
        if not included or standing.role != BACKUP:
            self.port.reset_and_rejoin("excluded by a new primary")
            return
        if body.old_view != standing.view and not self.port.data_view_matches(body.old_view):
            self.port.reset_and_rejoin("new primary of another branch")
            return
        self._accept_proposal(proposed, body)

    def _accept_proposal(self, proposed: ViewId, body: ProposePrimaryBody) -> None:
        """Lines 21-24."""
        standing = self.standing
        self.footings.keep()
        standing.view = proposed
        self.port.view_adopted()
        self._acknowledge_again(body)

    def on_withdrawn(self, view: ViewId) -> None:
        """Its proposer has reset before it was concluded: follow the view before it again."""
        footing = self.footings.withdraw(view)
        if footing is None:
            return
        standing, now_ns = self.standing, self.outbox.now_ns
        standing.view = footing.view
        self.port.view_adopted()
        standing.view_start = footing.view_start
        standing.change_num, standing.membership = footing.change_num, footing.membership
        self.outbox.record(MEMBERSHIP_CHANGED, standing.change_num, standing.membership)
        self.detector.watch([member.birth_id for member in standing.membership], now_ns)
        self.detector.restart(footing.view.birth_id, now_ns)

    def _acknowledge_again(self, body: ProposePrimaryBody) -> None:
        standing = self.standing
        if all(member.birth_id != standing.birth_id for member in body.membership):
            self.port.reset_and_rejoin("excluded by a new primary")
            return
        if body.change_num >= standing.change_num:
            standing.change_num = body.change_num
            standing.membership = body.membership
            self.outbox.record(MEMBERSHIP_CHANGED, standing.change_num, standing.membership)
        self.detector.watch([member.birth_id for member in standing.membership], self.outbox.now_ns)
        self.detector.restart(body.sender, self.outbox.now_ns)
        ack = MembershipAckBody(
            standing.birth_id,
            standing.view,
            body.change_num,
            not standing.has_state,
            self.port.order_end(),
        )
        self.port.send_local(MessageType.PROPOSE_PRIMARY_ACK, ack, to=body.sender)
