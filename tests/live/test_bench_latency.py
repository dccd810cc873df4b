"""`llft bench latency`, one small point of it: groups and plain programs are measured, and are gone."""

from __future__ import annotations

import json

import pytest

from tests.live.application_world import TIMEOUTS
from tests.live.ended_run import ended
from tests.live.world import processes_of

PATIENCE_S = 200


def test_one_point_of_plain_tcp_and_of_groups(tmp_path_factory: pytest.TempPathFactory) -> None:
    home = tmp_path_factory.mktemp("h")
    config = home / "llft.toml"
    config.write_text(TIMEOUTS)
    words = ["--sizes", "64", "--replicas", "2", "--client-replicas", "1", "--placement", "one-core"]
    words += ["--rounds", "1", "--seconds", "0.05", "--config", str(config), "--svg", str(home / "svg")]
    done = ended(home, "bench", "latency", *words, "--json", patience_s=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["passed"]
    assert found["machine"]["cores"] > 0
    (point,) = found["points"]
    asked = {"size": 64, "replicas": 2, "client_replicas": 1, "placement": "one-core", "network": "loopback"}
    assert {name: point[name] for name in asked} == asked
    assert all(point[name] > 0 for name in ("tcp_us", "llft_us", "ratio", "tcp_cpu_us", "llft_cpu_us"))
    assert point["lane"] in ("compiled", "reference")
    assert sorted(path.name for path in home.iterdir()) == ["key", "llft.toml", "svg"]
    assert processes_of(home) == {}
