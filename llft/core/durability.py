"""In a durable group output also waits for a backup's disk (D-71).

At level 1 a reply waits until a backup could take over with what led to it. If all processes die at once that
is not enough: what a backup has received dies with it, what it has *performed* is in its history on disk
(D-64). So in a durable group a commit is what enough backups hold, and what enough of those with a history
have performed: whatever one disk is lost, what was acknowledged is on another.

    primary    remembers at each question how many entries the order log had where it ended (`mark`), and
               learns from heartbeats how many each backup has performed
    backup     answers a question once more when it has performed what was asked for; and says (ON_DISK)
               whether what it performs is in a history: a joiner's is when it has gone through its past

While no backup has a history, a commit is what they hold. So it is when none of them has come further for
`lag_bound`: a program that hangs at one replica must not keep the group's clients waiting. Semi-passive
backups perform nothing, and at level 0 nothing waits: there it is always so.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final

from llft.config import Replication
from llft.identifiers import BirthId
from llft.wire.messages import MessageFlag

if TYPE_CHECKING:
    from llft.core.replica import Replica

_MARKS: Final = 4096
"""Older ones are forgotten: a backup so far behind commits nothing until it has passed a newer one."""
_NOT_ASKED: Final = -1


class Durability:
    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        config = replica.config
        semi_active = config.replication is Replication.SEMI_ACTIVE
        self.wanted = config.durable and semi_active and config.output_commit_level > 0
        self._bound_ns = config.timeouts.lag_bound_ns
        self.on_disk = False
        """At a backup: what it performs is in its history."""
        self._performed: dict[BirthId, int] = {}
        """At a primary: offsets of the order log that backups have performed, and have on disk."""
        self._unheard: set[BirthId] = set()
        """At a new primary: backups that have not said yet whether they have histories."""
        self._left_out: dict[BirthId, int] = {}
        """Who did not come further, and how far it must come to be waited for again."""
        self._counts: list[int] = []
        self._ends: list[int] = []
        self._progress_ns = 0
        self._asked_end = self._asked_count = self._newest_end = _NOT_ASKED
        """At a backup: the oldest question that it has not performed, and the newest."""

    # -- at a primary ------------------------------------------------------------------------------

    def mark(self) -> None:
        """The order log ends here, with so many entries."""
        lane = self.replica.messaging.lane
        if not self.wanted or lane.encoder is None:
            return
        lane.flush()
        last_end = self._ends[-1] if self._ends else 0
        if lane.order_committed >= last_end:
            self._progress_ns = self.replica.now_ns  # nothing was waited for
        if last_end < lane.orders.end:
            self._counts.append(lane.encoder.count)
            self._ends.append(lane.orders.end)
        if len(self._ends) > _MARKS:
            del self._counts[: _MARKS // 2], self._ends[: _MARKS // 2]

    def report(self, backup: BirthId, flags: MessageFlag, executed: int) -> None:
        if flags & MessageFlag.ON_DISK:
            passed = bisect_right(self._counts, executed)
            self._note(backup, self._ends[passed - 1] if passed else 0)
        elif backup in self._unheard:
            self._performed.pop(backup, None)
        self._unheard.discard(backup)

    def _note(self, backup: BirthId, end: int) -> None:
        if end < self._left_out.get(backup, 0):
            return
        self._left_out.pop(backup, None)
        if backup not in self._performed or end > self._performed[backup]:
            self._performed[backup], self._progress_ns = end, self.replica.now_ns

    def leave_out_laggards(self) -> None:
        """A question is overdue."""
        if self._performed and self.replica.now_ns - self._progress_ns > self._bound_ns:
            self._left_out = dict.fromkeys(self._performed, self._ends[-1] if self._ends else 0)
            self._performed = {}
            self.replica.update_watermarks()

    def counts(self, backup: BirthId) -> bool:
        return backup in self._performed or not self._performed

    def committed(self, held: int, level: int) -> int:
        """Of what enough backups hold, what enough of those that have histories have performed."""
        if not self._performed:
            return held
        backups = self.replica.standing.backups
        performed = sorted((end for one, end in self._performed.items() if one in backups), reverse=True)
        return min(held, performed[min(level, len(performed)) - 1]) if performed and level else held

    def keep_only(self, backups: list[BirthId]) -> None:
        """Nobody waits for the dead."""
        self._performed = {backup: end for backup, end in self._performed.items() if backup in backups}
        self._left_out = {backup: end for backup, end in self._left_out.items() if backup in backups}

    def begin_primary(self, backups: list[BirthId]) -> None:
        """Counts go on from view to view; what others have performed they say anew, and until then it is
        believed that they have histories: output waits for them."""
        if not self.wanted:
            return  # nothing was ever counted
        self._counts, self._ends, self._left_out = [], [], {}
        self._progress_ns = self.replica.now_ns
        self._unheard = set(backups)
        self._performed = dict.fromkeys(backups, 0)

    @property
    def covers_committed(self) -> bool:
        """All that was ever acknowledged is on another disk than this primary's as well."""
        lane, level = self.replica.messaging.lane, self.replica.config.output_commit_level
        on_disk = self.committed(lane.orders.end, level)
        return bool(self._performed) and on_disk >= lane.order_committed

    # -- at a backup -------------------------------------------------------------------------------

    def begin_history(self) -> None:
        self.on_disk = True
        self.replica.asking.answer_wanted = True

    def flags(self) -> MessageFlag:
        return MessageFlag.ON_DISK if self.wanted and self.on_disk else MessageFlag.NONE

    def asked(self, order_end: int) -> None:
        """The oldest question stays until it is answered: with each new one the answer would come later."""
        if not self.wanted:
            return
        self._newest_end = max(self._newest_end, order_end)
        if self._asked_end == _NOT_ASKED:
            self._asked_end = order_end

    def forget_questions(self) -> None:
        """They were of another view."""
        self._asked_end = self._asked_count = self._newest_end = _NOT_ASKED

    def has_performed_what_was_asked(self, performed: int) -> bool:
        cursor = self.replica.cursor
        if self._asked_end == _NOT_ASKED or cursor is None:
            return False
        if self._asked_count == _NOT_ASKED and cursor.watermark >= self._asked_end:
            self._asked_count = cursor.passed_count
        return self._asked_count != _NOT_ASKED and performed >= self._asked_count

    def answered(self) -> None:
        newest_end = self._newest_end if self._newest_end > self._asked_end else _NOT_ASKED
        self._asked_end, self._asked_count = newest_end, _NOT_ASKED
