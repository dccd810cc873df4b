"""A trial from beginning to end, told as it happens: what `llft demo` and `llft bench failover` share.

Exit status: 0 if nothing was lost, duplicated, changed or broken and the group survived every kill; else 1.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from llft.cli.conduct import conduct, report
from llft.cli.demo_audit import judge_journals
from llft.cli.panel import EventLines
from llft.cli.trial import Trial, TrialOptions
from llft.cli.verdict import false_suspicions, verdict_lines, verdict_object


def perform(options: TrialOptions, *, as_json: bool, audited: bool = False) -> int:
    """Run the trial; with `as_json` the last line of standard output is one object. `audited`: Spark judges
    the journals at the end."""
    events = EventLines(sys.stderr if as_json else sys.stdout)
    verdict, directory = _try(options, events, judge_journals if audited else None)
    lines = [*verdict_lines(verdict), *verdict.get("audit", {}).get("lines", ())]
    if directory:
        lines.append(f"journals and logs remain in {directory}")
    return report(verdict, lines, as_json=as_json)


def _try(
    options: TrialOptions, events: EventLines, judge: Callable[[Path], dict[str, Any]] | None
) -> tuple[dict[str, Any], str]:
    """The verdict, and where to look if it is bad."""
    started_s = time.monotonic()
    trial = Trial(options, events.told)
    killing = partial(_kill_again_and_again, trial, started_s)
    counts, failure = conduct(trial, killing if options.kills else trial.endure)
    suspicions = 0
    if trial.directory.journal.exists():
        until_ns = trial.stopped_ns or time.monotonic_ns()
        suspicions = false_suspicions(trial.directory.journal, trial.failovers, until_ns=until_ns)
    verdict = verdict_object(
        counts, trial.failovers, suspicions=suspicions, failure=failure, calm=not options.kills
    )
    verdict |= {"replicas": options.replicas, "clients": options.clients, "pace_ms": options.pace_ms}
    verdict["replication"] = options.replication
    verdict["seconds"] = round(time.monotonic() - started_s, 1)
    if judge is not None and trial.directory.journal.exists():
        verdict["audit"] = judge(trial.directory.journal)
        verdict["passed"] = verdict["passed"] and not verdict["audit"]["violations"]
    if verdict["passed"]:
        trial.forget()
        return verdict, ""
    return verdict, str(trial.directory.path)


def _kill_again_and_again(trial: Trial, started_s: float) -> None:
    seconds = trial.options.seconds
    for _ in range(trial.options.kills):
        if seconds is not None and time.monotonic() - started_s > seconds:
            break
        trial.kill_primary()
