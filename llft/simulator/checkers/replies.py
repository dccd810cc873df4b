"""What the clients saw is explained by one sequential execution at each server.

The programs help (`llft.simulator.workloads`): a server keeps what it answered to every request id,
numbered in the one order in which it performed them; a client keeps the outcome of every request. So:
the numbers have no holes; each reply is the one that the server's final state says it gave; a request
without reply that was confirmed was performed; one that was definitely not done was not; none was
performed twice; and what was performed had been asked. What a pruned branch answered or asked is
a loss instead, if the connection excuses it (`excuses`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from llft.simulator.checkers.alone import was_lost_alone
from llft.simulator.checkers.excuses import branch_asked, connection_of, is_excused, was_partitioned
from llft.simulator.checkers.survey import RESET, Group, Survey
from llft.simulator.checkers.violation import Violation
from llft.simulator.workloads.protocol import (
    ACCEPTED_OUTCOME,
    INDEFINITE_OUTCOME,
    NOT_DONE_OUTCOME,
    OK,
    Reply,
    group_of_request,
)

PROPERTY = "replies"

PRUNED_REPLY = "pruned_replies"
PRUNED_REQUEST = "pruned_requests"
REPEATED = "repeated_by_a_branch"


@dataclass(slots=True)
class Verdict:
    """What was found, and what would have been a violation but for a pruned branch."""

    violations: list[Violation] = field(default_factory=list)
    excused: Counter[str] = field(default_factory=Counter)

    def accuse(self, text: str) -> None:
        self.violations.append(Violation(PROPERTY, text))


@dataclass(slots=True)
class _Case:
    """What the checks of one run share."""

    survey: Survey
    programs: dict[int, Any]
    verdict: Verdict = field(default_factory=Verdict)
    performed: dict[int, dict[int, Reply]] = field(default_factory=dict)
    """By request id, then by the group id of the server: what it answered. One server, as a rule."""
    unaccounted: dict[int, set[int]] = field(default_factory=dict)
    """By server: the numbers of performings that a later one under the same id has hidden."""

    def branch_asked(self, request_id: int, server_id: int) -> bool:
        client_id = group_of_request(request_id)
        return branch_asked(self.survey, client_id=client_id, server_id=server_id)


def check(survey: Survey) -> list[Violation]:
    return examine(survey).violations


def examine(survey: Survey) -> Verdict:
    case = _Case(survey, final_programs(survey))
    for group_id, program in case.programs.items():
        if program.malformed:
            case.verdict.accuse(f"In group {group_id}: {program.malformed[0]}.")
        if hasattr(program, "replies"):
            _numbered(case, group_id, program)
    _once(case)
    for group_id, program in case.programs.items():
        # A server without a primary has nobody to say what it performed; "progress" reports that.
        if all(server in case.programs for server in getattr(program, "servers", ())):
            _explained(case, survey.groups[group_id], program)
    _asked(case)
    for group in survey.groups.values():
        case.verdict.violations += _alike(group)
    return case.verdict


def final_programs(survey: Survey) -> dict[int, Any]:
    """The program of each group's primary at the end; groups that died out have none."""
    primaries = {group_id: group.primary for group_id, group in survey.groups.items()}
    return {group_id: primary.program for group_id, primary in primaries.items() if primary is not None}


def _numbered(case: _Case, group_id: int, program: Any) -> None:
    """An id that was performed again hides the number of its first performing."""
    for request_id, reply in program.replies.items():
        case.performed.setdefault(request_id, {})[group_id] = reply
    repeated = [one for one in program.duplicates if not case.branch_asked(one, group_id)]
    if repeated:
        case.verdict.accuse(f"Group {group_id} performed request {repeated[0]:#x} twice.")
        return
    hidden_count = len(program.duplicates)
    case.verdict.excused[REPEATED] += hidden_count
    numbers = [reply.sequence for reply in program.replies.values()]
    missing = sorted(set(range(1, len(numbers) + hidden_count + 1)) - set(numbers))
    case.unaccounted[group_id] = set(missing)
    if len(missing) > hidden_count or len(set(numbers)) < len(numbers):
        case.verdict.accuse(
            f"The operations that group {group_id} numbered, {len(numbers)} up to {max(numbers)}, lack "
            f"{missing} where {hidden_count} repeated ids explain a gap."
        )


