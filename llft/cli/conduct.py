"""How a trial is carried out and what is said of it, whatever is done to the group meanwhile."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

from llft.cli.group_run import TrialFailure
from llft.cli.trial import Trial
from llft.cli.verdict import MUST_BE_ZERO


def conduct(trial: Trial, act: Callable[[], None]) -> tuple[dict[str, Any], str]:
    """What the clients found, and why it had to stop early, empty if it had not. The clients are asked in any
    case."""
    counts: dict[str, Any] = {}
    failure = ""
    try:
        with trial:
            try:
                act()
            except TrialFailure as error:
                failure = str(error)
            counts = trial.stop()
    except TrialFailure as error:
        failure = failure or str(error)
    return counts, failure


def outcome(counts: dict[str, Any], failure: str) -> dict[str, Any]:
    """The part of a verdict that every figure has."""
    zeros = {name: counts.get(name, 0) for name in MUST_BE_ZERO}
    return {
        **zeros,
        "failure": failure or counts.get("first_complaint", ""),
        "passed": not failure and bool(counts) and not any(zeros.values()),
    }


def report(verdict: dict[str, Any], lines: Sequence[str], *, as_json: bool) -> int:
    """Lines for people; with `as_json` the last line of standard output is one object. The exit status."""
    print("", *lines, sep="\n", file=sys.stderr if as_json else sys.stdout)
    if as_json:
        print(json.dumps(verdict), flush=True)
    return 0 if verdict["passed"] else 1
