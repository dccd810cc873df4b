"""Watermarks: how far every member of this group has come (paper, Buffer Management).

A member's myTimestampWatermark is reported as an offset of the order stream: it has the order information
up to there, and every message that it orders. One number says it for all connections, and no
idle connection holds it back. The primary takes the minimum, myGroupWatermark; what lies
below it nobody will ask for again. On inter-group connections the watermark still travels
as a timestamp (`back`), which unlike message numbers means the same in every primary view.
"""

from __future__ import annotations

from llft.identifiers import BirthId


class Watermarks:
    __slots__ = ("executed", "of_member")

    def __init__(self) -> None:
        self.of_member: dict[BirthId, int] = {}
        self.executed: dict[BirthId, int] = {}

    def admit(self, birth_id: BirthId, offset: int) -> None:
        """A joiner counts from its checkpoint on."""
        self.of_member.setdefault(birth_id, offset)

    def report(self, birth_id: BirthId, watermark: int, executed: int) -> None:
        if birth_id in self.of_member:
            self.of_member[birth_id] = max(self.of_member[birth_id], watermark)
            self.executed[birth_id] = executed

    def keep_only(self, members: list[BirthId]) -> None:
        self.of_member = {b: w for b, w in self.of_member.items() if b in members}
        self.executed = {b: w for b, w in self.executed.items() if b in members}

    def group_watermark(self, own: int) -> int:
        return min(self.of_member.values(), default=own) if self.of_member else own

    def committed(self, level: int, own: int) -> int:
        """The offset that at least `level` backups hold; all of it where fewer exist than asked
        and none is left (D-10: level 1 where a backup is alive, else 0)."""
        if level == 0 or not self.of_member:
            return own
        held = sorted(self.of_member.values(), reverse=True)
        return held[min(level, len(held)) - 1]
