"""Two groups in dialogues (D-74), whose members are killed and stopped in the midst of what they say."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Callable
from typing import Any

import pytest

from llft.cli.kill import send_signal
from llft.cli.survey import STATUS, primary_of, require_primary
from llft.lane import choice
from llft.runtime.control_client import ask
from tests.live.application_world import (
    HttpSpeaker,
    LineSpeaker,
    ReplicatedRun,
    Reply,
    Speaker,
    assert_journals_hold,
    replicated,
    survive,
    until,
)
from tests.live.native import needs_native
from tests.live.world import TIMEOUTS

BETWEEN = 300
"""So much is said before the next of them is struck."""
OUTSIDE_AT_MOST = 10
"""One in so many requests at least is heard in a dialogue, however busy the machine is."""

pytestmark = [needs_native, pytest.mark.skipif(bool(choice.why_not()), reason="only the compiled lane talks")]


def report_of(client: ReplicatedRun, word: bytes = b"tell") -> Reply:
    with socket.create_connection(("127.0.0.1", client.port), timeout=60) as asking:
        asking.sendall(word)
        report: Reply = json.loads(asking.makefile("rb").read())
    assert report["complaints"] == []
    return report


def heard_in_dialogues(run: ReplicatedRun) -> list[int]:
    """By each of its members."""
    members = run.await_whole()["members"]
    answers = [ask(run.directory.socket(member["name"]), STATUS) for member in members]
    return [answer["dialogues"]["heard"] for answer in answers]


def let_it_go_on(client: ReplicatedRun) -> None:
    before = report_of(client)["heard"]
    until("go on", lambda: report_of(client)["heard"] > before + BETWEEN)


def stop_for_a_while(run: ReplicatedRun, member: dict[str, Any], until_replaced: bool) -> None:
    os.kill(member["pid"], signal.SIGSTOP)
    try:
        if until_replaced:
            run.until("fail over", lambda group: (primary_of(group) or member)["birth"] != member["birth"])
        else:
            run.until("be looked at", lambda group: True)
    finally:
        os.kill(member["pid"], signal.SIGCONT)


def backup_of(run: ReplicatedRun) -> dict[str, Any]:
    found: dict[str, Any] = next(
        member for member in run.await_whole()["members"] if member["role"] == "backup"
    )
    return found


def kill_backup(run: ReplicatedRun) -> None:
    send_signal(backup_of(run)["pid"], signal.SIGKILL, parent=run.await_whole()["supervisor_pid"])


def strokes(server: ReplicatedRun, client: ReplicatedRun) -> list[Callable[[], None]]:
    return [
        server.kill_primary,
        lambda: stop_for_a_while(server, require_primary(server.await_whole()), True),
        client.kill_primary,
        lambda: stop_for_a_while(server, backup_of(server), False),
        lambda: kill_backup(server),
        lambda: stop_for_a_while(client, require_primary(client.await_whole()), False),
    ]


LOSSY = "[transport.fault_injection]\nkernel_loss = 0.01\n"


@pytest.mark.parametrize(
    ("kind", "network"),
    [("talking", LOSSY), ("selecting", "")],
    ids=["talking-lossy", "selecting"],
)
def test_nothing_is_lost_doubled_or_changed(
    tmp_path_factory: pytest.TempPathFactory, kind: str, network: str
) -> None:
    """Nor where the network loses: a dialogue is left then, and the core sees to it."""
    home = tmp_path_factory.mktemp("h")
    common = home / "server.toml"
    common.write_text(TIMEOUTS + network)
    with replicated(home, "server", [f"{kind}_server.py"], config=common) as server:
        config = home / "llft.toml"
        endpoints = f'[groups.{server.group}]\nendpoints = ["127.0.0.1:{server.port}"]\n'
        config.write_text(endpoints + TIMEOUTS + network)
        words = [f"{kind}_client.py", str(server.port)]
        with replicated(home, "client", words, config=config) as client:
            let_it_go_on(client)
            assert all(heard > 0 for heard in heard_in_dialogues(server)), heard_in_dialogues(server)
            until("follow in dialogues", lambda: min(heard_in_dialogues(client)) > BETWEEN // OUTSIDE_AT_MOST)
            for strike in strokes(server, client):
                strike()
                let_it_go_on(client)
            until("finish", lambda: report_of(client, b"end")["finished"])
    assert_journals_hold(server, client)


THREADED: dict[str, tuple[str, Callable[[int], Speaker]]] = {
    "one-selects-and-others-work": ("flask_waitress.py", HttpSpeaker),
    "one-for-each-connection": ("kv_locked.py", LineSpeaker),
}


@pytest.mark.parametrize("kind", THREADED)
def test_threads_take_turns_in_dialogues(tmp_path_factory: pytest.TempPathFactory, kind: str) -> None:
    program, speak = THREADED[kind]
    with replicated(tmp_path_factory.mktemp("h"), kind, [program]) as run:
        entries, _ = survive(run, speak, 0)
        assert min(heard_in_dialogues(run)) > len(entries) // OUTSIDE_AT_MOST
    assert_journals_hold(run)
