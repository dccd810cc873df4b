"""All replicas killed at once: with a history on disk the group goes on with all that was acknowledged,
even if the disk is lost that has most of it (D-71)."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from llft.runtime.state.history import longest
from tests.live.application_world import PACE_S, LineSpeaker, ReplicatedRun, Speaker, until
from tests.live.native import needs_native
from tests.live.test_applications import SERVERS
from tests.live.test_checkpoints import OneRequest, await_dropped, said

ROUNDS = 2
CLIENTS = 2
BEFORE_THE_KILL = 30


class Acknowledged:
    """Clients that add until their connection breaks, and know what was acknowledged."""

    def __init__(self, connect: Callable[[], Speaker], prefix: str) -> None:
        self._connect = connect
        self.numbers: dict[str, int] = {f"{prefix}c{index}": 0 for index in range(CLIENTS)}
        self.complaints: list[str] = []
        self._threads = [threading.Thread(target=self._add, args=(who,), daemon=True) for who in self.numbers]
        for thread in self._threads:
            thread.start()

    def _add(self, who: str) -> None:
        speaker = self._connect()
        try:
            self._add_on(speaker, who)
        except (OSError, ValueError, HTTPException):
            return  # the group is dead
        finally:
            with suppress(OSError):
                speaker.close()

    def _add_on(self, speaker: Speaker, who: str) -> None:
        pause = threading.Event()
        while not pause.wait(PACE_S):
            number = self.numbers[who] + 1
            reply = speaker.add(who, number, 1)
            if reply["balance"] != number:
                self.complaints.append(f"{who} {number}: {reply}")
            self.numbers[who] = number

    def await_some(self) -> None:
        until("answer requests", lambda: sum(self.numbers.values()) >= BEFORE_THE_KILL)

    def join(self) -> None:
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive()
        assert not self.complaints, self.complaints


def assert_is_there(speaker: Speaker, acknowledged: dict[str, int]) -> None:
    """In the order in which each client asked, each once; and at most one more, which was under way."""
    dump: dict[str, Any] = speaker.dump()
    speaker.close()
    for who, last in acknowledged.items():
        numbers = [number for name, number, _ in dump["history"] if name == who]
        assert numbers == list(range(1, len(numbers) + 1)), who
        assert last <= len(numbers) <= last + 1, (who, last, len(numbers))
        assert dump["balances"].get(who, 0) == len(numbers)


def lose_best_disk(run: ReplicatedRun) -> None:
    """As a rule the primary's."""
    past, complaints = longest(run.directory.durable)
    assert past is not None, complaints
    shutil.rmtree(past.directory)


def rounds_of(name: str) -> int:
    """What follows a restart is the same for all programs: one of them does it twice."""
    return ROUNDS if name == "kv-locked" else 1


@pytest.mark.parametrize(
    ("name", "checkpoints"),
    [
        pytest.param("kv-locked", "image", marks=needs_native),
        ("kv-hooked", "hooks"),
        ("kv-locked", "none"),
        pytest.param("aiohttp", "image", marks=needs_native),
    ],
)
def test_all_replicas_killed_at_once(
    tmp_path_factory: pytest.TempPathFactory, name: str, checkpoints: str
) -> None:
    words, speak, _ = SERVERS.get(name, (["kv_hooked.py"], OneRequest, 0))
    home = tmp_path_factory.mktemp("h")
    acknowledged: dict[str, int] = {}
    port = 0
    for number in range(rounds_of(name)):
        run = start(home, name, words, checkpoints, port=port, restores=number > 0)
        port = run.port
        try:
            run.await_whole()
            if number:
                assert "goes on from disk" in said(run)
                assert_is_there(speak(port), acknowledged)
            clients = Acknowledged(partial(speak, port), f"r{number}")
            if checkpoints != "none":
                await_dropped(run, checkpoints)
            clients.await_some()
        except BaseException:
            run.end()
            raise
        run.kill_all()
        clients.join()
        acknowledged.update(clients.numbers)
        if checkpoints == "none":
            lose_best_disk(run)
    run = start(home, name, words, checkpoints, port=port, restores=True)
    try:
        run.await_whole()
        assert_is_there(speak(port), acknowledged)
        run.kill_primary()
        assert_is_there(speak(port), acknowledged)
    finally:
        run.end()


@pytest.mark.parametrize(("name", "checkpoints"), [("kv-locked", "none"), ("kv-hooked", "hooks")])
def test_a_supervisor_goes_on_from_disk_when_all_its_replicas_are_dead(
    tmp_path_factory: pytest.TempPathFactory, name: str, checkpoints: str
) -> None:
    words, speak, _ = SERVERS.get(name, (["kv_hooked.py"], OneRequest, 0))
    acknowledged: dict[str, int] = {}
    run = start(tmp_path_factory.mktemp("h"), name, words, checkpoints, port=0, restores=False)
    try:
        for number in range(rounds_of(name)):
            run.await_whole()
            clients = Acknowledged(partial(speak, run.port), f"r{number}")
            if checkpoints != "none":
                await_dropped(run, checkpoints)
            clients.await_some()
            run.kill_replicas()
            clients.join()
            acknowledged.update(clients.numbers)
            run.await_whole()
            assert_is_there(speak(run.port), acknowledged)
        assert run.output().count("every member of the group is dead, it goes on from disk") == rounds_of(
            name
        )
        run.kill_primary()
        assert_is_there(speak(run.port), acknowledged)
    finally:
        run.end()


def start(
    home: Path, name: str, words: list[str], checkpoints: str, *, port: int, restores: bool
) -> ReplicatedRun:
    return ReplicatedRun(
        home,
        name,
        words,
        checkpoints=checkpoints,
        checkpoint_log_kb=4,
        port=port,
        more=["--restore" if restores else "--durable"],
    )


def test_a_history_is_not_overwritten_by_mistake(tmp_path_factory: pytest.TempPathFactory) -> None:
    home = tmp_path_factory.mktemp("h")
    run = start(home, "kv", ["kv_locked.py"], "none", port=0, restores=False)
    try:
        run.await_whole()
        speaker = LineSpeaker(run.port)
        speaker.add("somebody", 1, 1)
        speaker.close()
    finally:
        run.end()
    again = start(home, "kv", ["kv_locked.py"], "none", port=run.port, restores=False)
    with pytest.raises(AssertionError, match="history-on-disk"):
        again.await_whole()
    again.end()


def test_of_histories_that_are_all_damaged_nobody_says_that_there_were_none(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    home = tmp_path_factory.mktemp("h")
    run = start(home, "kv", ["kv_locked.py"], "none", port=0, restores=False)
    try:
        run.await_whole()
    finally:
        run.end()
    for history in home.glob("**/durable/replica-*/*"):
        history.write_bytes(b"not a history")
    again = start(home, "kv", ["kv_locked.py"], "none", port=run.port, restores=True)
    with pytest.raises(AssertionError, match="every history here is damaged"):
        again.await_whole()
    again.end()
