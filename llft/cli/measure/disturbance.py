"""What else the machine did while something was measured on it.

Time that its host gave to others, and time that processes took which are none of ours, both as shares of all
its cores. A round with too much of either says more about the others than about us: it is *disturbed*.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass

from llft.cli.stolen import busy_and_stolen_s

STOLEN_LIMIT = 0.03
FOREIGN_LIMIT = 0.15
"""The kernel counts in ticks, of which a short round has few."""
_PROCESS_CPU_CLOCK = 2


@dataclass(frozen=True, slots=True)
class Glance:
    """The machine at a moment; seconds since it started."""

    at_s: float
    busy_s: float
    stolen_s: float
    own_s: float


@dataclass(frozen=True, slots=True)
class Disturbance:
    stolen: float
    foreign: float

    @property
    def is_too_much(self) -> bool:
        return self.stolen > STOLEN_LIMIT or self.foreign > FOREIGN_LIMIT


def glance(own: Iterable[int]) -> Glance:
    """`own`: the processes that are part of the measurement; this one is in any case."""
    busy_s, stolen_s = busy_and_stolen_s()
    return Glance(time.monotonic(), busy_s, stolen_s, sum(cpu_s(pid) for pid in {*own, os.getpid()}))


def cpu_s(pid: int) -> float:
    """Of all its threads, to the nanosecond; 0: it is gone."""
    try:
        return time.clock_gettime(((~pid) << 3) | _PROCESS_CPU_CLOCK)
    except OSError:
        return 0.0


def between(before: Glance, after: Glance, *, core_count: int) -> Disturbance:
    """Of two glances at the same processes."""
    whole_s = max(1e-9, (after.at_s - before.at_s) * core_count)
    foreign_s = (after.busy_s - before.busy_s) - (after.own_s - before.own_s)
    return Disturbance(
        stolen=round(max(0.0, after.stolen_s - before.stolen_s) / whole_s, 4),
        foreign=round(max(0.0, foreign_s) / whole_s, 4),
    )