def _once(case: _Case) -> None:
    """Two branches of a client may have sent one id to two servers."""
    for request_id, answers in case.performed.items():
        if len(answers) == 1:
            continue
        if not any(case.branch_asked(request_id, server_id) for server_id in answers):
            servers = " and ".join(map(str, answers))
            case.verdict.accuse(f"Request {request_id:#x} was performed by groups {servers}.")
            return
        case.verdict.excused[REPEATED] += 1


def _explained(case: _Case, group: Group, program: Any) -> None:
    """The first unexplained outcome of a client."""
    for request_id, outcome in program.history:
        texts = _contradictions(case, request_id, outcome)
        if not texts:
            continue
        excuse = _excuse(case, group, program, request_id, outcome)
        if not excuse:
            case.verdict.accuse(f"Group {group.group_id}, request {request_id:#x}: {texts[0]}.")
            return
        case.verdict.excused[excuse] += 1


def _contradictions(case: _Case, request_id: int, outcome: Reply | str) -> list[str]:
    """Empty if what some server performed explains the outcome."""
    answers = case.performed.get(request_id, {})
    if outcome == INDEFINITE_OUTCOME:
        return []
    if outcome == NOT_DONE_OUTCOME:
        # A middle server numbers and keeps the answer "not done" too.
        done = [server for server, reply in answers.items() if reply.status == OK]
        return [f"reported as not done, but group {server} performed it" for server in done]
    if not answers:
        return [f"the client has {outcome}, but no server performed it"]
    if outcome == ACCEPTED_OUTCOME or outcome in answers.values():
        return []
    return [f"the client has {outcome}, but group {one} answered {reply}" for one, reply in answers.items()]


def _excuse(case: _Case, group: Group, program: Any, request_id: int, outcome: Reply | str) -> str:
    """The category of loss under which a contradiction falls, if any."""
    survey, answers = case.survey, case.performed.get(request_id, {})
    connection = connection_of(group, program, request_id)
    if connection is not None:
        server = survey.groups.get(connection.server_group_id)
        if server is not None and server.has_pruned and is_excused(survey, connection):
            alone = was_lost_alone(server, connection)
            # Who had closed it before cannot be told of what was done alone.
            told = group.was_reset(connection) or (alone and server.was_reset(connection))
            if (told or was_partitioned(survey)) and (alone or not _waited_for_commit(survey)):
                return PRUNED_REPLY
    elsewhere = [server_id for server_id in answers if case.branch_asked(request_id, server_id)]
    if outcome == NOT_DONE_OUTCOME:
        return REPEATED if len(elsewhere) == len(answers) else ""
    if isinstance(outcome, Reply):
        hidden = [one for one in elsewhere if outcome.sequence in case.unaccounted.get(one, ())]
        return REPEATED if hidden else ""
    return ""


def _waited_for_commit(survey: Survey) -> bool:
    """Then nobody has a reply that no backup knew of (D-10), but where there was none."""
    profile = survey.evidence.profile
    return profile.outside_clients and profile.output_commit_level > 0


def _asked(case: _Case) -> None:
    """Not asked of groups that may have died out and begun again, or whose asking was pruned."""
    survey = case.survey
    if not survey.evidence.profile.in_model or not survey.evidence.quiesced:
        return
    asked = {request_id for program in case.programs.values() for request_id, _ in program.history}
    for process in survey.evidence.former:  # and of those whose clients the power took
        asked.update(getattr(process.program, "descriptors", ()))
    for request_id, answers in case.performed.items():
        if request_id in asked:
            continue
        for server_id, reply in answers.items():
            if not _was_pruned(case, request_id, server_id):
                text = f"Group {server_id} performed {reply}, which no client knows to have asked."
                case.verdict.accuse(text)
                return
            case.verdict.excused[PRUNED_REQUEST] += 1


def _was_pruned(case: _Case, request_id: int, server_id: int) -> bool:
    """The asking is not of the client's surviving branch, and its connection is excused."""
    if was_partitioned(case.survey):
        return case.branch_asked(request_id, server_id)
    client = case.survey.groups.get(group_of_request(request_id))
    return client is not None and client.has_pruned and RESET in client.fates.values()


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
