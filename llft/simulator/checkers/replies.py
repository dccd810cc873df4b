"""What the clients saw is explained by one sequential execution at each server.

The programs help (`llft.simulator.workloads`): a server keeps what it answered to every request id,
numbered in the one order in which it performed them; a client keeps the outcome of every request. So:
the numbers have no holes; each reply is the one that the server's final state says it gave; a request
without reply that was confirmed was performed; one that was definitely not done was not; none was
performed twice; and what was performed had been asked. A reply from a pruned branch is
excused if that connection was reset afterwards.
"""

from __future__ import annotations

from typing import Any

from llft.simulator.checkers.survey import Group, Survey
from llft.simulator.checkers.violation import Violation
from llft.simulator.workloads.protocol import (
    ACCEPTED_OUTCOME,
    INDEFINITE_OUTCOME,
    NOT_DONE_OUTCOME,
    Reply,
    group_of_request,
)

PROPERTY = "replies"

Performed = dict[int, tuple[int, Reply]]
"""By request id: the group id of the server, and what it answered."""


def check(survey: Survey) -> list[Violation]:
    programs = final_programs(survey)
    performed: Performed = {}
    found: list[Violation] = []
    for group_id, program in programs.items():
        found += _malformed(group_id, program)
        if hasattr(program, "replies"):
            found += _numbered(group_id, program)
            performed.update({key: (group_id, reply) for key, reply in program.replies.items()})
    for group_id, program in programs.items():
        # A server without a primary has nobody to say what it performed; "progress" reports that.
        if all(server in programs for server in getattr(program, "servers", ())):
            found += _explained(survey, survey.groups[group_id], program, performed)
    found += _asked(survey, programs, performed)
    for group in survey.groups.values():
        found += _alike(group)
    return found


def final_programs(survey: Survey) -> dict[int, Any]:
    """The program of each group's primary at the end; groups that died out have none."""
    primaries = {group_id: group.primary for group_id, group in survey.groups.items()}
    return {group_id: primary.program for group_id, primary in primaries.items() if primary is not None}


def _malformed(group_id: int, program: Any) -> list[Violation]:
    return [Violation(PROPERTY, f"In group {group_id}: {text}.") for text in program.malformed[:1]]


def _numbered(group_id: int, program: Any) -> list[Violation]:
    found = [
        Violation(PROPERTY, f"Group {group_id} performed request {request_id:#x} twice.")
        for request_id in program.duplicates[:1]
    ]
    numbers = sorted(reply.sequence for reply in program.replies.values())
    for expected, number in enumerate(numbers, start=1):
        if number != expected and not found:
            found.append(
                Violation(
                    PROPERTY,
                    f"The operations that group {group_id} numbered have {number} where {expected} is due.",
                )
            )
    return found


def _explained(survey: Survey, group: Group, program: Any, performed: Performed) -> list[Violation]:
    """The first unexplained outcome of a client."""
    for request_id, outcome in program.history:
        text = _contradiction(request_id, outcome, performed)
        if text and not _excused(survey, group, program, request_id):
            return [Violation(PROPERTY, f"Group {group.group_id}, request {request_id:#x}: {text}.")]
    return []


def _contradiction(request_id: int, outcome: Reply | str, performed: Performed) -> str:
    known = performed.get(request_id)
    if outcome == INDEFINITE_OUTCOME:
        return ""
    if outcome == NOT_DONE_OUTCOME:
        # A middle server numbers and keeps the answer "not done" too.
        done = known is not None and known[1].status == 0
        return f"reported as not done, but group {known[0]} performed it" if known and done else ""
    if known is None:
        return f"the client has {outcome}, but no server performed it"
    if outcome != ACCEPTED_OUTCOME and outcome != known[1]:
        return f"the client has {outcome}, but group {known[0]} answered {known[1]}"
    return ""


def _excused(survey: Survey, group: Group, program: Any, request_id: int) -> bool:
    """Something was pruned at a server, and the connection of this request was reset."""
    fd = program.descriptors.get(request_id)
    for life in group.lives:
        for connection in {r.connection for r in life.sent if r.fd == fd}:
            server = survey.groups.get(connection.server_group_id)
            if server is not None and server.has_pruned and group.was_reset(connection):
                return True
    return False


def _asked(survey: Survey, programs: dict[int, Any], performed: Performed) -> list[Violation]:
    """Not asked of groups that may have died out and begun again, or whose asking was pruned."""
    if not survey.evidence.profile.in_model or not survey.evidence.quiesced:
        return []
    asked = {request_id for program in programs.values() for request_id, _ in program.history}
    for request_id, (server_id, reply) in performed.items():
        group = survey.groups.get(group_of_request(request_id))
        if request_id in asked or (group is not None and group.has_pruned and _any_reset(group)):
            continue
        return [
            Violation(PROPERTY, f"Group {server_id} performed {reply}, which no client knows to have asked.")
        ]
    return []


def _any_reset(group: Group) -> bool:
    return any(record.how == "reset" for life in group.lives for record in life.surviving_ended())


def _alike(group: Group) -> list[Violation]:
    """A backup that performs operations has the primary's history, or the beginning of it."""
    primary = group.primary
    if primary is None or group.semi_passive:
        return []
    found = []
    for process in group.living:
        program = process.program
        if process is primary or not getattr(program, "started", False):
            continue
        for ours, theirs in ((program.history, primary.program.history), _answers(program, primary.program)):
            if ours != theirs[: len(ours)]:
                found.append(
                    Violation(
                        PROPERTY,
                        f"Replica {process.birth_id} of group {group.group_id} ended with a "
                        f"history that is not the beginning of the one of primary {primary.birth_id}: "
                        f"{_first_difference(ours, theirs)}.",
                    )
                )
                break
    return found


def _answers(program: Any, other: Any) -> tuple[list[Any], list[Any]]:
    return list(getattr(program, "replies", {}).values()), list(getattr(other, "replies", {}).values())


def _first_difference(ours: list[Any], theirs: list[Any]) -> str:
    for index, (our, their) in enumerate(zip(ours, theirs, strict=False)):
        if our != their:
            return f"entry {index} is {our} against {their}"
    return f"{len(ours)} entries against {len(theirs)}"
