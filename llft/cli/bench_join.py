"""`llft bench join`: one more replica joins a group under load, with much state. What clients feel of it.

A join is over in two seconds, of which p99 is a dozen requests: one stall of the machine is what it tells. So
several replicas join, one after the other, and the requests of all joins count together, as do those between
them; what each would have said alone is told, too. `join_s` is the longest.
The group has a verified checkpoint when the new replica is started, so that it need not repeat the program's
life. *Joined* means: it has the state, is in the primary's view, and has performed what it knows of.

Exit status: 0 if it joined and nothing was lost, duplicated, changed or broken; else 1.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from typing import Any

from llft.cli.conduct import conduct, outcome, report
from llft.cli.panel import EventLines
from llft.cli.stolen import stolen_ms
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
    verdict = measure(Trial(options, events.told), calm_s=arguments.seconds, joins=arguments.joins)
    return report(verdict, _lines(verdict), as_json=arguments.json)


def measure(trial: Trial, *, calm_s: float, joins: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    counts, failure = conduct(trial, lambda: found.update(_joins(trial, calm_s, joins)))
    verdict = {**found, "requests": counts.get("requests", 0), **outcome(counts, failure)}
    if verdict["passed"]:
        trial.forget()
    return verdict


@dataclass(frozen=True, slots=True)
class Join:
    """One of them. Times by the clock that clients read."""

    calm_ns: int
    began_ns: int
    joined_ns: int
    stolen_ms: float
    pause_us: float
    """The longest that another replica stood still for a checkpoint so far."""
    status: dict[str, Any]
    """Of the joiner, when it had joined."""

    @property
    def calm(self) -> tuple[int, int]:
        return self.calm_ns, self.began_ns

    @property
    def joining(self) -> tuple[int, int]:
        return self.began_ns, self.joined_ns

    @property
    def seconds(self) -> float:
        return (self.joined_ns - self.began_ns) / 1e9


def _joins(trial: Trial, calm_s: float, count: int) -> dict[str, Any]:
    """One after the other. Who has joined leaves before the next one comes."""
    done = [_join(trial, calm_s)]
    while len(done) < count:
        number = done[-1].status["replica"]
        ask(trial.directory.supervisor_socket, {"do": "remove", "replica": number})
        done.append(_join(trial, calm_s))
    calm, joining = trial.latency(*(one.calm for one in done)), trial.latency(*(one.joining for one in done))
    status = done[-1].status
    return {
        "state_mb": round(status["checkpoints"].get("state_bytes", 0) / 1e6, 1),
        "join_s": round(max(one.seconds for one in done), 3),
        "p99_ratio": round(joining["p99"] / calm["p99"], 2),
        "p99_ms": {"calm": calm["p99"], "joining": joining["p99"]},
        "longest_ms": {"calm": calm["max"], "joining": joining["max"]},
        "pause_ms": max(one.pause_us for one in done) / 1000,
        "rate": round(
            calm["count"] * 1e9 / sum(to_ns - from_ns for from_ns, to_ns in (o.calm for o in done))
        ),
        "source": status["checkpoints"]["source"],
        "log_mb": {"whole": status["log_bytes"] / 1e6, "kept": status["log_kept_bytes"] / 1e6},
        "joins": [_alone(trial, one) for one in done],
    }


def _join(trial: Trial, calm_s: float) -> Join:
    members = trial.options.replicas

    def is_ready(group: Group) -> bool:
        """A joiner takes its state from any of them."""
        names = [member["name"] for member in group["members"]]
        return len(names) == members and all(_checkpoints(trial, name).get("base") for name in names)

    trial.until("take-a-checkpoint", CHECKPOINT_PATIENCE_S, is_ready)
    calm_ns = time.monotonic_ns()
    time.sleep(calm_s)
    stolen_before_ms, began_ns = stolen_ms(), time.monotonic_ns()
    number = ask(trial.directory.supervisor_socket, {"do": "add"})["replica"]
    group = trial.until("join", JOIN_PATIENCE_S, lambda group: all_joined(group, members + 1))
    joined_ns = time.monotonic_ns()
    stolen = stolen_ms() - stolen_before_ms
    names = {member["replica"]: member["name"] for member in group["members"]}
    status = {"replica": number, **_status(trial, names.pop(number))}
    pauses = [_checkpoints(trial, name).get("longest_pause_us", 0) for name in names.values()]
    return Join(calm_ns, began_ns, joined_ns, stolen, max(pauses), status)


def _alone(trial: Trial, join: Join) -> dict[str, float]:
    """What one of them would have said."""
    calm, joining = trial.latency(join.calm), trial.latency(join.joining)
    return {
        "join_s": round(join.seconds, 3),
        "p99_ratio": round(joining["p99"] / calm["p99"], 2),
        "calm_p99_ms": calm["p99"],
        "joining_p99_ms": joining["p99"],
        "stolen_ms": join.stolen_ms,
    }


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
        p99 = verdict["p99_ms"]
        lines += [
            f"joined in {', '.join(str(one['join_s']) for one in verdict['joins'])} s with "
            f"{verdict['state_mb']:.0f} MB of state by {verdict['source']}, at {verdict['rate']} requests/s",
            f"p99 {p99['calm']:.1f} ms before, {p99['joining']:.1f} ms meanwhile, "
            f"{verdict['p99_ratio']:.2f} times as much; each alone: "
            + ", ".join(f"{one['p99_ratio']:.2f}" for one in verdict["joins"]),
            f"longest pause of a replica for a checkpoint: {verdict['pause_ms']:.1f} ms",
        ]
    if not verdict["passed"]:
        lines.append(f"FAILED: {verdict['failure']}")
    return lines
