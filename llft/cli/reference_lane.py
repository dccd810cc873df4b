"""Some work is for the reference lane alone: planted bugs are patches, and compiled modules take none."""

from __future__ import annotations

import os
import sys

from llft.lane import choice


def insist() -> None:
    """Be this very command on the reference lane: at once, or as a process that takes this one's place."""
    if choice.in_use() == "compiled":
        os.execve(sys.executable, sys.orig_argv, {**os.environ, choice.VARIABLE: "reference"})
