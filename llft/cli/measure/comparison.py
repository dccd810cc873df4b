"""Plain TCP and LLFT, measured in turns.

A disturbed round is repeated, but not for ever: a machine that is never quiet gives a point that says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llft.cli.measure.disturbance import between, glance
from llft.cli.measure.network import Network
from llft.cli.measure.placement import cores
from llft.cli.measure.points import Round, point_of
from llft.cli.measure.side import Side, Workload

REPEATS = 2
"""At most so many times as many rounds as are wanted,"""
PATIENCE = 5
"""and no new one after so many times the time that they should take."""

Point = dict[str, Any]
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Manner:
    """How all points of a figure are measured."""

    rounds: int
    seconds: float
    """Of each side in a round, about."""
    placements: tuple[str, ...]
    backups: str
    lane: str
    config: Path | None
    network: Network
    tell: Tell


def compare(tcp: Side, llft: Side, workload: Workload, placement: str, manner: Manner) -> Point:
    """The point of one workload. Both sides run already."""
    sides = (tcp, llft)
    for side in sides:
        side.place(placement, backups=manner.backups)
    counts = [side.requests_in(workload, manner.seconds) for side in sides]
    rounds: list[Round] = []
    until_s = time.monotonic() + PATIENCE * 2 * manner.seconds * manner.rounds
    while not rounds or (len(rounds) < REPEATS * manner.rounds and time.monotonic() < until_s):
        rounds.append(_round(tcp, llft, workload, counts, tcp_first=len(rounds) % 2 == 0))
        if rounds[-1].changed:
            llft.place(placement, backups=manner.backups)
        if sum(not each.disturbed for each in rounds) == manner.rounds:
            break
    return point_of(rounds)


def _round(tcp: Side, llft: Side, workload: Workload, counts: list[int], *, tcp_first: bool) -> Round:
    processes = [*tcp.processes(), *llft.processes()]
    own = [pid for each in processes for pid in each.all]
    before = glance(own)
    if tcp_first:
        tcp_sample = tcp.sample(workload, counts[0])
        llft_sample = llft.sample(workload, counts[1])
    else:
        llft_sample = llft.sample(workload, counts[1])
        tcp_sample = tcp.sample(workload, counts[0])
    disturbance = between(before, glance(own), core_count=len(cores()))
    changed = processes != [*tcp.processes(), *llft.processes()]
    return Round(tcp_sample, llft_sample, disturbance, changed)


def parameters(manner: Manner, placement: str, **own: Any) -> Point:
    """What every point says of how it came about."""
    return {
        **own,
        "placement": placement,
        "backups": manner.backups,
        "network": manner.network.name,
        "lane": manner.lane,
        "spin": manner.network.spin_us,
        "authenticated": manner.network.authenticated,
    }


def described(point: Point) -> str:
    """What was compared, for people."""
    spread = "" if point["spread"] is None else f" (spread {point['spread']:.2f})"
    noise = "" if point["trusted"] else ", all rounds disturbed"
    times = f"TCP {point['tcp_us']:.1f} us, LLFT {point['llft_us']:.1f} us"
    return f"{times}: {point['ratio']:.2f} times{spread}{noise}"
