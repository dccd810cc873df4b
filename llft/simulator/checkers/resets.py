"""Resets (D-07): a connection is reset only where the model allows that something was lost.

That is: outside the model, after a partition, or when primaries of two connected groups failed at
about the same time. Where datagrams are lost, so may be a primary's heartbeats: one that lives and was
superseded has failed there like any other. Allowed resets are counted as losses; any other is a violation.
With output commit (D-10) a gateway has told nobody what no backup knows, so nothing may be lost, whatever
fails together; but for what a primary did while it had no backup: who joins has that to catch up with, and if
the primary and a client who could help fail before it has, it is lost.
"""

from __future__ import annotations

from collections.abc import Iterator

from llft.identifiers import BirthId, ConnectionId
from llft.instant import MS
from llft.journal.record import ConnectionEnded, RoleChanged
from llft.simulator.checkers.alone import was_lost_alone
from llft.simulator.checkers.survey import PRIMARY, Survey
from llft.simulator.checkers.violation import Violation
from llft.simulator.evidence import Evidence

PROPERTY = "resets"
EXCUSES = frozenset(("Partition", "CrashPrimaries", "LoseClient"))
TOGETHER_NS = 300 * MS
"""Two primaries fail together if the second does so before the first one's recovery is surely over:
detection, election, and the recovery bound."""


def check(survey: Survey) -> list[Violation]:
    evidence = survey.evidence
    if evidence.profile.outside_clients and evidence.profile.output_commit_level:
        return _lost_despite_commit(survey)
    if not evidence.profile.in_model or any(fault.kind in EXCUSES for fault in evidence.faults):
        return []
    return [
        Violation(
            PROPERTY,
            f"Replica {record.stamp.birth_id} of group {record.stamp.group_id} reset {connection} in view "
            f"{record.stamp.view} ({record.reason}), and no fault that was performed explains it.",
        )
        for connection, record in first_resets(survey).items()
        if not _failed_together(evidence, connection)
    ]


def _lost_despite_commit(survey: Survey) -> list[Violation]:
    return [
        Violation(PROPERTY, f"{connection} was reset ({record.reason}) in spite of output commit.")
        for connection, record in first_resets(survey).items()
        if record.reason.startswith("lost")
        and not was_lost_alone(survey.groups[record.stamp.group_id], connection)
    ]


def first_resets(survey: Survey) -> dict[ConnectionId, ConnectionEnded]:
    """The first record of a reset of each connection, on surviving branches."""
    resets: dict[ConnectionId, ConnectionEnded] = {}
    for _, life in survey.lives():
        for record in life.surviving_ended():
            if record.how == "reset":
                first = resets.setdefault(record.connection, record)
                if record.stamp.time_ns < first.stamp.time_ns:
                    resets[record.connection] = record
    return resets


def _superseded(evidence: Evidence) -> Iterator[tuple[int, int]]:
    """Primaries that lived, and found another one in their place: when, and of which group. On a network that
    loses nothing that needs a fault, which is counted as one."""
    if not evidence.profile.quality.loss and not any(f.kind == "LossBurst" for f in evidence.faults):
        return
    roles: dict[BirthId, str] = {}
    for record in evidence.records:
        if type(record) is RoleChanged:
            stamp = record.stamp
            if record.reason.startswith("superseded") and roles.get(stamp.birth_id) == PRIMARY:
                yield stamp.time_ns, stamp.group_id
            roles[stamp.birth_id] = record.role


def _failed_together(evidence: Evidence, connection: ConnectionId) -> bool:
    failures = [
        (fault.at_ns, group_id)
        for fault in evidence.faults
        if fault.primary_count
        for group_id, _ in fault.victims
    ]
    failures += _superseded(evidence)
    at_client = [at_ns for at_ns, group_id in failures if group_id == connection.client_group_id]
    at_server = [at_ns for at_ns, group_id in failures if group_id == connection.server_group_id]
    return any(abs(one - other) < TOGETHER_NS for one in at_client for other in at_server)
