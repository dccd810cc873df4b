"""Time that the host of this virtual machine gave to others.

A process that is ready and does not run, because its processor does not, is late for reasons that no program
on this machine can know of. So a trial says of each fail-over how much of that there was: the figures of all
of them are what clients saw here, those of the undisturbed ones what this system took.
"""

from __future__ import annotations

import os
from pathlib import Path

_BUSY = (0, 1, 2, 5, 6)
"""Of the numbers in /proc/stat's first line: user, nice, system, interrupts and soft interrupts."""
_STOLEN = 7


def stolen_ms() -> float:
    """Since the machine started. 0 where nobody can tell: a machine of its own, or an old kernel."""
    return 1000 * busy_and_stolen_s()[1]


def busy_and_stolen_s() -> tuple[float, float]:
    """Of all processors together, since the machine started."""
    return read_ticks(Path("/proc/stat").read_text())


def read_ticks(text: str) -> tuple[float, float]:
    """The same, out of the file's first line. A tick is 10 ms as a rule."""
    ticks = [int(field) for field in text.split("\n", 1)[0].split()[1:]]
    ticks += [0] * (_STOLEN + 1 - len(ticks))
    per_second = os.sysconf("SC_CLK_TCK")
    return sum(ticks[index] for index in _BUSY) / per_second, ticks[_STOLEN] / per_second
