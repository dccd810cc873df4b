"""Seeds for tests of campaigns, in a module of their own: executors import what they run."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

from llft.cli import seed_work
from llft.pipeline.campaign.outcome import Cell, Outcome


def without_records(seed: int, cell: Cell) -> Outcome:
    """A real seed, and nothing for the audit."""
    return replace(seed_work.run_seed(seed, cell), records=(), calls=())


def orderly(seed: int, cell: Cell) -> Outcome:
    """Without records: these tests are about workers, and the audit takes its time."""
    _mark(cell, seed)
    return Outcome(seed, operations=3, acknowledged=10, replicas=2, trace_hash=f"t{seed}")


RAISES, KILLS_ITS_PROCESS, DIES_ONCE = 3, 7, 9


def troubled(seed: int, cell: Cell) -> Outcome:
    """One seed raises; one kills its process, always; at one, once, somebody kills the worker."""
    mark = scene(cell) / "died"
    if seed == RAISES:
        raise ValueError(f"seed {seed} is broken")
    if seed == KILLS_ITS_PROCESS or (seed == DIES_ONCE and not mark.exists()):
        if seed == DIES_ONCE:
            mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return orderly(seed, cell)


def one_computes_for_ever(seed: int, cell: Cell) -> Outcome:
    while True:
        pass


def scene(cell: Cell) -> Path:
    """The profile names a directory here, where seeds leave their marks."""
    return Path(cell.profile)


def _mark(cell: Cell, seed: int) -> None:
    """One more line for each time the seed was run."""
    with open(scene(cell) / "runs", "a", encoding="ascii") as file:
        file.write(f"{seed}\n")
