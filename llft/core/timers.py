"""All that happens because time passes, or because a process is known to be dead.

One deadline goes out to the shell; when it comes, everything that is due is done: heartbeats, fault
detection, retransmissions, and what `periodic` does for connections.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llft.config import BACKUP_INTERVALS, PartitionPolicy, Replication
from llft.core.messaging.connection import Connection
from llft.core.periodic import PeriodicProcessing
from llft.core.standing import BACKUP, LEFT, PRIMARY, PROPOSING
from llft.identifiers import NO_BIRTH, BirthId, GroupId
from llft.instant import NEVER
from llft.journal.record import Suspected
from llft.wire.messages import MessageType

if TYPE_CHECKING:
    from llft.core.replica import Replica


class Timers:
    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.standing = replica.standing
        self.messaging = replica.messaging
        self.timeouts = replica.config.timeouts
        self.periodic = PeriodicProcessing(replica)

    # -- starting --------------------------------------------------------------------------------

    def start_backup(self, now_ns: int) -> None:
        self.replica.intra.heartbeat_ns = min(self.replica.intra.heartbeat_ns, now_ns)

    def start_primary(self, now_ns: int) -> None:
        self.start_backup(now_ns)
        for connection in self.messaging.table:
            if connection.reset_reason:
                self.replica.deadline_hint(now_ns)  # closed while there was no primary, it is to be forgotten
                continue
            # The view handshake has just spoken to everybody, and what is unacknowledged is pushed by it.
            self.messaging.arm(connection, "keep_alive_ns", now_ns + self.timeouts.keep_alive_interval_ns)
            if connection.ack_due_ns != NEVER:
                self.messaging.arm(connection, "ack_due_ns", now_ns + self.timeouts.first_ack_patience_ns)
            if connection.acked < connection.generated:
                self.replica.retention.retransmit_later(connection)
        if self.replica.config.replication is Replication.SEMI_PASSIVE:
            self.replica.transfer.update_ns = now_ns + self.timeouts.state_update_interval_ns

    # -- the one deadline ------------------------------------------------------------------------

    def next_deadline(self) -> int:
        return self._earliest(min(self.replica.intra.heartbeat_ns, self.messaging.soonest_ns))

    def late_deadline(self, patience_ns: int, busy: list[Connection]) -> int:
        """The same at a primary for whom somebody else beats, so that its own beat can wait for so long. The
        timers of what is sent and acknowledged on the busy connections are theirs who serve them."""
        return self._earliest(
            min(self.replica.intra.heartbeat_ns + patience_ns, self.periodic.soonest_but_for(busy))
        )

    def late_deadline_of_backup(self, patience_ns: int) -> int:
        """The same at a backup that hears its primary: when it suspects that one is told apart."""
        return self._of_members(min(self.replica.intra.heartbeat_ns + patience_ns, self.messaging.soonest_ns))

    def deadline_while_beating(self, busy: list[Connection], patience_ns: int) -> int:
        """The same of one that beats in its dialogue (D-77), and hears others' beats. `patience_ns`: so long
        a KeepAlive to those who are idle can wait."""
        if self.replica.live:
            return self._earliest(self.periodic.soonest_but_for(busy, patience_ns))
        return self._of_members(self.messaging.soonest_ns)

    def suspicion(self) -> tuple[int, int]:
        """At a backup: when it suspects its primary, and how long after it hears it again."""
        standing = self.standing
        if standing.role != BACKUP:
            return NEVER, 0
        return self._primary_deadline(), self.replica.detector.primary_patience_ns(max(standing.rank, 2))

    def _of_members(self, deadline: int) -> int:
        replica = self.replica
        # By twos: so it is compared in place where this is compiled.
        deadline = min(deadline, replica.intra.order_nack_ns)
        deadline = min(deadline, replica.joining.retransmit_ns)
        deadline = min(deadline, replica.commit.retransmit_ns)
        deadline = min(deadline, replica.primary_change.retransmit_ns)
        return min(deadline, replica.transfer.retransmit_ns)

    def _earliest(self, deadline: int) -> int:
        replica = self.replica
        deadline = self._of_members(deadline)
        role = self.standing.role
        if role == BACKUP:
            return min(deadline, self._primary_deadline())  # nothing else ever waits at a backup
        if role == PRIMARY:
            deadline = min(deadline, replica.transfer.update_ns)
            deadline = min(deadline, replica.reticence.switching_until_ns or NEVER)
            deadline = min(deadline, replica.asking.next_deadline())
            if replica.sockets.connecting:
                deadline = min(deadline, replica.sockets.connect_deadline())
        elif role == LEFT:
            return NEVER
        deadline = min(deadline, replica.determinizer.next_deadline())
        return min(deadline, replica.view_change.next_deadline())

    def _primary_deadline(self) -> int:
        standing = self.standing
        return self.replica.detector.primary_deadline(standing.view.birth_id, max(standing.rank, 2))

    def on_deadline(self) -> None:
        replica, now_ns = self.replica, self.replica.now_ns
        if now_ns >= replica.joining.retransmit_ns:
            replica.joining.on_retransmission_timer()
        if now_ns >= replica.primary_change.retransmit_ns:
            replica.primary_change.on_retransmission_timer()
        if now_ns >= replica.commit.retransmit_ns:
            replica.commit.on_retransmission_timer()
        if now_ns >= replica.transfer.retransmit_ns:
            replica.transfer.on_retransmission_timer()
        if now_ns >= replica.view_change.next_deadline():
            replica.view_change.on_timer(now_ns)
        if now_ns >= replica.intra.heartbeat_ns:
            replica.intra.on_heartbeat_timer()
            self._detect_faulty_backups(now_ns)
        if now_ns >= replica.intra.order_nack_ns:
            replica.intra.on_order_nack_timer()
        if self.standing.role == BACKUP and now_ns >= self._primary_deadline():
            replica.primary_change.on_primary_timeout("timeout")
        if self.standing.role == PRIMARY:
            self._primary_housekeeping(now_ns)
        if now_ns >= self.messaging.soonest_ns:
            self.periodic.process_connections(now_ns)

    def _primary_housekeeping(self, now_ns: int) -> None:
        replica = self.replica
        switching_until_ns = replica.reticence.switching_until_ns
        if switching_until_ns and now_ns >= switching_until_ns:
            replica.reticence.give_up_switch()
        replica.sockets.refuse_overdue(now_ns)
        if now_ns >= replica.transfer.update_ns or replica.transfer.has_much_to_tell():
            self._update_state(now_ns)
        self._remove_laggards(now_ns)
        if now_ns >= replica.asking.next_deadline():
            replica.asking.on_deadline()

    def _update_state(self, now_ns: int) -> None:
        """Semi-passive: backups get the state by time, if anything happened, and by count."""
        replica = self.replica
        replica.transfer.update_ns = now_ns + self.timeouts.state_update_interval_ns
        if replica.performed_count != replica.transfer.updated_count and self.standing.backups:
            replica.transfer.want(NO_BIRTH)

    def _remove_laggards(self, now_ns: int) -> None:
        """D-13: a backup that keeps the primary waiting for too long is removed."""
        flow = self.messaging.flow
        since_ns = flow.engaged_since_ns
        if since_ns and now_ns - since_ns > self.timeouts.lag_bound_ns:
            flow.engaged_since_ns = now_ns
            watermarks = self.messaging.watermarks.of_member
            slowest = min(watermarks.values(), default=0)
            for backup in [b for b, w in watermarks.items() if w == slowest]:
                self.replica.commit.remove(backup)

    # -- fault detection ---------------------------------------------------------------------------

    def notice_pause(self, gap_ns: int) -> None:
        """This process itself was stopped for a while: what it did not hear says nothing about others,
        and a primary must not speak before it knows that it still is one. A backup with a silent primary has
        nothing to do but to beat; to be late with that is no pause."""
        replica, now_ns = self.replica, self.replica.now_ns
        usual_ns = (2 + BACKUP_INTERVALS) * self.timeouts.heartbeat_interval_ns
        if not self.standing.membership or (self.standing.role == BACKUP and gap_ns <= usual_ns):
            return
        for birth_id in list(replica.detector.heard_ns):
            replica.detector.restart(birth_id, now_ns)
        if self.standing.role == PRIMARY and self.standing.backups:
            replica.reticence.begin_doubt()

    def _detect_faulty_backups(self, now_ns: int) -> None:
        """The primary looks at its backups with every beat of its own: that is soon enough."""
        standing, replica = self.standing, self.replica
        if standing.role != PRIMARY or replica.reticence.in_minority:
            return
        for backup in standing.backups:
            if now_ns >= replica.detector.backup_deadline(backup, standing.rank_of(backup)):
                self._suspect_backup(backup, "timeout", now_ns)

    def hear_majority(self, now_ns: int) -> None:
        """Majority policy: a primary that hears most of its members again may answer again."""
        replica, standing = self.replica, self.standing
        if not replica.reticence.in_minority:
            return
        since_ns = now_ns - self.timeouts.backup_timeout_ns
        heard = sum(replica.detector.heard_ns.get(backup, 0) > since_ns for backup in standing.backups)
        if 2 * (1 + heard) > len(standing.membership):
            replica.reticence.set_minority(False)

    def _suspect_backup(self, backup: BirthId, reason: str, now_ns: int) -> None:
        """Backup change, lines 27-29."""
        replica = self.replica
        replica.outbox.record(Suspected, backup, reason)
        if replica.config.partition is PartitionPolicy.MAJORITY and self._is_minority(now_ns):
            replica.reticence.set_minority(True)
            return
        replica.detector.restart(backup, now_ns)
        replica.commit.remove(backup)

    def _is_minority(self, now_ns: int) -> bool:
        """D-11: whether this primary hears half of its last membership, or less."""
        standing, detector = self.standing, self.replica.detector
        silent = sum(
            detector.is_dead(backup) or now_ns >= detector.backup_deadline(backup, standing.rank_of(backup))
            for backup in standing.backups
        )
        return 2 * (len(standing.membership) - silent) <= len(standing.membership)

    def on_certificate(self, birth_id: BirthId) -> None:
        """D-23: nobody waits for the dead."""
        standing, replica = self.standing, self.replica
        if not standing.rank_of(birth_id):
            return
        replica.detector.certify(birth_id)
        if standing.role == PRIMARY:
            self._suspect_backup(birth_id, "certificate", replica.now_ns)
        elif standing.role == BACKUP and self._all_before_me_are_dead():
            replica.primary_change.on_primary_timeout("certificate")
        elif standing.role == PROPOSING:
            replica.primary_change.exclude_dead(birth_id)
        elif replica.view_change.recovery is not None:
            replica.view_change.recovery.member_gone(birth_id)

    def on_stopped(self, birth_id: BirthId) -> None:
        """D-73: who would be waited for in vain need not be waited for. It is suspected as by a timeout, for
        it may go on; and by the backup whose turn it is."""
        standing = self.standing
        is_primary = standing.role == BACKUP and birth_id == standing.view.birth_id
        if is_primary and self._all_before_me_are_dead(but=birth_id):
            self.replica.primary_change.on_primary_timeout("stopped")

    def on_running(self, birth_id: BirthId) -> None:
        """D-73: who merely does not get a processor will be heard again; to replace it would take longer."""
        if self.standing.role == BACKUP and birth_id == self.standing.view.birth_id:
            self.replica.detector.see_alive(birth_id)

    def _all_before_me_are_dead(self, but: BirthId = NO_BIRTH) -> bool:
        mine = self.standing.precedence
        return all(
            member.birth_id == but or self.replica.detector.is_dead(member.birth_id)
            for member in self.standing.membership
            if member.precedence < mine
        )

    # -- telling others ------------------------------------------------------------------------------

    def announce_commit(self) -> None:
        """D-10: gateways and durable groups wait for the output commit; tell them when it has advanced. It is
        the same for all connections with a group, so one is enough: the one sent on last, whose message may
        have been lost."""
        if not self.messaging.lane.held:
            return  # nobody was ever connected
        told: set[GroupId] = set()
        for connection in self.messaging.indexes.unacknowledged:
            group_id = connection.remote_group_id
            if connection.settled and group_id not in told and self.messaging.held_for(group_id).waits:
                told.add(group_id)
                speaker = self.messaging.keep_alives.speaker_for(connection)
                self.messaging.send_control(speaker, MessageType.KEEP_ALIVE)
