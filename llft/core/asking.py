"""Which backups a primary asks how far they have the order log, and when (D-10, D-48).

What waits for the output commit waits for answers, and every answer costs a datagram at both ends. So one
question is under way at a time: what is recorded meanwhile is asked for as soon as the answer is there. And
if one backup is enough to commit, one is asked, the next primary. The question goes to that process alone,
by which a backup that rests is woken; the others are told the order information now and then, and tell with
their own heartbeats. Where messages cannot carry all the order information that somebody may miss, all are
asked, however often.

    idle       nothing is asked for
    asked      up to `end`, since `asked_ns`; over when so much is committed
    overdue    no answer within PATIENCE: all are asked, and whoever kept the group waiting is in doubt

A backup in doubt is not asked alone for DOUBT_INTERVALS, nor before it has come to where it was asked for:
one that is slow, or stopped and not removed yet, holds up one reply for PATIENCE, and no other. The next one
is asked alone meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from llft.core.durability import Durability
from llft.core.holding import Holding
from llft.core.standing import BACKUP
from llft.identifiers import NO_BIRTH, BirthId
from llft.instant import NEVER
from llft.wire.messages import MessageFlag

if TYPE_CHECKING:
    from llft.core.replica import Replica

DOUBT_INTERVALS: Final = 50


class Asking:
    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.standing = replica.standing
        self.messaging = replica.messaging
        self.durability, self.holding = Durability(replica), Holding(replica)
        interval_ns = replica.config.timeouts.heartbeat_interval_ns
        self.spacing_ns = interval_ns // 10
        self.patience_ns = interval_ns // 2
        self.telling_ns = interval_ns // 4
        self.told_ns = self.told_end = 0
        """When those who were not asked were told the order information last, and how far."""
        self.end = 0
        self.asked_ns = 0
        self.alone: BirthId = NO_BIRTH
        """Who was asked, if it was one of several."""
        self.asked_of: BirthId = NO_BIRTH
        """Who says itself that it holds what it was asked for (D-75)."""
        self._doubted: BirthId = NO_BIRTH
        self._doubted_end = self._doubted_until_ns = 0
        self._doubt_ns = DOUBT_INTERVALS * interval_ns
        self.announced = 0
        """So much of what is committed was told to those who wait."""
        self.is_lent = False
        """A dialogue sees to it (D-74)."""
        self.lent_of: BirthId = NO_BIRTH
        """Who is asked there."""
        self.answer_wanted = False
        """At a backup: the primary waits for its watermark."""

    @property
    def under_way(self) -> bool:
        """At level 0 nothing waits for a commit, but the first message of a connection for one backup."""
        if self.replica.config.output_commit_level == 0:
            return self.messaging.watermarks.committed(1, self.end) < self.end
        return self.messaging.lane.order_committed < self.end

    def next_deadline(self) -> int:
        if self.is_lent:
            return NEVER
        if self.under_way and not self.messaging.waiting_for_all:
            return self.asked_ns + self.patience_ns
        if not self.messaging.waiting_for_backups:
            return NEVER
        pressing = not self.messaging.waiting_for_all and self.who_is_enough() != NO_BIRTH
        return self.asked_ns + (0 if pressing else self.spacing_ns)

    def on_deadline(self) -> None:
        """An answer is overdue, or what waited may be asked for now."""
        now_ns = self.replica.now_ns
        if self.under_way and now_ns >= self.asked_ns + self.patience_ns:
            self.messaging.waiting_for_backups = self.messaging.waiting_for_all = True
            self.durability.leave_out_laggards()
            if self.alone != NO_BIRTH:
                self._doubted, self._doubted_end = self.alone, self.end
                self._doubted_until_ns = now_ns + self._doubt_ns

    def membership_changed(self) -> None:
        """Nobody waits for the dead: if it was asked alone, all are asked now."""
        self.durability.keep_only(self.standing.backups)
        if self.under_way and self.alone != NO_BIRTH and self.alone not in self.standing.backups:
            self.asked_ns, self.alone = 0, NO_BIRTH
            self.messaging.waiting_for_backups = True

    def serve(self) -> None:
        """Something waits for backups: tell them what they miss, and ask, if it is time."""
        if self.replica.now_ns < self.next_deadline():
            return  # and the wish is kept until then
        self.durability.mark()
        orders, known = self.messaging.lane.orders, self.messaging.watermarks.of_member
        one = NO_BIRTH if self.messaging.waiting_for_all else self.who_is_enough()
        self.alone = one if len(known) > 1 else NO_BIRTH
        self.messaging.waiting_for_backups = self.messaging.waiting_for_all = False
        from_offset = known[one] if one != NO_BIRTH else min(known.values(), default=orders.end)
        unperformed = self.durability.wanted and self.messaging.lane.order_committed < orders.end
        if from_offset < orders.end or unperformed:
            self.asked_ns, self.end = self.replica.now_ns, orders.end
            self.asked_of = NO_BIRTH if self.durability.wanted else one
            if self.asked_of != NO_BIRTH:
                self.replica.intra.ask_one(from_offset, orders.end, one)
            else:
                self.replica.intra.ask(from_offset, orders.end, one)
        if self.alone != NO_BIRTH and self.replica.now_ns >= self.told_ns + self.telling_ns:
            self._tell_others()

    def _tell_others(self) -> None:
        """All that was recorded since they were told last; what is lost of it they ask for (Nack)."""
        end, known = self.messaging.lane.orders.end, self.messaging.watermarks.of_member
        behind = min(offset for backup, offset in known.items() if backup != self.alone)
        start = max(behind, self.told_end)
        self.told_ns, self.told_end = self.replica.now_ns, end
        if start < end:
            self.replica.intra.send_order(start, end, MessageFlag.ONE_ANSWERS)

    def note_commit(self, *, announced: bool = False) -> None:
        """Backups have come further, or others are the backups."""
        lane, level = self.messaging.lane, self.replica.config.output_commit_level
        held = self.messaging.watermarks.committed(level, lane.orders.end)
        committed = self.durability.committed(held, level)
        if committed > lane.order_committed:
            lane.order_committed = committed
            if not announced:
                self.announce()

    @property
    def is_announced(self) -> bool:
        """Nobody is to be told with the next beat of ours what is committed."""
        lane = self.messaging.lane
        if self.replica.config.output_commit_level == 0 or self.announced >= lane.order_committed:
            return True
        return not any(held.waits for held in lane.held.values())

    def announce(self) -> None:
        """To groups that wait, if there is news. What a backup tells them itself (D-75) they are told with
        the next beat all the same: it may have been lost, and with it comes order information, which whoever
        recovers may need of each of them."""
        committed = self.messaging.lane.order_committed
        if self.announced < committed:
            self.announced = committed
            if self.replica.config.output_commit_level:
                self.replica.timers.announce_commit()

    def answer_at_once(self) -> None:
        """At a backup, before the program is given what it performed."""
        if self.holding.wanted_end:
            self.holding.answer()
        if self.answer_wanted and not self.durability.wanted:
            self.answer()

    def forget_questions(self) -> None:
        """They were of another view."""
        self.durability.forget_questions()
        self.holding.wanted_end = 0

    def answer(self) -> None:
        """At a backup. Where disks count it is after the program was given what it performed, so that this is
        in its history before the answer leaves; and once more when all that was asked for is performed."""
        durability = self.durability
        performed = durability.has_performed_what_was_asked(self.replica.executed)
        if self.standing.role == BACKUP and (self.answer_wanted or performed):
            self.answer_wanted = False
            if performed:
                durability.answered()
            self.replica.intra.on_heartbeat_timer()

    def who_is_enough(self) -> BirthId:
        """The first backup whose answer commits (D-70, D-71), if it is known to answer; where no disk is
        waited for, else the next one that is."""
        watermarks, durability, backups = self.messaging.watermarks, self.durability, self.standing.backups
        several = len(watermarks.of_member) > 1
        if not watermarks.of_member or (several and self.replica.config.output_commit_level > 1):
            return NO_BIRTH
        for backup in backups[:1] if durability.wanted else backups:
            if watermarks.counts(backup) and durability.counts(backup) and not self._is_doubted(backup):
                return backup
        return NO_BIRTH

    def _is_doubted(self, backup: BirthId) -> bool:
        behind = self.messaging.watermarks.of_member[backup] < self._doubted_end
        return backup == self._doubted and (behind or self.replica.now_ns < self._doubted_until_ns)
