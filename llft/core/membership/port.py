"""What the Membership Protocol needs of the rest of the replica."""

from __future__ import annotations

from typing import Protocol

from llft.identifiers import BirthId, ViewId
from llft.wire.messages import Body, MessageFlag, MessageType


class MembershipPort(Protocol):
    def send_local(
        self,
        message_type: MessageType,
        body: Body,
        flags: MessageFlag = MessageFlag.NONE,
        to: BirthId | None = None,
    ) -> None:
        """Send on the intra-group connection: to all, or to one process."""

    def order_end(self) -> int:
        """How much of the group's order information this replica holds."""

    def become_first_member(self) -> None: ...

    def accepted(self) -> None:
        """This process is a member now and waits for its State."""

    def reset_and_rejoin(self, reason: str) -> None: ...

    def view_adopted(self) -> None:
        """A new primary has been accepted: follow it."""

    def start_recovery(self, order_ends: dict[BirthId, int]) -> None: ...

    def membership_changed(self) -> None: ...

    def membership_committed(self, need_state: list[BirthId]) -> None: ...

    def tell_removed(self, stranger: BirthId) -> None:
        """A process that believes it is a member is none."""

    def has_followed(self, view: ViewId) -> bool:
        """Whether this replica's history contains that view."""

    def data_view_matches(self, body_old_view: object) -> bool:
        """Whether what this replica performed is no more than what that view's members know."""
