"""`llft bench join`: one more replica joins a group under load, with much state. What clients feel of it.

The group has a verified checkpoint when the new replica is started, so that it need not repeat the program's
life. *Joined* means: it has the state, is in the primary's view, and has performed what it knows of.

Exit status: 0 if it joined and nothing was lost, duplicated, changed or broken; else 1.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

from llft.cli.conduct import conduct, outcome, report
from llft.cli.panel import EventLines
from llft.cli.survey import Group, all_joined
from llft.cli.trial import Trial, TrialOptions
from llft.cli.verdict import MUST_BE_ZERO
from llft.runtime.control_client import ask

CHECKPOINT_PATIENCE_S = 90.0
JOIN_PATIENCE_S = 60.0
STATUS_TIMEOUT_S = 2.0


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
    verdict = measure(Trial(options, events.told), calm_s=arguments.seconds)
    return report(verdict, _lines(verdict), as_json=arguments.json)


def measure(trial: Trial, *, calm_s: float) -> dict[str, Any]:
    found: dict[str, Any] = {}
    counts, failure = conduct(trial, lambda: found.update(_join(trial, calm_s)))
    verdict = {**found, "requests": counts.get("requests", 0), **outcome(counts, failure)}
    if verdict["passed"]:
        trial.forget()
    return verdict


def _join(trial: Trial, calm_s: float) -> dict[str, Any]:
    members = trial.options.replicas

    def has_base(group: Group) -> bool:
        return all(_checkpoints(trial, member["name"]).get("base") for member in group["members"])

    trial.until("take-a-checkpoint", CHECKPOINT_PATIENCE_S, has_base)
    calm_ns = time.monotonic_ns()
    time.sleep(calm_s)
    began_ns = time.monotonic_ns()
    number = ask(trial.directory.supervisor_socket, {"do": "add"})["replica"]
    group = trial.until("join", JOIN_PATIENCE_S, lambda group: all_joined(group, members + 1))
    joined_ns = time.monotonic_ns()
    calm, joining = trial.latency(calm_ns, began_ns), trial.latency(began_ns, joined_ns)
    joiner = next(member for member in group["members"] if member["replica"] == number)
    status = ask(trial.directory.socket(joiner["name"]), {"do": "status"}, timeout_s=STATUS_TIMEOUT_S)
    kept = status["checkpoints"]
    others = [_checkpoints(trial, member["name"]) for member in group["members"] if member is not joiner]
    return {
        "state_mb": round(kept.get("state_bytes", 0) / 1e6, 1),
        "join_s": round((joined_ns - began_ns) / 1e9, 3),
        "p99_ratio": round(joining["p99"] / calm["p99"], 2),
        "p99_ms": {"calm": calm["p99"], "joining": joining["p99"]},
        "longest_ms": {"calm": calm["max"], "joining": joining["max"]},
        "pause_ms": max(each.get("longest_pause_us", 0) for each in others) / 1000,
        "rate": round(calm["count"] * 1e9 / (began_ns - calm_ns)),
        "source": kept["source"],
        "log_mb": {"whole": status["log_bytes"] / 1e6, "kept": status["log_kept_bytes"] / 1e6},
    }


def _checkpoints(trial: Trial, name: str) -> dict[str, Any]:
    status = ask(trial.directory.socket(name), {"do": "status"}, timeout_s=STATUS_TIMEOUT_S)
    found: dict[str, Any] = status["checkpoints"]
    return found


def _lines(verdict: dict[str, Any]) -> list[str]:
    """For people."""
    zeros = ", ".join(f"{name} {verdict[name]}" for name in MUST_BE_ZERO)
    lines = [f"{verdict['requests']} requests: {zeros}"]
    if "join_s" in verdict:
        p99 = verdict["p99_ms"]
        lines += [
            f"joined in {verdict['join_s']:.2f} s with {verdict['state_mb']:.0f} MB of state by "
            f"{verdict['source']}, at {verdict['rate']} requests/s",
            f"p99 {p99['calm']:.1f} ms before, {p99['joining']:.1f} ms meanwhile, "
            f"{verdict['p99_ratio']:.2f} times as much",
            f"longest pause of a replica for a checkpoint: {verdict['pause_ms']:.1f} ms",
        ]
    if not verdict["passed"]:
        lines.append(f"FAILED: {verdict['failure']}")
    return lines
