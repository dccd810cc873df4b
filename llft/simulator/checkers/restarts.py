"""Restart from nothing (D-64): what a client was told before the power went is so afterwards.

Every request that a client of an earlier generation has an answer to was performed by the server as it is
at the end, with that very answer, at a time of the group clock before everything that was first asked later;
and what was definitely not done was not.
"""

from __future__ import annotations

from typing import Any

from llft.simulator.checkers.replies import final_programs
from llft.simulator.checkers.survey import Survey
from llft.simulator.checkers.violation import Violation
from llft.simulator.evidence import ProcessState
from llft.simulator.topology import CLIENT
from llft.simulator.workloads.protocol import INDEFINITE_OUTCOME, NOT_DONE_OUTCOME, OK, Reply

PROPERTY = "restart"


def check(survey: Survey) -> list[Violation]:
    clients = [one for one in survey.evidence.former if _is_client(survey, one)]
    answers: dict[int, Reply] = {}
    for program in final_programs(survey).values():
        answers.update(getattr(program, "replies", {}))
    found = []
    for client in clients:
        texts = [
            text
            for request_id, outcome in client.program.history
            if (text := _contradiction(request_id, outcome, answers.get(request_id)))
        ]
        found += [Violation(PROPERTY, f"{client.name}, before the power went: {text}.") for text in texts[:1]]
    return found + _clock(survey, clients, answers)


def _is_client(survey: Survey, process: ProcessState) -> bool:
    return survey.evidence.topology.group(process.group_id).kind == CLIENT


def _contradiction(request_id: int, outcome: Any, answer: Reply | None) -> str:
    if outcome == INDEFINITE_OUTCOME:
        return ""
    if outcome == NOT_DONE_OUTCOME:
        done = answer is not None and answer.status == OK
        return f"request {request_id:#x} was reported as not done, and was performed" if done else ""
    if answer is None:
        return f"request {request_id:#x} has the outcome {outcome}, and is lost"
    if isinstance(outcome, Reply) and outcome != answer:
        return f"request {request_id:#x} was answered with {outcome}, which now is {answer}"
    return ""


def _clock(survey: Survey, clients: list[ProcessState], answers: dict[int, Reply]) -> list[Violation]:
    """The group clock goes on. What was under way when the power went may have been read either time."""
    told = [reply for one in clients for _, reply in one.program.history if isinstance(reply, Reply)]
    earlier: set[int] = set()
    for process in survey.evidence.former:
        earlier.update(getattr(process.program, "descriptors", ()))
    later = [reply for request_id, reply in answers.items() if request_id not in earlier]
    if not told or not later:
        return []
    last, first = max(one.clock_ns for one in told), min(one.clock_ns for one in later if one.clock_ns)
    if last <= first:
        return []
    text = f"The group clock was read as {last} ns before the power went, and as {first} ns afterwards."
    return [Violation(PROPERTY, text)]
