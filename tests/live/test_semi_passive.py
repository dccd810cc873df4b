"""Semi-passive groups: backups hold the primary's state, log what follows, and execute nothing."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from llft.cli.free_port import free_port
from tests.live.application_world import (
    BETWEEN_KILLS,
    CLIENTS,
    Clients,
    LineSpeaker,
    ReplicatedRun,
    assert_journals_hold,
    assert_like_unreplicated,
    command_of,
    replicated,
    survive,
)
from tests.live.ended_run import ended_run
from tests.live.native import needs_native
from tests.live.test_applications import SERVERS
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
        found = [each["stored"] for each in group["members"] if each["role"] == "backup"]
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


@needs_native
def test_backups_take_over_as_images(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Handlers with state in their locals, on connections that stay open. A backup joins as an image, and
    when the primary has a newer one, joins anew as that."""
    words, speak, _ = SERVERS["kv-locked"]
    home = tmp_path_factory.mktemp("h")
    with replicated(home, "kv-images", words, checkpoint_log_kb=LOG_KB, more=SEMI_PASSIVE) as run:
        clients = Clients(CLIENTS, lambda: speak(run.port))
        for _ in range(KILLS):
            clients.await_progress(BETWEEN_KILLS)
            await_states(run)
            run.kill_primary()
        clients.await_progress(BETWEEN_KILLS)
        entries = clients.stop()
        last = speak(run.port)
        dump = last.dump()
        last.close()
        run.await_whole()
        log = said(run)
    assert log.count("as an image") >= KILLS
    assert log.count("begins the program with what it holds") == KILLS
    assert_journals_hold(run)
    assert_like_unreplicated(entries, dump, words, speak)


def test_an_update_that_was_recorded_is_not_repeated(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The paper's example: two requests at a time update one item; the second is answered, and the primary
    fails before it answers the first. Its processing is repeated, and must not update the item again."""
    home = tmp_path_factory.mktemp("h")
    with replicated(home, "one-item", ["one_item.py"], more=SEMI_PASSIVE) as run:
        run.await_whole()
        slow, quick = (socket.create_connection(("127.0.0.1", run.port), timeout=60) for _ in range(2))
        slow.sendall(b"add, and wait\n")
        assert ask_line(slow, b"") == b"added 1\n"
        assert ask_line(quick, b"add\n") == b"2\n"
        await_held(run)
        run.kill_primary()
        assert ask_line(slow, b"go on\n") == b"1 of 2\n"
        assert ask_line(quick, b"add\n") == b"3\n"
        slow.close()
        quick.close()
        run.await_whole()
    assert_journals_hold(run)


def ask_line(connection: socket.socket, line: bytes) -> bytes:
    connection.sendall(line)
    return connection.makefile("rb").readline()


def await_held(run: ReplicatedRun) -> None:
    """Until all that the primary's program was given is with the backups, as state."""

    def held(group: dict[str, Any]) -> bool:
        found = statuses(run, group)
        length = max(each["log_bytes"] for each in found if each["role"] == "primary")
        return all(each["log_bytes"] == length for each in found)

    run.until("hold it", held)


def test_a_program_without_states_is_refused(tmp_path: Path) -> None:
    asked = ("--plain", *SEMI_PASSIVE, "--checkpoints", "hooks")
    finished = ended_run(tmp_path, *asked, "--", *command_of(["kv_locked.py"], free_port()))
    assert finished.returncode == 1
    assert "__llft_snapshot__ and __llft_restore__, or run it with --replication semi-act" in finished.stdout


@pytest.mark.parametrize("other", [("--checkpoints", "none"), ("--threads", "ordered"), ("--durable",)])
def test_what_does_not_go_with_it_is_refused_at_once(tmp_path: Path, other: tuple[str, ...]) -> None:
    finished = ended_run(tmp_path, *SEMI_PASSIVE, *other, "--", "python", __file__)
    assert finished.returncode == 2
    assert "semi-passive" in finished.stderr
