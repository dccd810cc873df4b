"""The demonstration itself: a real server, a real kill, and clients that count."""

from __future__ import annotations

import json

import pytest

from tests.live.ended_run import ended


@pytest.mark.parametrize(
    ("verb", "replicas", "lane"), [(["demo"], 3, "compiled"), (["bench", "failover"], 2, "reference")]
)
def test_nothing_is_lost_when_the_primary_is_killed(
    tmp_path_factory: pytest.TempPathFactory, verb: list[str], replicas: int, lane: str
) -> None:
    """The demonstration ends with the audit of its journals; the benchmark is the same trial without it."""
    home = tmp_path_factory.mktemp("h")
    words = [*verb, "--kills", "1", "--clients", "2", "--json", "--replicas", str(replicas)]
    result = ended(home, *words, patience_s=150, LLFT_LANE=lane)
    assert result.returncode == 0, result.stderr
    verdict = json.loads(result.stdout.splitlines()[-1])
    assert verdict["kills"] == 1
    assert verdict["requests"] == verdict["replies"] > 0
    assert {name: verdict[name] for name in ("lost", "duplicated", "changed", "broken")} == dict.fromkeys(
        ("lost", "duplicated", "changed", "broken"), 0
    )
    assert verdict["failover_ms"]["max"] > 0
    assert all(verdict["stages_ms"][stage]["p50"] is not None for stage in verdict["stages_ms"])
    assert [path.name for path in home.iterdir()] == ["key"]
