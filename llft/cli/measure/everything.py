"""`llft bench all`: every figure with its defaults, and the page of them."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from typing import Any

from llft.cli.group_run import TrialFailure
from llft.cli.measure.catalogue import FIGURES, default_arguments
from llft.cli.measure.comparison import Point, Tell
from llft.cli.measure.page import write_page
from llft.cli.measure.perform import figure_object, object_of
from llft.cli.panel import EventLines
from llft.lane import choice

FAILOVER_CLIENTS = (1, 4, 16)
FAILOVER_REPLICAS = (2, 3)


def run(arguments: argparse.Namespace) -> int:
    """Perform the verb; returns the exit status."""
    events = EventLines(sys.stderr if arguments.json else sys.stdout)
    found: list[dict[str, Any]] = []
    for name in arguments.figures:
        found.append(_figure(name, arguments, events.told))
        page = write_page(found, arguments.output)
        events.told(f"{name} is in {page}")
    if arguments.json:
        print(json.dumps({"figures": found, "page": str(page)}), flush=True)
    return 0 if all(each["passed"] for each in found) else 1


def _figure(name: str, arguments: argparse.Namespace, tell: Tell) -> dict[str, Any]:
    tell(f"-- {name}")
    if name == "failover":
        return object_of(name, (_failover(*each, arguments.kills, tell) for each in _failovers()))
    given = {key: getattr(arguments, key) for key in ("rounds", "seconds", "lane", "config")}
    asked = {key: value for key, value in given.items() if value is not None}
    return figure_object(default_arguments(FIGURES[name], **asked), tell)


def _failovers() -> list[tuple[int, int]]:
    return [(replicas, clients) for replicas in FAILOVER_REPLICAS for clients in FAILOVER_CLIENTS]


def _failover(replicas: int, clients: int, kills: int, tell: Tell) -> Point:
    command = [sys.executable, "-m", "llft.cli.main", "bench", "failover", "--json"]
    command += ["--replicas", str(replicas), "--clients", str(clients), "--kills", str(kills)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    verdict: dict[str, Any] = (
        json.loads(lines[-1]) if lines else {"passed": False, "failure": done.stderr[-1000:]}
    )
    if not verdict["passed"]:
        raise TrialFailure("failover-failed", verdict["failure"], replicas=replicas, clients=clients)
    point = failover_point(verdict)
    tell(
        f"{replicas} replicas, {clients} clients: p50 {point['p50_ms']:.1f} ms, p99 {point['p99_ms']:.1f} ms"
    )
    return point


def failover_point(verdict: dict[str, Any]) -> Point:
    """Of what `llft bench failover --json` ends with."""
    gap = verdict["failover_ms"]
    stages = {f"{stage}_ms": values["p50"] for stage, values in verdict["stages_ms"].items()}
    own = {name: verdict[name] for name in ("replicas", "clients", "kills", "lost")}
    return {**own, "lane": choice.in_use(), "p50_ms": gap["p50"], "p99_ms": gap["p99"], **stages}
