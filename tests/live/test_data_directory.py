"""A data directory is part of the program's state: SQLite under real programs whose primaries are killed."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from llft.cli.kill import send_signal
from llft.runtime.supervisor.data import SEED
from tests.live.application_world import (
    BETWEEN_KILLS,
    CLIENTS,
    Clients,
    Entry,
    HttpSpeaker,
    ReplicatedRun,
    assert_journals_hold,
    command_of,
    replicated,
)
from tests.live.ended_run import ended_run
from tests.live.test_checkpoints import JOINS, LOG_KB, await_dropped, said, statuses
from tests.live.test_durable import Acknowledged
from tests.live.test_semi_passive import SEMI_PASSIVE, await_states

KILLS = 3
FILE = "history.db"


def can_own_a_directory() -> bool:
    """Whether a process may have mounts of its own here, as root or in a user namespace."""
    options = ["--mount"] if os.geteuid() == 0 else ["--mount", "--user"]
    return not subprocess.run(["unshare", *options, "true"], capture_output=True).returncode


pytestmark = pytest.mark.skipif(not can_own_a_directory(), reason="needs mount namespaces")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """With a database that has a row of an earlier time."""
    directory = tmp_path / "data"
    directory.mkdir()
    with sqlite3.connect(directory / "seed.db") as database:
        database.execute("CREATE TABLE old (word TEXT)")
        database.execute("INSERT INTO old VALUES ('kept')")
    return directory


class OneRequest:
    """Speaks HTTP on a new connection each time."""

    def __init__(self, port: int) -> None:
        self._port = port

    def add(self, who: str, number: int, amount: int) -> dict[str, Any]:
        speaker = HttpSpeaker(self._port)
        try:
            return speaker.add(who, number, amount)
        finally:
            speaker.close()

    def close(self) -> None: ...


def rows(path: Path, query: str) -> list[tuple[Any, ...]]:
    with sqlite3.connect(path) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return database.execute(query).fetchall()


def await_rest(run: ReplicatedRun) -> None:
    """Until all replicas have performed the same."""

    def rests(group: dict[str, Any]) -> bool:
        return len({each["performed"] for each in statuses(run, group)}) == 1

    run.await_whole()
    run.until("come to rest", rests)


def assert_all_have(run: ReplicatedRun, names: list[str], entries: list[Entry], data: Path) -> None:
    """Their databases are equal, byte for byte, and every request that was answered is in them."""
    copies = [run.directory.data / name for name in names]
    assert len({(copy / FILE).read_bytes() for copy in copies}) == 1
    for copy in copies:
        history = rows(copy / FILE, "SELECT who, number, amount FROM history ORDER BY sequence")
        assert history == [entry.request for entry in entries]
        assert rows(copy / "seed.db", "SELECT word FROM old") == [("kept",)]
    assert [path.name for path in data.iterdir()] == ["seed.db"], "the directory itself is untouched"


def test_each_replica_has_its_own_and_all_are_equal(
    tmp_path_factory: pytest.TempPathFactory, data: Path
) -> None:
    """Without states: a joiner writes everything again."""
    words, home = ["sqlite_http.py", str(data)], tmp_path_factory.mktemp("h")
    more = ("--data", str(data), "--checkpoints", "none")
    with replicated(home, "sqlite", words, more=more) as run:
        clients = Clients(CLIENTS, lambda: HttpSpeaker(run.port))
        for _ in range(KILLS):
            clients.await_progress(BETWEEN_KILLS)
            run.kill_primary()
        clients.await_progress(BETWEEN_KILLS)
        entries = clients.stop()
        await_rest(run)
    assert_all_have(run, ["replica-1", "replica-2", "replica-3"], entries, data)
    assert_journals_hold(run)


def test_a_joiner_gets_it_with_the_state(tmp_path_factory: pytest.TempPathFactory, data: Path) -> None:
    words, home = ["sqlite_http.py", str(data), "close"], tmp_path_factory.mktemp("h")
    more = ("--data", str(data))
    with replicated(home, "sqlite-hooks", words, checkpoint_log_kb=LOG_KB, more=more) as run:
        clients = Clients(2, lambda: OneRequest(run.port))
        for _ in range(JOINS):
            await_dropped(run, "hooks")
            run.kill_primary()
        clients.await_progress(BETWEEN_KILLS)
        entries = clients.stop()
        await_rest(run)
        log = said(run)
    assert log.count("bytes of state by hooks") >= JOINS
    assert_all_have(run, ["replica-1", "replica-2", "replica-3"], entries, data)
    assert_journals_hold(run)


def test_semi_passive_backups_hold_it_with_the_state(
    tmp_path_factory: pytest.TempPathFactory, data: Path
) -> None:
    """With a write-ahead log, and what is in it and not in the database yet."""
    words, home = ["sqlite_http.py", str(data), "close", "wal"], tmp_path_factory.mktemp("h")
    more = (*SEMI_PASSIVE, "--data", str(data))
    with replicated(home, "sqlite-passive", words, checkpoint_log_kb=LOG_KB, more=more) as run:
        clients = Clients(2, lambda: OneRequest(run.port))
        for _ in range(KILLS):
            clients.await_progress(BETWEEN_KILLS)
            await_states(run)
            run.kill_primary()
        clients.await_progress(BETWEEN_KILLS)
        entries = clients.stop()
        group = run.await_whole()
        primary = [each["name"] for each in group["members"] if each["role"] == "primary"]
        log = said(run)
    assert log.count("begins the program with what it holds") == KILLS
    assert_all_have(run, primary, entries, data)
    assert_journals_hold(run)


def test_it_goes_on_from_disk(tmp_path_factory: pytest.TempPathFactory, data: Path) -> None:
    """All replicas are killed at once: the files follow from the history."""
    words, home = ["sqlite_http.py", str(data)], tmp_path_factory.mktemp("h")
    first = ReplicatedRun(home, "sqlite-disk", words, more=("--durable", "--data", str(data)))
    try:
        first.await_whole()
        clients = Acknowledged(partial(HttpSpeaker, first.port), "")
        clients.await_some()
    except BaseException:
        first.end()
        raise
    first.kill_all()
    clients.join()
    more = ("--restore", "--data", str(data))
    again = ReplicatedRun(home, "sqlite-disk", words, port=first.port, more=more)
    try:
        again.await_whole()
        speaker = HttpSpeaker(again.port)
        history = speaker.dump()["history"]
        speaker.close()
    finally:
        again.end()
    for who, last in clients.numbers.items():
        numbers = [number for name, number, _ in history if name == who]
        assert numbers == list(range(1, len(numbers) + 1))
        assert last <= len(numbers) <= last + 1


def test_what_a_lost_group_had_written_is_kept(tmp_path_factory: pytest.TempPathFactory, data: Path) -> None:
    """All replicas are killed at once, and there is no history: the group begins anew, beside the copies."""
    words, home = ["sqlite_http.py", str(data)], tmp_path_factory.mktemp("h")
    with replicated(home, "sqlite-lost", words, more=("--data", str(data))) as run:
        clients = Acknowledged(partial(HttpSpeaker, run.port), "")
        clients.await_some()
        group = run.await_whole()
        for member in group["members"]:
            send_signal(member["pid"], signal.SIGKILL, parent=group["supervisor_pid"])
        clients.join()
        run.until("begin anew", lambda group: list(run.directory.data.glob("lost-*")))
        run.await_whole()
        speaker = HttpSpeaker(run.port)
        assert speaker.dump()["history"] == []
        speaker.close()
    counts = [
        dict(rows(copy, "SELECT who, count(*) FROM history GROUP BY who"))
        for copy in run.directory.data.glob(f"lost-*/replica-*/{FILE}")
    ]
    for who, last in clients.numbers.items():
        assert last <= max(count.get(who, 0) for count in counts) <= last + 1


def test_copies_of_an_earlier_run_are_not_overwritten(tmp_path: Path, data: Path) -> None:
    home = tmp_path / "h"
    left = home / "left" / "data" / "replica-1"
    left.mkdir(parents=True)
    program = command_of(["sqlite_http.py", str(data)], 1)
    finished = ended_run(home, "--plain", "--group", "left", "--data", str(data), "--", *program)
    assert finished.returncode == 2
    assert "data-of-an-earlier-run" in finished.stderr
    assert not (left.parent / SEED).exists()
