"""Whole programs, interposed: what a live run did, a second interpreter does again, byte for byte.

The order log is its only input: it has another process id, other addresses, another clock and other random
bytes.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "tests" / "live" / "programs"
BOUND_S = 60

LINES = [["a\n"] * 4, ["b\n"] * 3, ["c\n"] * 3, ["d\n", "dd\n"]]
KEYS = [
    ["SET a 1\n", "GET a\n", "DUMP\n", "SET c 3\n", "DUMP\n"],
    ["SET b 2\n", "DUMP\n", "GET c\n"],
    ["SET d 2\n", "DUMP\n", "GET c\n"],
]
REQUESTS = [["GET /1 HTTP/1.1\r\n\r\n", "GET /2 HTTP/1.1\r\n\r\n"], ["GET /3 HTTP/1.1\r\n\r\n"]]


def run(
    mode: str,
    file: Path,
    conversations: list[list[str]],
    words: list[str],
    *,
    world: str = "tests.unit.interpose_world",
) -> tuple[str, dict[str, Any]]:
    command = [sys.executable, "-m", world, mode, str(file)]
    cache = str(file.parents[1] / "pycache")
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPYCACHEPREFIX": cache}
    done = subprocess.run(
        [*command, json.dumps(conversations), *words],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout, pickle.loads(Path(f"{file}.{mode}").read_bytes())


def run_twice(
    directory: Path, name: str, conversations: list[list[str]], arguments: list[str] | None = None
) -> tuple[str, dict[str, Any]]:
    words = [str(PROGRAMS / name), *(arguments or [])]
    text, live = run("live", directory / "run", conversations, words)
    again, replayed = run("replay", directory / "run", conversations, words)
    assert again == text
    assert replayed["output"] == live["output"]
    return text, live


def answers(live: dict[str, Any]) -> str:
    return b"".join(data for written in live["output"].values() for _, data in written).decode()


@pytest.mark.parametrize(
    ("name", "conversations", "arguments", "expected"),
    [
        ("kv_locked.py", KEYS, [], "OK 4 Thread-"),
        ("kv_racy.py", LINES, [], "11 "),
        ("web.py", REQUESTS, [], "'thing 19'"),
        ("aio_echo.py", LINES, [], "DD ["),
        ("selecting.py", LINES, ["8700", "epoll"], "dd;"),
        ("selecting.py", LINES, ["8700", "poll"], "dd;"),
        ("selecting.py", LINES, ["8700", "select"], "dd;"),
    ],
)
def test_servers_answer_alike(
    tmp_path: Path, name: str, conversations: list[list[str]], arguments: list[str], expected: str
) -> None:
    _, live = run_twice(tmp_path, name, conversations, arguments)
    assert expected in answers(live)


def test_threads_signals_and_connections(tmp_path: Path) -> None:
    text, _ = run_twice(tmp_path, "workout.py", [])
    for expected in (
        " 19 ",
        "turn 2",
        "timed False False",
        "spun",
        "signal 10\n  signal 10\n  alarm",
        "group b'hello group'",
        "outside b'hello outside' ('192.0.2.1', 5000)",
        "refused 111\n  refused 111",
        "own b'to myself' True",
        "pipe through a file",
        "line b'at last\\n'\n  closed None",
        "RefusedError not_replicable (name='posix.fork')",
        "RefusedImportError",
    ):
        assert expected in text


def test_interval_timers_ring_alike_and_os_exit_ends_alike(tmp_path: Path) -> None:
    words = ["wait\n", "once\n", "say\n", "again\n", "wait\n", "end\n"]
    _, live = run_twice(tmp_path, "ticking.py", [words])
    told = dict(line.split() for line in answers(live).splitlines())
    assert int(told["say"]) == int(told["once"]) < int(told["end"])
    assert live["reason"] == "ended with 0"
    assert [kind for written in live["output"].values() for kind, _ in written][-1] == "close"


def test_traps(tmp_path: Path) -> None:
    text, _ = run_twice(tmp_path, "traps.py", [])
    assert text.endswith("all right\n")


def test_another_order_log_is_noticed(tmp_path: Path) -> None:
    """The comparison can fail: a log whose clock readings were left out is no log of this program."""
    words = [str(PROGRAMS / "web.py")]
    _, live = run("live", tmp_path / "run", REQUESTS, words)
    live["log"] = [entry for entry in live["log"] if entry[0] != live["log"][-1][0]]
    Path(tmp_path / "run.live").write_bytes(pickle.dumps(live))
    with pytest.raises(AssertionError, match=r"replica_left_the_order|stuck"):
        run("replay", tmp_path / "run", REQUESTS, words)
