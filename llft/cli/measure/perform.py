"""A figure from beginning to end: its points as they come, then all of them as one object.

Exit status: 0 if every point was measured, 1 if a group failed or a reply was wrong. A machine that was not
quiet is no failure, and is told.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from llft.cli.group_run import TrialFailure
from llft.cli.measure import apps, gateway, latency, memory, nondeterminism, throughput, viewchange
from llft.cli.measure.catalogue import BOTH, FIGURES, LANES, YES
from llft.cli.measure.comparison import Manner, Point
from llft.cli.measure.drawing import draw
from llft.cli.measure.network import LOOPBACK, SPIN_US, Network, network
from llft.cli.measure.peers import figure as peers
from llft.cli.measure.placement import PLACEMENTS, cores, require_cores
from llft.cli.panel import EventLines
from llft.cli.stolen import stolen_ms
from llft.errors import MisuseError
from llft.lane import choice

Measure = Callable[[argparse.Namespace, Manner], Iterator[Point]]
MEASURES: Mapping[str, Measure] = {
    "latency": latency.measure,
    "throughput": throughput.measure,
    "replicas": latency.measure,
    "nondeterminism": nondeterminism.measure,
    "viewchange": viewchange.measure,
    "gateway": gateway.measure,
    "apps": apps.measure,
    "memory": memory.measure,
    "peers": peers.measure,
}


def perform(arguments: argparse.Namespace) -> int:
    """With `--json` the last line of standard output is one object."""
    events = EventLines(sys.stderr if arguments.json else sys.stdout)
    found = figure_object(arguments, events.told)
    if found["failure"]:
        events.told(f"FAILED: {found['failure']}")
    untrusted = sum(not point.get("trusted", True) for point in found["points"])
    machine = found["machine"]
    load = f"load {machine['load_before']:.1f} before and {machine['load_after']:.1f} after"
    events.told(f"{machine['seconds']:.0f} s, {load}, {machine['stolen_ms']:.0f} ms stolen by the host")
    if untrusted:
        events.told(
            f"{untrusted} of {len(found['points'])} points had no undisturbed round: take them lightly"
        )
    if arguments.svg is not None:
        draw(found["figure"], found["points"], arguments.svg)
        events.told(f"drawn in {arguments.svg}")
    if arguments.json:
        print(json.dumps(found), flush=True)
    return 0 if found["passed"] else 1


def figure_object(arguments: argparse.Namespace, tell: Callable[[str], None]) -> dict[str, Any]:
    """What `--json` ends with."""
    return object_of(arguments.figure, _on_each_network(arguments, tell))


def _on_each_network(arguments: argparse.Namespace, tell: Callable[[str], None]) -> Iterator[Point]:
    spins = spins_of(arguments)
    for spin_us in spins:
        if len(spins) > 1:
            tell(f"looking for at most {spin_us} us" if spin_us else "without looking")
        with network(
            arguments.network,
            configured=arguments.config is not None,
            authenticated=is_authenticated(arguments),
            spin_us=spin_us,
        ) as between:
            yield from _on_each_lane(arguments, between, tell)


def spins_of(arguments: argparse.Namespace) -> Sequence[int]:
    """Who has settings of his own has said there how long is looked."""
    if arguments.spin is not None:
        spins: Sequence[int] = arguments.spin
        return spins
    return FIGURES[arguments.figure].spin if arguments.config is None else (SPIN_US,)


def is_authenticated(arguments: argparse.Namespace) -> bool:
    """Figures that compare two groups on loopback do so without a key, unless they are told otherwise."""
    key: str | None = getattr(arguments, "key", YES)
    if key is not None:
        return key == YES
    return arguments.network != LOOPBACK or arguments.config is not None


def _on_each_lane(
    arguments: argparse.Namespace, between: Network, tell: Callable[[str], None]
) -> Iterator[Point]:
    for wanted in LANES if arguments.lane == BOTH else (arguments.lane,):
        manner = manner_of(arguments, between, chosen_lane(wanted), tell)
        if arguments.lane == BOTH:
            tell(f"the {manner.lane} lane")
        yield from MEASURES[arguments.figure](arguments, manner)


def object_of(figure: str, measured: Iterable[Point]) -> dict[str, Any]:
    """The points are measured as they are taken."""
    began_s, load_before, stolen_before_ms = time.monotonic(), os.getloadavg()[0], stolen_ms()
    points, failure = collected(measured)
    return {
        "figure": figure,
        "points": points,
        "machine": {
            "cores": len(cores()),
            "kernel": platform.release(),
            "python": platform.python_version(),
            "load_before": round(load_before, 2),
            "load_after": round(os.getloadavg()[0], 2),
            "stolen_ms": stolen_ms() - stolen_before_ms,
            "seconds": round(time.monotonic() - began_s, 1),
        },
        "failure": failure,
        "passed": not failure,
    }


def collected(points: Iterable[Point]) -> tuple[list[Point], str]:
    """All that came, and why there are not more of them."""
    found: list[Point] = []
    try:
        found.extend(points)
    except TrialFailure as error:
        return found, str(error)
    return found, ""


def manner_of(
    arguments: argparse.Namespace, between: Network, lane: str, tell: Callable[[str], None]
) -> Manner:
    placements = PLACEMENTS if arguments.placement == BOTH else (arguments.placement,)
    for placement in placements:
        require_cores(placement)
    return Manner(
        rounds=arguments.rounds,
        seconds=arguments.seconds,
        placements=placements,
        backups=arguments.backups,
        lane=lane,
        config=arguments.config,
        network=between,
        tell=tell,
    )


def chosen_lane(wanted: str | None) -> str:
    """The lane of the groups that are started from here; they have our environment."""
    if wanted == "compiled" and (reason := choice.why_not()):
        raise MisuseError("no-compiled-lane", choice.REMEDY, why=reason)
    if wanted is not None:
        os.environ[choice.VARIABLE] = wanted
    return wanted or choice.in_use()
