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
    __slots__ = ("executed", "has_past", "of_member")

    def __init__(self) -> None:
        self.of_member: dict[BirthId, int] = {}
        self.executed: dict[BirthId, int] = {}
        self.has_past: dict[BirthId, bool] = {}
        """Whether members could take over (D-70). Nothing is forgotten that others need, and nothing is
        committed by their holding it. Of whom nothing is known it is believed that they could: then output
        waits for them until they have reported."""

    def admit(self, birth_id: BirthId, offset: int, *, has_past: bool = True) -> None:
        """A joiner counts from its checkpoint on; for the commit when it has its past as well."""
        if birth_id not in self.of_member:
            self.of_member[birth_id] = offset
            if not has_past:
                self.has_past[birth_id] = False

    def report(self, birth_id: BirthId, watermark: int, executed: int, *, has_past: bool) -> None:
        if birth_id in self.of_member:
            self.of_member[birth_id] = max(self.of_member[birth_id], watermark)
            self.executed[birth_id] = executed
            # Who has said once that it has it does not lose it: an older report may come late.
            self.has_past[birth_id] = has_past or self.has_past.get(birth_id, False)

    def hold(self, birth_id: BirthId, watermark: int) -> None:
        """A member has the order information up to there; of the rest it says nothing."""
        if birth_id in self.of_member:
            self.of_member[birth_id] = max(self.of_member[birth_id], watermark)

    def keep_only(self, members: list[BirthId]) -> None:
        self.of_member = {b: w for b, w in self.of_member.items() if b in members}
        self.executed = {b: w for b, w in self.executed.items() if b in members}
        self.has_past = {b: past for b, past in self.has_past.items() if b in members}

    def counts(self, birth_id: BirthId) -> bool:
        """Whether a commit may wait for this backup."""
        return birth_id in self.of_member and self.has_past.get(birth_id, True)

    @property
    def somebody_counts(self) -> bool:
        return any(self.counts(birth_id) for birth_id in self.of_member)

    def group_watermark(self, own: int) -> int:
        return min(self.of_member.values(), default=own) if self.of_member else own

    def committed(self, level: int, own: int) -> int:
        """The offset that at least `level` backups hold that could take over; that all hold where there are
        fewer, and all of it where there is none (D-10: level 1 where a backup is alive, else 0)."""
        if level == 0 or not self.of_member:
            return own
        held = sorted([w for b, w in self.of_member.items() if self.counts(b)], reverse=True)
        return held[min(level, len(held)) - 1] if held else own
