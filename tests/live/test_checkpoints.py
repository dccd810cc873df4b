"""Checkpoints of real programs: verified, the log before them dropped, and joined from, under load."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from llft.runtime.control_client import ask
from tests.live.application_world import (
    CLIENTS,
    Clients,
    LineSpeaker,
    ReplicatedRun,
    assert_journals_hold,
    assert_like_unreplicated,
    replicated,
)
from tests.live.native import needs_native
from tests.live.test_applications import SERVERS

HAS_AUTOGROUPS = Path("/proc/self/autogroup").exists()
LOG_KB = 4
JOINS = 2


def statuses(run: ReplicatedRun, group: dict[str, Any]) -> list[dict[str, Any]]:
    numbers = [member["replica"] for member in group["members"]]
    return [
        ask(run.directory.socket(f"replica-{number}"), {"do": "status"}, timeout_s=5.0) for number in numbers
    ]


def await_dropped(run: ReplicatedRun, source: str) -> None:
    """Until every replica has verified states of this kind, and has forgotten what came before them; but one
    may keep its log for those who joined with it, as long as their lease lasts (`past.pace`)."""

    def dropped(group: dict[str, Any]) -> bool:
        found = statuses(run, group)
        verified = all(
            each["checkpoints"]["source"] == source and each["checkpoints"]["base"] > 0 for each in found
        )
        keeping = [each for each in found if each["log_kept_bytes"] == each["log_bytes"]]
        return verified and len(keeping) <= 1

    run.await_whole()
    run.until("drop its log", dropped)


def all_forward(group: dict[str, Any]) -> bool:
    """Whether the kernel has no replica stepped back, as joiners do (`runtime.priority`)."""
    found = [Path(f"/proc/{member['pid']}/autogroup") for member in group["members"]]
    return not HAS_AUTOGROUPS or all(path.read_text().split()[-1] == "0" for path in found)


def said(run: ReplicatedRun) -> str:
    return "\n".join(path.read_text(errors="replace") for path in run.directory.path.glob("replica-*.log"))


@needs_native
@pytest.mark.parametrize(("name", "joins"), [("kv-locked", JOINS), ("aiohttp", 1)])
def test_replicas_join_by_image_and_take_over(
    tmp_path_factory: pytest.TempPathFactory, name: str, joins: int
) -> None:
    """Threads with state in their handlers' locals; coroutines that are suspended."""
    words, speak, _ = SERVERS[name]
    home = tmp_path_factory.mktemp("h")
    with replicated(home, name, words, checkpoints="image", checkpoint_log_kb=LOG_KB) as run:
        clients = Clients(CLIENTS, lambda: speak(run.port))
        for _ in range(joins):
            await_dropped(run, "image")
            run.kill_primary()
        await_dropped(run, "image")
        run.until("come forward", all_forward)
        entries = clients.stop()
        last = speak(run.port)
        dump = last.dump()
        last.close()
        run.await_whole()
        log = said(run)
    assert log.count("as an image") >= joins
    assert not HAS_AUTOGROUPS or log.count("comes forward") >= joins
    assert "no checkpoint:" not in log
    assert_journals_hold(run)
    assert_like_unreplicated(entries, dump, words, speak)


def test_replicas_join_by_hooks(tmp_path_factory: pytest.TempPathFactory) -> None:
    """One request a connection: between two of them nobody is connected."""
    words = ["kv_hooked.py"]
    home = tmp_path_factory.mktemp("h")
    with replicated(home, "kv-hooked", words, checkpoint_log_kb=LOG_KB) as run:
        clients = Clients(2, lambda: OneRequest(run.port))
        for _ in range(JOINS):
            await_dropped(run, "hooks")
            run.kill_primary()
        run.await_whole()
        entries = clients.stop()
        dump = OneRequest(run.port).dump()
        log = said(run)
    assert log.count("bytes of state by hooks") >= JOINS
    assert "no checkpoint:" not in log
    assert_journals_hold(run)
    assert_like_unreplicated(entries, dump, words, OneRequest)


class OneRequest:
    """Speaks on a new connection each time."""

    def __init__(self, port: int) -> None:
        self._port = port

    def add(self, who: str, number: int, amount: int) -> dict[str, Any]:
        speaker = LineSpeaker(self._port)
        try:
            return speaker.add(who, number, amount)
        finally:
            speaker.close()

    def dump(self) -> dict[str, Any]:
        speaker = LineSpeaker(self._port)
        try:
            return speaker.dump()
        finally:
            speaker.close()

    def close(self) -> None: ...
