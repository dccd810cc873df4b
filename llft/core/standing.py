"""What this replica is at the moment: its role, its view, its membership.

One object, owned by the replica, changed by the Membership Protocol, read by everybody.
"""

from __future__ import annotations

from typing import Final

from llft.config import GroupConfig
from llft.identifiers import NO_VIEW, BirthId, Member, ViewId
from llft.wire.messages import UNSETTLED

JOINING: Final = "joining"
BACKUP: Final = "backup"
PROPOSING: Final = "proposing"
RECOVERING: Final = "recovering"
PRIMARY: Final = "primary"
LEFT: Final = "left"


class Standing:
    __slots__ = (
        "birth_id",
        "change_num",
        "config",
        "group_id",
        "_is_ranked",
        "_membership",
        "_ranks",
        "precedence",
        "has_past",
        "has_state",
        "next_precedence",
        "role",
        "view",
        "view_start",
    )

    def __init__(self, config: GroupConfig, birth_id: BirthId) -> None:
        self.config = config
        self.group_id = config.group_id
        self.birth_id = birth_id
        self.role = JOINING
        self.view: ViewId = NO_VIEW
        self.view_start = UNSETTLED
        self._membership: tuple[Member, ...] = ()
        self._ranks: dict[BirthId, int] = {}
        self._is_ranked = True
        """`_ranks` is of this membership: it is made when somebody asks, for at a change clients wait."""
        self.precedence = 0
        """0 while this process is not a member."""
        self.change_num = 0
        self.next_precedence = 1
        self.has_state = False
        self.has_past = False
        """The shell holds all that the program needs to be what the state says: nobody else is needed for it
        (D-70). Without that a member follows, and neither takes over nor counts as one who could."""

    @property
    def am_primary(self) -> bool:
        return self.role == PRIMARY

    @property
    def am_backup(self) -> bool:
        return self.role != PRIMARY and self.role != RECOVERING

    @property
    def am_the_only_primary(self) -> bool:
        return self.role == PRIMARY and len(self._membership) == 1

    def precedence_of(self, birth_id: BirthId) -> int:
        for member in self._membership:
            if member.birth_id == birth_id:
                return member.precedence
        return 0

    @property
    def membership(self) -> tuple[Member, ...]:
        """In order of precedence: the primary first."""
        return self._membership

    @membership.setter
    def membership(self, membership: tuple[Member, ...]) -> None:
        self._membership = membership
        self._is_ranked = False
        self.precedence = self.precedence_of(self.birth_id)

    def rank_of(self, birth_id: BirthId) -> int:
        """1 for the primary, 2, 3, ... for backups in order of precedence; 0 for strangers."""
        if not self._is_ranked:
            self._rank_all()
        return self._ranks.get(birth_id, 0)

    def _rank_all(self) -> None:
        self._is_ranked = True
        self._ranks = {member.birth_id: index + 1 for index, member in enumerate(self._membership)}

    @property
    def rank(self) -> int:
        return self.rank_of(self.birth_id)

    @property
    def backups(self) -> list[BirthId]:
        """All members but this one, in order of precedence."""
        return [member.birth_id for member in self._membership if member.birth_id != self.birth_id]
