"""A primary that is stopped (kill -STOP) is replaced by what the kernel says of it (D-73), and rejoins."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import llft.cli
from llft.cli.free_port import free_port
from llft.cli.group_run import GroupRun
from llft.cli.survey import Group, primary_of, require_primary
from tests.live.native import needs_native

pytestmark = needs_native

PATIENCE_S = 60.0
SERVER = Path(llft.cli.__file__).with_name("demo_server.py")


@pytest.fixture
def pair(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[GroupRun]:
    """Two replicas that nobody uses: a timeout would find out, too, but later."""
    monkeypatch.setenv("LLFT_HOME", str(tmp_path_factory.mktemp("h")))
    slow = "[timeouts]\nprimary_timeout_ms = 1400\n"
    command = [sys.executable, str(SERVER), "--port", str(free_port())]
    run = GroupRun("stopped", command, replicas=2, common=slow)
    run.start()
    yield run
    run.end()


def test_a_stopped_primary_is_replaced_and_rejoins_when_it_goes_on(pair: GroupRun) -> None:
    victim = require_primary(pair.until("start", PATIENCE_S, pair.is_whole))

    def replaced(group: Group) -> bool:
        primary = primary_of(group)
        return primary is not None and primary["birth"] != victim["birth"]

    os.kill(victim["pid"], signal.SIGSTOP)
    try:
        primary = require_primary(pair.until("fail-over", PATIENCE_S, replaced))
        assert primary["suspicions"] == {"timeout": 0, "certificate": 0, "stopped": 1}
    finally:
        os.kill(victim["pid"], signal.SIGCONT)
    group = pair.until("rejoin", PATIENCE_S, lambda found: pair.is_whole(found) and replaced(found))
    member = next(each for each in group["members"] if each["pid"] == victim["pid"])
    assert member["role"] == "backup"
    assert member["birth"] != victim["birth"], "it is another life"
