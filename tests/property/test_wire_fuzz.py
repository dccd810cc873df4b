"""A short run of the coverage-guided fuzzer; `fuzz_decoder` says how to run it for longer."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_ten_seconds_of_fuzzing_find_nothing(tmp_path: Path) -> None:
    pytest.importorskip("atheris")
    command = [
        sys.executable,
        "-m",
        "tests.property.fuzz_decoder",
        "--seconds",
        "10",
        "--corpus",
        str(tmp_path),
    ]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    executed = re.search(r"number_of_executed_units:\s*(\d+)", run.stderr)
    assert executed is not None, run.stderr[-3000:]
    assert int(executed.group(1)) > 1000
