"""Output digests (D-09): a message of the surviving branch is the same at all replicas that generated
it, and no backup found its own output to differ, unless a bug was planted to make it so."""

from __future__ import annotations

from llft.identifiers import ConnectionId
from llft.journal.record import Sent
from llft.simulator.checkers.life import Life
from llft.simulator.checkers.survey import Survey
from llft.simulator.checkers.violation import Violation

PROPERTY = "digests"


def check(survey: Survey) -> list[Violation]:
    found: list[Violation] = []
    for group in survey.groups.values():
        known: dict[tuple[ConnectionId, int], Sent] = {}
        for life in group.lives:
            found += _compare(life, known)
            if survey.evidence.options.plant is None:
                found += _own_findings(life)
    return found


def _compare(life: Life, known: dict[tuple[ConnectionId, int], Sent]) -> list[Violation]:
    for record in life.surviving_sent():
        first = known.setdefault((record.connection, record.position), record)
        if _content(first) != _content(record):
            return [
                Violation(
                    PROPERTY,
                    f"Message {record.position} of group {life.group_id} on {record.connection} has (size, "
                    f"digest, timestamp, order number) {_content(first)} at replica "
                    f"{first.stamp.birth_id} and {_content(record)} at replica {life.birth_id}.",
                )
            ]
    return []


def _content(record: Sent) -> tuple[int, int, int, int]:
    return record.size, record.digest, record.timestamp, record.order_seq_num


def _own_findings(life: Life) -> list[Violation]:
    return [
        Violation(
            PROPERTY,
            f"{life.name.capitalize()} found in view {record.stamp.view} that its message "
            f"{record.position} on {record.connection} has the digest {record.found:#x}, "
            f"the primary's {record.expected:#x}.",
        )
        for record in life.diverged
    ]
