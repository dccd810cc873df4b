"""One history of one group, as the checks of rare records see it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from llft.identifiers import BirthId, Member
from llft.pipeline.audit.branches import Branches
from llft.pipeline.audit.findings import VIOLATION, Finding
from llft.pipeline.audit.lives import Life, Row


@dataclass(frozen=True, slots=True)
class History:
    """One history of one group."""

    world: int
    group_id: int
    epoch: int
    lives: Sequence[Life]
    branches: Branches

    @property
    def semi_passive(self) -> bool:
        """Nobody ever performed an operation under another's view, and states were passed on."""
        stored = any(life.of_kind("StateApplied") for life in self.lives)
        return stored and not any(life.followed for life in self.lives)

    @property
    def has_gap(self) -> bool:
        return any(life.has_gap for life in self.lives)

    @property
    def known(self) -> set[BirthId]:
        return {life.birth_id for life in self.lives}

    @property
    def partial(self) -> bool:
        """Not all is here: a gap, or a member without a journal. What is not found may yet have been."""
        known = self.known
        named = (row.membership or () for life in self.lives for row in life.rows)
        return self.has_gap or any(one.birth_id not in known for members in named for one in members)

    def finding(self, condition: str, life: Life | None, row: Row | None, **more: object) -> Finding:
        place = {
            "severity": VIOLATION,
            "epoch": self.epoch,
            "replica": str(life.birth_id) if life else None,
            "view": str(row.view) if row else None,
            "wall_ns": row.wall_ns if row else None,
        }
        whose = {"condition": condition, "world": self.world, "group_id": self.group_id}
        return Finding(**{**whose, **place, **more})  # type: ignore[arg-type]


Check = Callable[[History], list[Finding]]
"""One finding for each cause: what follows from the first is not repeated."""


def names(membership: Sequence[Member]) -> str:
    return ", ".join(f"{member.birth_id}/p{member.precedence}" for member in membership) or "nobody"
