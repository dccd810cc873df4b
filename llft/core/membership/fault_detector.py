"""Fault detectors: timeouts scaled by rank, and death certificates (D-23).

A backup of rank r waits (2r - 3) times as long for its primary as the backup of rank 2: it allows
for the primary's silence, for that of the backups before it, and for skew. The primary waits for its
backups likewise, longer for higher ranks. A certificate is knowledge: nobody waits for the dead.
"""

from __future__ import annotations

from llft.config import Timeouts
from llft.identifiers import BirthId


class FaultDetector:
    __slots__ = ("certified", "heard_ns", "timeouts")

    def __init__(self, timeouts: Timeouts) -> None:
        self.timeouts = timeouts
        self.heard_ns: dict[BirthId, int] = {}
        self.certified: list[BirthId] = []

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
            del self.certified[:-64]

    def is_dead(self, birth_id: BirthId) -> bool:
        return birth_id in self.certified

    def primary_deadline(self, primary: BirthId, rank: int) -> int:
        """When the backup of this rank suspects the primary."""
        return self.heard_ns.get(primary, 0) + (2 * rank - 3) * self.timeouts.primary_timeout_ns

    def backup_deadline(self, backup: BirthId, rank: int) -> int:
        """When the primary suspects the backup of this rank."""
        return self.heard_ns.get(backup, 0) + self.timeouts.backup_timeout_ns * (rank + 2) // 4
