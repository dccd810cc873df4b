"""Checkpoints of real programs: verified, the log before them dropped, and joined from, under load."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from llft.runtime.control_client import ask
from llft.runtime.priority import BESIDE, FORWARD
from tests.live.application_world import (
    BETWEEN_KILLS,
    CLIENTS,
    Clients,
    Entry,
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
    """Whether the kernel has no replica as far back as joiners are (`runtime.priority`)."""
    found = [Path(f"/proc/{member['pid']}/autogroup") for member in group["members"]]
    places = [int(path.read_text().split()[-1]) for path in found] if HAS_AUTOGROUPS else []
    return all(nice in (FORWARD, BESIDE) for nice in places)


def said(run: ReplicatedRun) -> str:
    return "\n".join(path.read_text(errors="replace") for path in run.directory.path.glob("replica-*.log"))


def told(home: Path, name: str, words: str) -> list[str]:
    """The lines of `llft run` that have these words."""
    lines = (home / f"{name}.out").read_text(errors="replace").splitlines()
    return [line for line in lines if words in line]


@needs_native
@pytest.mark.parametrize(("name", "joins", "asked"), [("kv-locked", JOINS, ""), ("aiohttp", 1, "image")])
def test_replicas_join_by_image_and_take_over(
    tmp_path_factory: pytest.TempPathFactory, name: str, joins: int, asked: str
) -> None:
    """Threads with state in their handlers' locals, and nobody asked for images; coroutines that are
    suspended."""
    words, speak, _ = SERVERS[name]
    home = tmp_path_factory.mktemp("h")
    with replicated(home, name, words, checkpoints=asked, checkpoint_log_kb=LOG_KB) as run:
        clients = Clients(CLIENTS, lambda: speak(run.port))
        for _ in range(joins):
            await_dropped(run, "image")
            run.kill_primary()
        await_dropped(run, "image")
        run.until("come forward", all_forward)
        run.until("have forgotten most of their past", lambda group: forgot_most(run, group))
        entries = clients.stop()
        last = speak(run.port)
        dump = last.dump()
        last.close()
        run.await_whole()
        log = said(run)
    [line] = told(home, name, "checkpoints by image of the process")
    assert "its addresses are not random" in line
    assert log.count("as an image") >= joins
    assert not HAS_AUTOGROUPS or log.count("comes forward") >= joins
    assert "no checkpoint:" not in log
    assert_journals_hold(run)
    assert_like_unreplicated(entries, dump, words, speak)


def forgot_most(run: ReplicatedRun, group: dict[str, Any]) -> bool:
    return all(2 * each["log_kept_bytes"] < each["log_bytes"] for each in statuses(run, group))


@needs_native
def test_a_program_with_a_device_open_keeps_its_log_from_birth(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Known at its start, and told then, once."""
    words, name, home = ["kv_uncarried.py"], "kv-device", tmp_path_factory.mktemp("h")
    with replicated(home, name, words, checkpoint_log_kb=LOG_KB) as run:
        clients = Clients(CLIENTS, lambda: LineSpeaker(run.port))
        run.until("have more log than a checkpoint needs", lambda group: has_long_log(run, group))
        run.kill_primary()
        found = statuses(run, run.await_whole())
        entries, dump = clients.stop(), dump_of(run)
        log = said(run)
    assert all(each["log_kept_bytes"] == each["log_bytes"] for each in found)
    assert not any(each["checkpoints"].get("base") for each in found)
    [line] = told(home, name, "/dev/zero, which an image does not carry")
    assert "the log is kept from birth" in line
    assert "__llft_snapshot__" in line
    assert "of the program's past, from 0 on" in log
    assert "as an image" not in log
    assert_journals_hold(run)
    assert_like_unreplicated(entries, dump, words, LineSpeaker)


@needs_native
def test_a_file_that_is_written_later_ends_images_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    """The log is kept since the last image, and who joins by that writes the file again."""
    file, name, home = tmp_path / "written", "kv-file", tmp_path_factory.mktemp("h")
    words = ["kv_uncarried.py", str(file)]
    with replicated(home, name, words, checkpoint_log_kb=LOG_KB) as run:
        clients = Clients(CLIENTS, lambda: LineSpeaker(run.port))
        await_dropped(run, "image")
        writer = LineSpeaker(run.port)
        clients.entries.append(Entry(("writer", 1, 7), writer.add("writer", 1, 7)))
        writer.close()
        run.until("say that it writes", lambda group: all_write(run, group))
        bases = [each["checkpoints"]["base"] for each in statuses(run, run.await_whole())]
        file.unlink()
        clients.await_progress(BETWEEN_KILLS)
        run.kill_primary()
        run.await_whole()
        assert file.read_text() == "writer 1 7\n", "who joined went through it"
        found = statuses(run, run.await_whole())
        entries, dump = clients.stop(), dump_of(run)
    assert max(each["checkpoints"]["base"] for each in found) <= max(bases), "no image was taken since"
    [line] = told(home, name, f"it writes {file}")
    assert "the log is kept from its last checkpoint" in line
    assert_journals_hold(run)
    assert_like_unreplicated(entries, dump, words, LineSpeaker)


def all_write(run: ReplicatedRun, group: dict[str, Any]) -> bool:
    """And none of them is about to have an image that was taken before."""
    found = [each["checkpoints"] for each in statuses(run, group)]
    return all(each["phase"] == "resting" and "it writes" in each["why_not"] for each in found)


def has_long_log(run: ReplicatedRun, group: dict[str, Any]) -> bool:
    return all(each["log_bytes"] > 8 * LOG_KB * 1024 for each in statuses(run, group))


def dump_of(run: ReplicatedRun) -> dict[str, Any]:
    last = LineSpeaker(run.port)
    try:
        return last.dump()
    finally:
        last.close()


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
