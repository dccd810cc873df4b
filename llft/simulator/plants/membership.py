"""Plants in the Membership Protocol: elections, recovery, views, and who belongs to the group."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from llft.core import inbox
from llft.core.inbox import Inbox
from llft.core.membership.backup_change import Commit
from llft.core.membership.primary_change import PrimaryChange
from llft.core.membership.recovery import Recovery
from llft.identifiers import BirthId, Member
from llft.simulator.plants.plant import Patch, Plant, returns


def _everybody_survives(original: Any) -> Any:
    def surviving_members(self: PrimaryChange) -> tuple[Member, ...]:
        return self.standing.membership

    return surviving_members


def _reuses_precedence(original: Any) -> Any:
    def change(self: Commit, message_type: Any, subject: BirthId) -> None:
        highest = max(member.precedence for member in self.standing.membership)
        self.standing.next_precedence = highest + (len(self.standing.membership) == 1)
        original(self, message_type, subject)

    return change


def _asks_nobody(original: Any) -> Any:
    def on_answer(self: Recovery, connection_id: Any, body: Any) -> None:
        original(self, connection_id, replace(body, held=()))

    return on_answer


def _stays(original: Any) -> Any:
    def on_membership_change(
        standing: Any, detector: Any, port: Any, outbox: Any, header: Any, body: Any
    ) -> None:
        if any(member.birth_id == standing.birth_id for member in body.membership):
            original(standing, detector, port, outbox, header, body)

    return on_membership_change


PLANTS = (
    Plant(
        "no-precedence-exclusion",
        "ProposePrimary does not exclude the members of lower precedence",
        (Patch(PrimaryChange, "surviving_members", _everybody_survives),),
    ),
    Plant(
        "precedence-reused",
        "a new member gets the precedence that another one has",
        (Patch(Commit, "_change", _reuses_precedence),),
    ),
    Plant(
        "recovery-ignores-remote-order",
        "a new primary does not use the order information that remote groups hold",
        (Patch(Recovery, "on_answer", _asks_nobody),),
    ),
    Plant(
        "recovery-does-not-wait",
        "a new primary does not wait for the answers of the remote groups",
        (Patch(Recovery, "collected", returns(True)),),
    ),
    Plant(
        "superseded-stays",
        "a primary that learns of one that wins goes on (line 18)",
        (Patch(Inbox, "_is_superseded_by", returns(False)),),
    ),
    Plant(
        "excluded-backup-stays",
        "a backup that was removed from the membership does not reset",
        (Patch(inbox, "on_membership_change", _stays),),
    ),
)
