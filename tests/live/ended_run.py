"""Verbs that end by themselves: their work is done, or they are refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.live.application_world import ROOT

PATIENCE_S = 90.0


def ended_run(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return ended(home, "run", *words)


def ended(
    home: Path, *words: str, patience_s: float = PATIENCE_S, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "llft.cli.main", *words],
        cwd=ROOT,
        env={**os.environ, "LLFT_HOME": str(home), **environment},
        capture_output=True,
        text=True,
        timeout=patience_s,
        check=False,
    )
