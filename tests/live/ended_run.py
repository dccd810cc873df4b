"""`llft run` that ends by itself, since it is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.live.application_world import ROOT

PATIENCE_S = 90.0


def ended_run(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "llft.cli.main", "run", *words],
        cwd=ROOT,
        env={**os.environ, "LLFT_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
