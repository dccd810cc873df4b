"""Semi-passive groups: backups hold the primary's state, log what follows, and execute nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.live.application_world import (
    BETWEEN_KILLS,
    CLIENTS,
    Clients,
    LineSpeaker,
    ReplicatedRun,
    assert_journals_hold,
    assert_like_unreplicated,
    replicated,
    survive,
)
from tests.live.test_checkpoints import LOG_KB, OneRequest, said, statuses

SEMI_PASSIVE = ("--replication", "semi-passive")
KILLS = 3


def backups(run: ReplicatedRun) -> list[dict[str, Any]]:
    found = statuses(run, run.await_whole())
    return [each for each in found if each["role"] == "backup"]


def test_backups_take_over_with_the_newest_state_by_hooks(tmp_path_factory: pytest.TempPathFactory) -> None:
    """One request a connection, so that states can be captured; the log before them is dropped everywhere."""
    words = ["kv_hooked.py"]
    home = tmp_path_factory.mktemp("h")
    with replicated(home, "kv-passive", words, checkpoint_log_kb=LOG_KB, more=SEMI_PASSIVE) as run:
        clients = Clients(CLIENTS, lambda: OneRequest(run.port))
        for _ in range(KILLS):
            clients.await_progress(BETWEEN_KILLS)
            await_states(run)
            run.kill_primary()
        clients.await_progress(BETWEEN_KILLS)
        entries = clients.stop()
        dump = OneRequest(run.port).dump()
        idle = backups(run)
        log = said(run)
    assert all(each["statistics"]["threads"] == 0 for each in idle), "a backup executes"
    assert log.count("begins the program with what it holds") == KILLS
    assert_journals_hold(run)
    assert_like_unreplicated(entries, dump, words, OneRequest)


def await_states(run: ReplicatedRun) -> None:
    """Until every backup holds a state, and the log since that."""

    def held(group: dict[str, Any]) -> bool:
        found = [each["stored"] for each in statuses(run, group) if each["role"] == "backup"]
        return len(found) > 1 and all(each and each["base"] > 0 for each in found)

    run.until("hold states", held)


def test_connections_that_stay_open_survive(tmp_path_factory: pytest.TempPathFactory) -> None:
    """No state can be captured by hooks while they are: the log is replayed from birth."""
    words = ["kv_hooked_open.py"]
    home = tmp_path_factory.mktemp("h")
    with replicated(home, "kv-open", words, more=SEMI_PASSIVE) as run:
        entries, dump = survive(run, LineSpeaker, KILLS)
    assert_journals_hold(run)
    assert_like_unreplicated(entries, dump, words, LineSpeaker)
