"""Which processes run on which cores. Both sides of a comparison are placed alike.

    one-core     client and server share the first core
    two-cores    the client has the first, the server the second

Backups would be on other hosts. With `backups` "other" they run on the cores that one-core leaves free, and
with two-cores, where none is left, on any; with "same" they share the core of their primary.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from llft.cli.measure.running import Processes
from llft.errors import MisuseError

ONE_CORE, TWO_CORES = "one-core", "two-cores"
PLACEMENTS = (ONE_CORE, TWO_CORES)
BACKUPS = ("other", "same")


def cores() -> tuple[int, ...]:
    """Those that this process may use."""
    return tuple(sorted(os.sched_getaffinity(0)))


def require_cores(placement: str) -> None:
    if placement == TWO_CORES and len(cores()) < 2:
        raise MisuseError("too-few-cores", "this machine has one: --placement one-core", placement=placement)


def place(client: Processes, server: Processes, placement: str, *, backups: str = BACKUPS[0]) -> None:
    """Pin them all."""
    require_cores(placement)
    all_cores = cores()
    first = all_cores[:1]
    second = all_cores[1:2] if placement == TWO_CORES else first
    spare = all_cores[1:] if placement == ONE_CORE and len(all_cores) > 1 else all_cores
    for processes, own in ((client, first), (server, second)):
        pin(processes.serving, own)
        pin(processes.following, own if backups == "same" else spare)
        pin(processes.idle, spare)


def pin(pids: Iterable[int], to: Iterable[int]) -> None:
    """All threads of each. One that ends meanwhile needs no place."""
    chosen = set(to)
    for pid in pids:
        for thread in _threads(pid):
            try:
                os.sched_setaffinity(thread, chosen)
            except ProcessLookupError:
                continue


def _threads(pid: int) -> list[int]:
    try:
        return [int(entry.name) for entry in Path(f"/proc/{pid}/task").iterdir()]
    except FileNotFoundError:
        return []
