"""`llft bench soak`: many requests, as fast as they go, and what the replicas keep of them.

Sampled at even numbers of replies: the resident memory of the largest replica, the disk that all journals
take, the log that is kept for joiners, and how long that would be from birth. A past that is bounded shows in
series that become flat.

Exit status: 0 if nothing was lost, duplicated, changed or broken; else 1.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from llft.cli.conduct import conduct, outcome, report
from llft.cli.panel import EventLines
from llft.cli.survey import Group, survey
from llft.cli.trial import Trial, TrialOptions
from llft.cli.verdict import MUST_BE_ZERO
from llft.errors import PeerError
from llft.runtime.control_client import ask

POLL_INTERVAL_S = 0.1
STATUS_TIMEOUT_S = 5.0
PACE_MS = 0.01
Series = dict[str, list[float]]


def run(arguments: argparse.Namespace) -> int:
    """Perform the verb; returns the exit status."""
    events = EventLines(sys.stderr if arguments.json else sys.stdout)
    settings = [f'checkpoints = "{arguments.checkpoints}"', f"journal_mb = {arguments.journal_mb}"]
    settings.append(f"checkpoint_log_kb = {arguments.checkpoint_log_kb}")
    options = TrialOptions(
        replicas=arguments.replicas,
        clients=arguments.clients,
        pace_ms=PACE_MS,
        pipeline=arguments.pipeline,
        config=arguments.config,
        seconds=arguments.seconds,
        group_settings="\n".join(settings),
        history=False,
    )
    trial = Trial(options, events.told)
    verdict = measure(trial, requests=arguments.requests, samples=arguments.samples, tell=events.told)
    return report(verdict, _lines(verdict), as_json=arguments.json)


def measure(trial: Trial, *, requests: int, samples: int, tell: Any) -> dict[str, Any]:
    names = ("requests", "rss_mb", "journal_mb", "log_mb", "whole_log_mb", "seconds")
    series: Series = {name: [] for name in names}
    kept: dict[str, Any] = {}
    counts, failure = conduct(
        trial,
        lambda: kept.update(_sample_on(trial, series, requests=requests, samples=samples, tell=tell)),
    )
    verdict = {
        **series,
        "growth": {name: growth(series[name]) for name in ("rss_mb", "journal_mb", "log_mb")},
        "checkpoints": kept,
        **outcome(counts, failure),
    }
    if verdict["passed"]:
        trial.forget()
    return verdict


def growth(values: list[float]) -> float | None:
    """Of the last half: its second half beside its first. 1: flat. None: there are too few."""
    quarter = len(values) // 4
    if not quarter:
        return None
    third, last = values[-2 * quarter : -quarter], values[-quarter:]
    return round(sum(last) / sum(third), 3) if sum(third) else None


def _sample_on(trial: Trial, series: Series, *, requests: int, samples: int, tell: Any) -> dict[str, Any]:
    """Until so many requests were answered, or the time is over; what the primary says of its checkpoints."""
    began_s = time.monotonic()
    until_s = began_s + (trial.options.seconds or float("inf"))
    step, due = max(1, requests // samples), 0
    while True:
        replies = trial.count()["replies"]
        over = replies >= requests or time.monotonic() >= until_s
        if replies >= due or over:
            due = (replies // step + 1) * step
            group = survey(trial.directory)
            _sample(trial, series, group, replies, seconds=time.monotonic() - began_s)
            now = {name: values[-1] for name, values in series.items()}
            tell(
                f"{replies} replies: RSS {now['rss_mb']:.0f} MB, journals {now['journal_mb']:.0f} MB, "
                f"log {now['log_mb']:.1f} MB"
            )
        if over:
            return _checkpoints(trial, group)
        time.sleep(POLL_INTERVAL_S)


def _sample(trial: Trial, series: Series, group: Group, replies: int, *, seconds: float) -> None:
    members = [member for member in group["members"] if member["pid"]]
    statuses = [_status(trial, member["name"]) for member in members]
    kept, whole = ([each.get(name, 0) for each in statuses] for name in ("log_kept_bytes", "log_bytes"))
    files = trial.directory.journal.glob("*")
    series["requests"].append(replies)
    series["seconds"].append(round(seconds, 1))
    series["rss_mb"].append(round(max((rss_mb(member["pid"]) for member in members), default=0.0), 2))
    series["journal_mb"].append(round(sum(map(_size, files)) / 1e6, 2))
    series["log_mb"].append(round(max(kept, default=0) / 1e6, 3))
    series["whole_log_mb"].append(round(max(whole, default=0) / 1e6, 3))


def rss_mb(pid: int) -> float:
    """0: it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith("VmRSS")), 0.0)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0  # it was replaced just now


def _status(trial: Trial, name: str) -> dict[str, Any]:
    try:
        return ask(trial.directory.socket(name), {"do": "status"}, timeout_s=STATUS_TIMEOUT_S)
    except PeerError:
        return {}


def _checkpoints(trial: Trial, group: Group) -> dict[str, Any]:
    statuses = [_status(trial, member["name"]) for member in group["members"]]
    found = [status["checkpoints"] for status in statuses if "checkpoints" in status]
    return {
        "source": [each["source"] for each in found],
        "verified": [each.get("verified", 0) for each in found],
        "failed": [each.get("failed", 0) for each in found],
        "longest_pause_ms": [each.get("longest_pause_us", 0) / 1000 for each in found],
    }


def _lines(verdict: dict[str, Any]) -> list[str]:
    """For people."""
    zeros = ", ".join(f"{name} {verdict[name]}" for name in MUST_BE_ZERO)
    done = verdict["requests"][-1] if verdict["requests"] else 0
    lines = [f"{done:.0f} requests: {zeros}"]
    for name, title in (("rss_mb", "RSS"), ("journal_mb", "journals"), ("log_mb", "log")):
        if verdict[name]:
            share = verdict["growth"][name]
            told = "" if share is None else f"; the last quarter is {share:.3f} times the one before"
            lines.append(
                f"{title}: at most {max(verdict[name]):.1f} MB, {verdict[name][-1]:.1f} at last{told}"
            )
    if not verdict["passed"]:
        lines.append(f"FAILED: {verdict['failure']}")
    return lines
