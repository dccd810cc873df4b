"""`llft bench join` and `llft bench soak`, shortened: a joiner does not repeat the past, and what is kept is
bounded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.live.application_world import ROOT, TIMEOUTS
from tests.live.native import needs_native

PATIENCE_S = 300
JOURNAL_MB = 2
PROCESSES = 4
"""Three replicas and a gateway."""

pytestmark = needs_native


def bench(home: Path, *words: str) -> dict[str, Any]:
    config = home / "llft.toml"
    config.write_text(TIMEOUTS)
    command = [sys.executable, "-m", "llft.cli.main", "bench", *words, "--json", "--config", str(config)]
    environment = {**os.environ, "LLFT_HOME": str(home)}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_a_replica_joins_by_image_under_load(tmp_path_factory: pytest.TempPathFactory) -> None:
    home = tmp_path_factory.mktemp("h")
    words = ["--state-mb", "20", "--rate", "100", "--seconds", "2", "--checkpoint-log-kb", "16"]
    found = bench(home, "join", *words, "--joins", "2")
    assert found["source"] == "image"
    assert found["state_mb"] > 20
    assert found["log_mb"]["kept"] < found["log_mb"]["whole"]
    assert [found[name] for name in ("lost", "duplicated", "changed", "broken")] == [0, 0, 0, 0]
    assert found["p99_ratio"] > 0
    assert found["join_s"] == max(join["join_s"] for join in found["joins"]) > 0
    assert len(found["joins"]) == 2


def test_log_and_journals_are_bounded_over_many_requests(tmp_path_factory: pytest.TempPathFactory) -> None:
    home = tmp_path_factory.mktemp("h")
    words = ["--seconds", "35", "--requests", "600000", "--samples", "1200", "--clients", "4"]
    found = bench(home, "soak", *words, "--checkpoint-log-kb", "16", "--journal-mb", str(JOURNAL_MB))
    assert sum(found["checkpoints"]["verified"]) >= 3, found["checkpoints"]
    assert found["checkpoints"]["failed"] == [0, 0, 0]
    assert max(found["journal_mb"]) <= JOURNAL_MB * 1.3 * PROCESSES
    assert found["requests"] == sorted(found["requests"])
    assert len(found["requests"]) == len(found["rss_mb"]) == len(found["journal_mb"])
    assert found["whole_log_mb"][-1] >= found["log_mb"][-1]
