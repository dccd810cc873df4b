"""Fault detectors: timeouts scaled by rank, and death certificates (D-23).

A backup of rank r waits (2r - 3) times as long for its primary as the backup of rank 2: it allows
for the primary's silence, for that of the backups before it, and for skew. The primary waits for its
backups likewise, longer for higher ranks. A certificate is knowledge: nobody waits for the dead. And who is
known to live is waited for longer, once, until it is heard again (D-73).
"""

from __future__ import annotations

from typing import Final

from llft.config import SEEN_ALIVE_TIMEOUTS, Timeouts
from llft.identifiers import NO_BIRTH, BirthId

_CERTIFIED_MAX: Final = 64


class FaultDetector:
    __slots__ = ("_alive", "_alive_since_ns", "certified", "heard_ns", "timeouts")

    def __init__(self, timeouts: Timeouts) -> None:
        self.timeouts = timeouts
        self.heard_ns: dict[BirthId, int] = {}
        self.certified: list[BirthId] = []
        self._alive, self._alive_since_ns = NO_BIRTH, 0
        """Who was seen to live, and when it had been heard last."""

    def hear(self, birth_id: BirthId, now_ns: int) -> int:
        """Note a sign of life; returns how long ago the last one was (0 for the first)."""
        before = self.heard_ns.get(birth_id)
        self.heard_ns[birth_id] = now_ns
        return now_ns - before if before is not None else 0

    def watch(self, members: list[BirthId], now_ns: int) -> None:
        """Start the timers of new members; forget those who are gone."""
        self.heard_ns = {birth: self.heard_ns.get(birth, now_ns) for birth in members}

    def restart(self, birth_id: BirthId, now_ns: int) -> None:
        self.heard_ns[birth_id] = now_ns

    def certify(self, birth_id: BirthId) -> None:
        if birth_id not in self.certified:
            self.certified.append(birth_id)
            if len(self.certified) > _CERTIFIED_MAX:
                del self.certified[0]

    def see_alive(self, birth_id: BirthId) -> None:
        """Its kernel says that it lives, though nothing is heard of it."""
        self._alive, self._alive_since_ns = birth_id, self.heard_ns.get(birth_id, 0)

    def is_dead(self, birth_id: BirthId) -> bool:
        return birth_id in self.certified

    def primary_deadline(self, primary: BirthId, rank: int) -> int:
        """When the backup of this rank suspects the primary."""
        heard_ns, patience_ns = self.heard_ns.get(primary, 0), self.primary_patience_ns(rank)
        if heard_ns == self._alive_since_ns and primary == self._alive:
            patience_ns *= SEEN_ALIVE_TIMEOUTS
        return heard_ns + patience_ns

    def primary_patience_ns(self, rank: int) -> int:
        """How long it may be silent of which only that is known."""
        return (2 * rank - 3) * self.timeouts.primary_timeout_ns

    def backup_deadline(self, backup: BirthId, rank: int) -> int:
        """When the primary suspects the backup of this rank."""
        return self.heard_ns.get(backup, 0) + self.timeouts.backup_timeout_ns * (rank + 2) // 4
