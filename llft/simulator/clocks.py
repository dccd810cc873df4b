"""Each process's own clocks: skewed, drifting, and made to jump.

The core is stepped with simulated monotonic time, which every process sees alike, as a
monotonic clock measures durations only. What the *application* reads is the
local clock here, and that differs from process to process: the group clock (D-18) must hide
the difference at a fail-over. Clock 0 is the wall clock and may be set (`jump`); the other
clock ids count from the boot of the process's host and only drift.
"""

from __future__ import annotations

import random

from llft.instant import SECOND
from llft.simulator.world import World

EPOCH_NS = 1_700_000_000 * SECOND


class LocalClock:
    """The clocks of one process; `read` is the core's `local_clock`."""

    __slots__ = ("_boot_ns", "_drift_ppm", "_skew_ns", "_world")

    def __init__(self, world: World, rng: random.Random, *, skew_limit_ns: int, drift_limit_ppm: int) -> None:
        self._world = world
        self._skew_ns = rng.randint(-skew_limit_ns, skew_limit_ns)
        self._drift_ppm = rng.randint(-drift_limit_ppm, drift_limit_ppm)
        self._boot_ns = rng.randint(1, 10_000) * SECOND

    def read(self, clock_id: int) -> int:
        now_ns = self._world.now_ns
        elapsed_ns = now_ns + now_ns * self._drift_ppm // 1_000_000
        if clock_id == 0:
            return EPOCH_NS + self._skew_ns + elapsed_ns
        return self._boot_ns + elapsed_ns

    def jump(self, by_ns: int) -> None:
        """Somebody sets the wall clock."""
        self._skew_ns += by_ns
