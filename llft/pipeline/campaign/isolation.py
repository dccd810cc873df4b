"""A seed in a process of its own: whatever it does to that process, there is an outcome.

Used only for a batch whose worker has died already: the fork and the way back of the records cost a few
percent. In the worker itself a seed is bounded in processor time, so a machine that stands still does not
make a seed fail.
"""

from __future__ import annotations

import os
import pickle
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from llft.pipeline.campaign.outcome import CRASH, Cell, Outcome, RunSeed

CPU_LIMIT_S = 600.0
TRACEBACK_LINES = 6

Guarded = Callable[[RunSeed, int, Cell], Outcome]


class SeedTookTooLong(BaseException):
    """No Exception: what a simulated replica raises is caught by the simulator, and this must not be."""


def run_guarded(run_seed: RunSeed, seed: int, cell: Cell, *, limit_s: float = CPU_LIMIT_S) -> Outcome:
    """In this process. Whatever the seed raises is its outcome."""
    try:
        with _bounded(limit_s):
            return run_seed(seed, cell)
    except SeedTookTooLong:
        return crashed(seed, f"it took more than {limit_s:g} s of processor time")
    except Exception:  # noqa: BLE001 - a seed that crashes is what we look for
        return crashed(seed, "\n".join(traceback.format_exc().strip().splitlines()[-TRACEBACK_LINES:]))


def run_alone(run_seed: RunSeed, seed: int, cell: Cell) -> Outcome:
    """In a child. If that dies, this is the outcome."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        _be_the_child(run_seed, seed, cell, reading, writing)
    os.close(writing)
    with open(reading, "rb") as pipe:
        data = pipe.read()
    _, status = os.waitpid(pid, 0)
    if status:
        code = os.waitstatus_to_exitcode(status)
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
        return crashed(seed, f"the process that ran this seed died: {how}")
    outcome: Outcome = pickle.loads(data)
    return outcome


def _be_the_child(run_seed: RunSeed, seed: int, cell: Cell, reading: int, writing: int) -> None:
    """Ends without the parent's clean-up: its connection to the Java side is not ours to close."""
    status = 1
    try:
        os.close(reading)
        with open(writing, "wb") as pipe:
            pickle.dump(run_guarded(run_seed, seed, cell), pipe)
        status = 0
    finally:
        os._exit(status)


def crashed(seed: int, explanation: str) -> Outcome:
    return Outcome(seed, violations=((CRASH, explanation),), trace_hash=CRASH)


@contextmanager
def _bounded(limit_s: float) -> Iterator[None]:
    def expired(number: int, frame: FrameType | None) -> None:
        raise SeedTookTooLong

    before = signal.signal(signal.SIGPROF, expired)
    signal.setitimer(signal.ITIMER_PROF, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
