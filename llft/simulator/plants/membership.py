"""Plants in the Membership Protocol: elections, recovery, views, and who belongs to the group."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from llft.core import inbox, view_answers
from llft.core.inbox import Inbox
from llft.core.membership.primary_change import PrimaryChange
from llft.core.membership.recovery import Recovery
from llft.core.messaging.connection import Connection
from llft.simulator.plants.plant import Patch, Plant, returns


def _asks_nobody(original: Any) -> Any:
    def on_answer(self: Recovery, connection_id: Any, header: Any, body: Any) -> None:
        original(self, connection_id, header, replace(body, held=()))

    return on_answer


def _as_many_as_you_like(original: Any) -> Any:
    return lambda self, view: 1 << 62


def _stays(original: Any) -> Any:
    def on_membership_change(
        standing: Any, detector: Any, port: Any, outbox: Any, header: Any, body: Any
    ) -> None:
        if any(member.birth_id == standing.birth_id for member in body.membership):
            original(standing, detector, port, outbox, header, body)

    return on_membership_change


def _excludes_nobody(original: Any) -> Any:
    return lambda self: self.standing.membership


PLANTS = (
    Plant(
        "no-precedence-exclusion",
        "a backup that proposes itself does not exclude the members of lower precedence (line 4)",
        (Patch(PrimaryChange, "surviving_members", _excludes_nobody),),
    ),
    Plant(
        "recovery-ignores-remote-order",
        "a new primary does not use the order information that remote groups hold",
        (Patch(Recovery, "on_answer", _asks_nobody),),
        seed=2,
    ),
    Plant(
        "recovery-does-not-wait",
        "a new primary does not wait for the answers of the remote groups",
        (Patch(Recovery, "collected", returns(True)),),
        profile="loss",
        seed=1,
    ),
    Plant(
        "settle-without-check",
        "a new primary goes on with a remote group that knows more of the old one than it does (D-07)",
        (
            Patch(Connection, "generated_before_successor", _as_many_as_you_like),
            Patch(view_answers, "has_sent_other", returns(False)),
        ),
        profile="double-crash-loss",
        seed=28,
    ),
    Plant(
        "superseded-stays",
        "a primary that learns of one that wins goes on (line 18)",
        (Patch(Inbox, "_is_superseded_by", returns(False)),),
        seed=1,
    ),
    Plant(
        "excluded-backup-stays",
        "a backup that was removed from the membership does not reset",
        (Patch(inbox, "on_membership_change", _stays),),
        seed=10,
    ),
)
