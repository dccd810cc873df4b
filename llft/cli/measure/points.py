"""From rounds to a point of a figure.

A round measures both sides, one right after the other, so that what slows the machine for a while slows both;
its ratio is worth more than either time. A point is the medians over its rounds, and `spread` is the
distance between the smallest ratio of a round and the largest: None if there was but one.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from llft.cli.measure.disturbance import Disturbance
from llft.cli.percentiles import percentiles
from llft.errors import MisuseError


@dataclass(frozen=True, slots=True)
class Sample:
    """One side in one round. `us`: of a request; `each_us`: of single ones, for the tail."""

    us: float
    each_us: tuple[float, ...] = ()
    cpu_us: float = 0.0
    """Processor time of the server, or of its primary, for a request."""
    backup_cpu_us: float | None = None
    gateway_cpu_us: float | None = None


@dataclass(frozen=True, slots=True)
class Round:
    tcp: Sample
    llft: Sample
    disturbance: Disturbance
    changed: bool = False
    """Another replica became the primary meanwhile, and ran where nobody had put it."""

    @property
    def disturbed(self) -> bool:
        return self.changed or self.disturbance.is_too_much

    @property
    def ratio(self) -> float:
        return self.llft.us / self.tcp.us


def point_of(rounds: Sequence[Round]) -> dict[str, Any]:
    """Of the undisturbed rounds; of all if there is none, which `disturbed` then shows."""
    if not rounds:
        raise MisuseError("no-rounds", "at least one is needed")
    kept = [each for each in rounds if not each.disturbed] or list(rounds)
    ratios = [each.ratio for each in kept]
    return {
        "tcp_us": _median([each.tcp.us for each in kept]),
        "llft_us": _median([each.llft.us for each in kept]),
        "ratio": _median(ratios),
        "spread": round(max(ratios) - min(ratios), 3) if len(ratios) > 1 else None,
        "tcp_p99_us": _p99([each.tcp for each in kept]),
        "llft_p99_us": _p99([each.llft for each in kept]),
        "tcp_cpu_us": _median([each.tcp.cpu_us for each in kept]),
        "llft_cpu_us": _median([each.llft.cpu_us for each in kept]),
        "backup_cpu_us": _median([each.llft.backup_cpu_us for each in kept]),
        "gateway_cpu_us": _median([each.llft.gateway_cpu_us for each in kept]),
        "rounds": len(kept),
        "disturbed": sum(each.disturbed for each in rounds),
        "trusted": not kept[0].disturbed,
    }


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(statistics.median(known), 3) if known else None


def _p99(samples: Sequence[Sample]) -> float | None:
    return percentiles([us for sample in samples for us in sample.each_us])["p99"]


def slope(places: Sequence[float], values: Sequence[float]) -> float:
    """Of the straight line that fits best: by how much the value grows with each one."""
    if len(set(places)) < 2:
        raise MisuseError("no-slope", "at least two different counts are needed", counts=list(places))
    return statistics.linear_regression(places, values).slope
