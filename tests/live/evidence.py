"""What a live run leaves is judged like a simulation: the same checkers, on the journals.

A group that still runs and has nothing to do can say more than its journals: `assert_at_rest` adds what its
processes answer about themselves, and judges who is a member, what was not read, and what still fills a list.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from llft.cli.journal_check import find_losses, journal_paths
from llft.identifiers import BirthId, Member
from llft.runtime.control_client import ask_all
from llft.simulator.checkers import check_named
from llft.simulator.checkers.buffers import LIST_SUFFIX
from llft.simulator.checkers.losses import LostOperation
from llft.simulator.checkers.violation import Violation
from llft.simulator.evidence import ProcessState
from llft.simulator.from_journals import LEFT_OUT, Journal, evidence_of, judge, read_journals
from tests.live.kept import keep_journals
from tests.live.world import until

FLUSHED_S = 0.5
"""So old are the records that a gateway has surely written."""
NEEDS_A_MODEL = LEFT_OUT.keys() - {"buffers"}

Answers = Mapping[str, dict[str, Any]]
"""What each process says of itself, by its birth."""


def journals_of(*directories: Path) -> list[Journal]:
    return read_journals(journal_paths(list(directories)))


def assert_journals_hold(*directories: Path) -> list[Journal]:
    """All properties that journals can show; for one group, give the directories of all its hosts."""
    keep_journals(journal_paths(list(directories)))
    journals = journals_of(*directories)
    _assert_none(judge(journals))
    return journals


def lost_operations(journals: list[Journal]) -> list[LostOperation]:
    """Those of pruned branches, and those of which nobody heard."""
    return [one for lost in find_losses(journals)[0].values() for one in lost]


def assert_at_rest(directory: Path) -> None:
    """Of a group on one host, whose clients are gone."""
    answers = _resting(directory)
    time.sleep(FLUSHED_S)
    evidence = evidence_of(journals_of(directory))[-1]
    processes = [_present(process, answers.get(str(process.birth_id))) for process in evidence.processes]
    assert sum(process.alive for process in processes) == len(answers)
    _assert_none(check_named(replace(evidence, processes=processes, quiesced=True), leave_out=NEEDS_A_MODEL))


def _resting(directory: Path) -> Answers:
    """The answers of a moment in which all lists are empty; the program's own clock may tick between."""
    found: list[Answers] = []

    def rests() -> bool:
        found[:] = [_ask_all(directory)]
        return not any(map(_filled_lists, found[0].values()))

    until("its lists are empty", rests)
    return found[0]


def _ask_all(directory: Path) -> Answers:
    sockets = [path for pattern in ("replica-*.sock", "gateway-*.sock") for path in directory.glob(pattern)]
    inquiries = ask_all({path: (path, {"do": "status"}) for path in sockets}, timeout_s=10.0)
    answers = [inquiry.answer for inquiry in inquiries.values() if inquiry.answer is not None]
    assert len(answers) == len(sockets), "somebody does not answer"
    return {answer["birth"]: answer for answer in answers}


def _statistics(answer: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = answer["core"] if "core" in answer else answer["statistics"]
    return found


def _filled_lists(answer: dict[str, Any]) -> list[str]:
    return [name for name, value in _statistics(answer).items() if name.endswith(LIST_SUFFIX) and value]


def _present(process: ProcessState, answer: dict[str, Any] | None) -> ProcessState:
    if answer is None:
        return process
    if "members" not in answer:  # a gateway is alone
        return replace(process, alive=True, statistics=_statistics(answer))
    members = tuple(
        Member(BirthId(*map(int, one["birth"].split("."))), one["precedence"]) for one in answer["members"]
    )
    return replace(
        process, alive=True, role=answer["role"], membership=members, statistics=_statistics(answer)
    )


def _assert_none(violations: list[Violation]) -> None:
    assert not violations, "\n".join(f"{one.property}: {one.explanation}" for one in violations)
