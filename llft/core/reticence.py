"""When a primary must not speak to the outside, and planned changes that need it.

    doubt      it was stopped for a while: perhaps it has been replaced, so it waits until a backup has
               answered a beat sent since (or no backup is left)
    minority   under the majority policy (D-11) it hears half of its last membership, or less
    switch     an operator wants the backup of rank 2 to take over: the primary stops ordering, gives
               everything to its backups, and waits, for a bounded time, to be superseded

A silent primary makes no order information, sends no message, and lets its application wait. A voluntary
leave is a switch for a primary; a backup asks with its heartbeats to be removed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from llft.core.standing import BACKUP, PRIMARY
from llft.wire.messages import MessageFlag

if TYPE_CHECKING:
    from llft.core.replica import Replica

_NO_BEAT: Final = 1 << 62


class Reticence:
    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.standing = replica.standing
        self.in_doubt = False
        self.doubt_beat = _NO_BEAT
        self.in_minority = False
        self.switching_until_ns = 0
        self.leaving_since_ns = 0
        self.switch_at = -1
        """At the backup of rank 2: it takes over when it has the order log up to there."""

    @property
    def silent(self) -> bool:
        return self.in_doubt or self.in_minority or bool(self.switching_until_ns)

    def update(self) -> None:
        """Something of this changed: the Messaging Protocol falls silent, or sends what it held back."""
        self.replica.messaging.silent = self.silent
        if not self.silent:
            self.replica.update_watermarks()

    # -- doubt and minority ----------------------------------------------------------------------

    def begin_doubt(self) -> None:
        self.in_doubt = True
        self.doubt_beat = self.replica.intra.beat + 1
        self.update()
        self.replica.intra.send_heartbeat(MessageFlag.ANSWER_AT_ONCE)

    def on_echo(self, beat: int) -> None:
        """A backup has heard this beat of ours: if it was sent after the pause, we are the primary still."""
        if beat >= self.doubt_beat:
            self.end_doubt()

    def end_doubt(self) -> None:
        if self.in_doubt:
            self.in_doubt = False
            self.doubt_beat = _NO_BEAT
            self.update()

    def set_minority(self, in_minority: bool) -> None:
        if in_minority != self.in_minority:
            self.in_minority = in_minority
            self.update()

    # -- planned changes ---------------------------------------------------------------------------

    def heartbeat_flags(self) -> MessageFlag:
        if self.standing.role == PRIMARY and self.switching_until_ns:
            return MessageFlag.SWITCH | MessageFlag.ANSWER_AT_ONCE
        if self.standing.role == BACKUP:
            leaving = MessageFlag.LEAVING if self.leaving_since_ns else MessageFlag.NONE
            past = MessageFlag.NONE if self.standing.has_past else MessageFlag.WITHOUT_PAST
            return leaving | past | self.replica.asking.durability.flags()
        return MessageFlag.NONE

    def request_switch(self) -> None:
        """The primary stops ordering; the backup of rank 2 proposes itself when it has everything."""
        replica = self.replica
        if self.standing.role != PRIMARY or not self.standing.backups or self.switching_until_ns:
            return
        self.switching_until_ns = replica.now_ns + replica.config.timeouts.switch_bound_ns
        replica.determinizer.held = True
        self.update()
        replica.messaging.lane.flush()
        orders = replica.messaging.lane.orders
        known = min(replica.messaging.watermarks.of_member.values(), default=orders.end)
        replica.intra.send_order(known, orders.end)
        replica.intra.on_heartbeat_timer()

    def give_up_switch(self) -> None:
        """Nobody took over in time: go on."""
        self.switching_until_ns = 0
        self.leaving_since_ns = 0
        self.update()

    def request_leave(self) -> None:
        self.leaving_since_ns = self.replica.now_ns
        if self.standing.role == PRIMARY and self.standing.backups:
            self.request_switch()
        elif self.standing.role == BACKUP:
            self.replica.intra.on_heartbeat_timer()
        else:
            self.replica.reset_and_rejoin("left")

    def switch_if_ready(self) -> None:
        """At the backup of rank 2: everything the primary recorded is here."""
        if self.switch_at < 0 or self.standing.role != BACKUP or not self.standing.has_past:
            return
        if self.replica.own_watermark() >= self.switch_at:
            self.switch_at = -1
            self.replica.primary_change.propose("planned switch")
