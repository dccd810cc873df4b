"""Where a backup stood before it acknowledged a proposal, in case the proposal is withdrawn (D-40).

Who acknowledges a proposed view adopts it at once, and is bound by that: the proposer may have counted on it.
But a proposer that resets before its proposal was concluded will never conclude it, and says so when it
rejoins. Its acknowledgers then go back to the view they came from. Without this they would wait
for a primary that never was, and the others, under the majority policy, for them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from llft.core.standing import BACKUP, Standing
from llft.identifiers import NO_VIEW, Member, ViewId
from llft.wire.messages import UNSETTLED

_REMEMBERED_MAX: Final = 16


class Footing(NamedTuple):
    view: ViewId
    view_start: int
    change_num: int
    membership: tuple[Member, ...]


class Footings:
    def __init__(self, standing: Standing) -> None:
        self.standing = standing
        self.earlier: list[Footing] = []
        """The last settled view, and the proposed ones acknowledged since, but for the last."""
        self.withdrawn: list[ViewId] = []

    def keep(self) -> None:
        """Another view is about to be adopted."""
        standing = self.standing
        if standing.view_start != UNSETTLED:
            self.earlier.clear()
        self.earlier.append(
            Footing(standing.view, standing.view_start, standing.change_num, standing.membership)
        )
        del self.earlier[:-_REMEMBERED_MAX]

    def withdraw(self, view: ViewId) -> Footing | None:
        """The view will never be. Returns where to go back to, if this replica had adopted it."""
        if view == NO_VIEW or view in self.withdrawn:
            return None
        self.withdrawn.append(view)
        del self.withdrawn[:-_REMEMBERED_MAX]
        self.earlier = [footing for footing in self.earlier if footing.view != view]
        standing = self.standing
        bound = standing.role == BACKUP and standing.view == view and standing.view_start == UNSETTLED
        return self.earlier.pop() if bound and self.earlier else None
