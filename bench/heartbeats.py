"""Heartbeats of real groups under light and under heavy load, and the timeouts that `llft tune` makes of
them.

    python bench/heartbeats.py --seconds 180 --keep DIR

records three replicas with eight clients, first at a request every 50 ms each, then without a pause, and
prints what the recommendation and the defaults come to on the half of the data that the fit has not seen.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from llft.cli.trial import Trial, TrialOptions

LOADS = {"light": 50.0, "heavy": 0.01}
"""By name: from a reply to the client's next request, in milliseconds."""


def record(target: Path, *, seconds: float, pace_ms: float) -> None:
    """The journals of one run."""
    options = TrialOptions(kills=0, pace_ms=pace_ms)
    trial = Trial(options, lambda text: print(f"  {text}", flush=True))
    with trial:
        # Not `endure`: a group that changes its primary meanwhile is what is to be seen here.
        time.sleep(seconds)
        counts = trial.stop()
    print(f"  {counts['replies']} replies, {counts['latency_ms']}", flush=True)
    shutil.copytree(trial.directory.journal, target)
    trial.forget()


def main() -> int:
    parser = argparse.ArgumentParser(description="Heartbeats under load, and the timeouts for them.")
    parser.add_argument("--seconds", type=float, default=40.0, help="of each load (default: 40)")
    parser.add_argument("--keep", type=Path, help="where the journals stay (default: nowhere)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        directory = arguments.keep or Path(scratch)
        for name, pace_ms in LOADS.items():
            print(f"{name} load", flush=True)
            record(directory / name, seconds=arguments.seconds, pace_ms=pace_ms)
        command = [sys.executable, "-m", "llft.cli.main", "tune", str(directory), "--json"]
        return subprocess.run([*command, "--output", str(Path(scratch) / "tune")], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
