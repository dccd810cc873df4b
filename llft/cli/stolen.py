"""Time that the host of this virtual machine gave to others.

A process that is ready and does not run, because its processor does not, is late for reasons that no program
on this machine can know of. So a trial says of each fail-over how much of that there was: the figures of all
of them are what clients saw here, those of the undisturbed ones what this system took.
"""

from __future__ import annotations

import os
from pathlib import Path

_STEAL = 8
"""The field of /proc/stat's first line, in ticks of all processors together; 10 ms as a rule."""


def stolen_ms() -> float:
    """Since the machine started. 0 where nobody can tell: a machine of its own, or an old kernel."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    ticks = int(fields[_STEAL]) if len(fields) > _STEAL else 0
    return ticks * 1000 / os.sysconf("SC_CLK_TCK")
