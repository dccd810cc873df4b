"""Processes that a verb starts for a while."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable

from llft.runtime.supervisor.slot import ending_with

END_PATIENCE_S = 15


def ending_with_us(number: int) -> Callable[[], None]:
    return ending_with(os.getpid(), number)


def end(process: subprocess.Popen[bytes]) -> None:
    """Ask it to end, wait, and end it."""
    process.terminate()
    try:
        process.wait(timeout=END_PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()
