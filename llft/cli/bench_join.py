"""`llft bench join`: one more replica joins a group under load, with much state. What clients feel of it.

The group has a verified checkpoint when the new replica is started, so that it need not repeat the program's
life. *Joined* means: it has the state, is in the primary's view, and has performed what it knows of.

A join is over in two or three seconds, of which p99 is the two dozen slowest requests: one stall of the
machine decides it. So there are several, each with a group of its own, and the requests of all joins count
together, as do those before them. What each would have said alone is told, too; `join_s` is the longest.

Exit status: 0 if all joined and nothing was lost, duplicated, changed or broken; else 1.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from llft.cli.conduct import conduct, outcome, report
from llft.cli.panel import EventLines
from llft.cli.percentiles import percentiles
from llft.cli.stolen import stolen_ms
from llft.cli.survey import Group, all_joined
from llft.cli.trial import Tell, Trial, TrialOptions
from llft.cli.verdict import MUST_BE_ZERO
from llft.runtime.control_client import ask

CHECKPOINT_PATIENCE_S = 90.0
JOIN_PATIENCE_S = 60.0
STATUS_TIMEOUT_S = 2.0


@dataclass(frozen=True, slots=True)
class Join:
    """One of them."""

    seconds: float
    calm_s: float
    calm_ms: list[float]
    """What clients waited before it."""
    joining_ms: list[float]
    stolen_ms: float
    pause_us: float
    """The longest that another replica stood still for a checkpoint."""
    status: dict[str, Any]
    """Of the joiner, when it had joined."""

    def alone(self) -> dict[str, Any]:
        """What it says by itself."""
        return {
            "join_s": round(self.seconds, 3),
            **p99s(self.calm_ms, self.joining_ms),
            "stolen_ms": self.stolen_ms,
        }


def run(arguments: argparse.Namespace) -> int:
    """Perform the verb; returns the exit status."""
    events = EventLines(sys.stderr if arguments.json else sys.stdout)
    settings = f'checkpoints = "{arguments.checkpoints}"\ncheckpoint_log_kb = {arguments.checkpoint_log_kb}'
    options = TrialOptions(
        replicas=arguments.replicas,
        clients=arguments.clients,
        pace_ms=arguments.clients * arguments.pipeline * 1000.0 / arguments.rate,
        pipeline=arguments.pipeline,
        steady=True,
        config=arguments.config,
        group_settings=settings,
        server_words=("--state-mb", str(arguments.state_mb)),
    )
    verdict = measure(options, events.told, calm_s=arguments.seconds, count=arguments.joins)
    return report(verdict, _lines(verdict), as_json=arguments.json)


def measure(options: TrialOptions, tell: Tell, *, calm_s: float, count: int) -> dict[str, Any]:
    """One after the other, up to the first that fails."""
    joins: list[Join] = []
    totals = dict.fromkeys(("requests", *MUST_BE_ZERO), 0)
    for _ in range(count):
        trial = Trial(options, tell)
        counts, failure = conduct(trial, partial(_join, trial, calm_s, joins))
        verdict = outcome(counts, failure)
        for name in totals:
            totals[name] += counts.get(name, 0)
        if not verdict["passed"]:
            break
        trial.forget()
    return {**(summary(joins) if joins else {}), **verdict, **totals}


def summary(joins: Sequence[Join]) -> dict[str, Any]:
    calm_ms = [wait for join in joins for wait in join.calm_ms]
    joining_ms = [wait for join in joins for wait in join.joining_ms]
    status = joins[-1].status
    return {
        "state_mb": round(status["checkpoints"].get("state_bytes", 0) / 1e6, 1),
        "join_s": round(max(join.seconds for join in joins), 3),
        **p99s(calm_ms, joining_ms),
        "longest_ms": {"calm": max(calm_ms), "joining": max(joining_ms)},
        "pause_ms": max(join.pause_us for join in joins) / 1000,
        "rate": round(len(calm_ms) / sum(join.calm_s for join in joins)),
        "source": status["checkpoints"]["source"],
        "log_mb": {"whole": status["log_bytes"] / 1e6, "kept": status["log_kept_bytes"] / 1e6},
        "joins": [join.alone() for join in joins],
    }


def p99s(calm_ms: Sequence[float], joining_ms: Sequence[float]) -> dict[str, Any]:
    calm, joining = percentiles(calm_ms)["p99"] or 0.0, percentiles(joining_ms)["p99"] or 0.0
    ratio = round(joining / calm, 2) if calm else 0.0
    return {"p99_ratio": ratio, "p99_ms": {"calm": calm, "joining": joining}}


def _join(trial: Trial, calm_s: float, joins: list[Join]) -> None:
    """One more of them."""
    members = trial.options.replicas

    def has_base(group: Group) -> bool:
        return all(_checkpoints(trial, member["name"]).get("base") for member in group["members"])

    trial.until("take-a-checkpoint", CHECKPOINT_PATIENCE_S, has_base)
    calm_ns = time.monotonic_ns()
    time.sleep(calm_s)
    stolen_before_ms, began_ns = stolen_ms(), time.monotonic_ns()
    number = ask(trial.directory.supervisor_socket, {"do": "add"})["replica"]
    group = trial.until("join", JOIN_PATIENCE_S, lambda group: all_joined(group, members + 1))
    joined_ns = time.monotonic_ns()
    stolen = stolen_ms() - stolen_before_ms
    names = {member["replica"]: member["name"] for member in group["members"]}
    status = _status(trial, names.pop(number))
    join = Join(
        seconds=(joined_ns - began_ns) / 1e9,
        calm_s=(began_ns - calm_ns) / 1e9,
        calm_ms=trial.waits_ms(calm_ns, began_ns),
        joining_ms=trial.waits_ms(began_ns, joined_ns),
        stolen_ms=stolen,
        pause_us=max(_checkpoints(trial, name).get("longest_pause_us", 0) for name in names.values()),
        status=status,
    )
    joins.append(join)


def _checkpoints(trial: Trial, name: str) -> dict[str, Any]:
    found: dict[str, Any] = _status(trial, name)["checkpoints"]
    return found


def _status(trial: Trial, name: str) -> dict[str, Any]:
    return ask(trial.directory.socket(name), {"do": "status"}, timeout_s=STATUS_TIMEOUT_S)


def _lines(verdict: dict[str, Any]) -> list[str]:
    """For people."""
    zeros = ", ".join(f"{name} {verdict[name]}" for name in MUST_BE_ZERO)
    lines = [f"{verdict['requests']} requests: {zeros}"]
    if "join_s" in verdict:
        p99, joins = verdict["p99_ms"], verdict["joins"]
        lines += [
            f"joined in {', '.join(str(join['join_s']) for join in joins)} s with "
            f"{verdict['state_mb']:.0f} MB of state by {verdict['source']}, at {verdict['rate']} requests/s",
            f"p99 {p99['calm']:.1f} ms before, {p99['joining']:.1f} ms meanwhile, {verdict['p99_ratio']:.2f} "
            f"times as much (each alone: {', '.join(str(join['p99_ratio']) for join in joins)})",
            f"longest pause of a replica for a checkpoint: {verdict['pause_ms']:.1f} ms",
        ]
    if not verdict["passed"]:
        lines.append(f"FAILED: {verdict['failure']}")
    return lines
