"""Programs whose threads run side by side (D-16, ordered mode): a second interpreter does the same again.

Both are disturbed at random (`interpose_ordered_world`), so what is not ordered differs between them.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from llft.wire.order import MUTEX
from tests.unit.test_interpose_replay import KEYS, LINES, PROGRAMS, REQUESTS, answers, run

WORLD = "tests.unit.interpose_ordered_world"
REPETITIONS = 3


def run_twice(
    directory: Path, name: str, conversations: list[list[str]]
) -> tuple[tuple[str, str], dict[str, Any]]:
    """Both texts: what threads print stands in no order."""
    words = [str(PROGRAMS / name)]
    text, live = run("live", directory / "run", conversations, words, world=WORLD)
    again, replayed = run("replay", directory / "run", conversations, words, world=WORLD)
    assert replayed["output"] == live["output"]
    return (text, again), live


@pytest.mark.parametrize("repetition", range(REPETITIONS))
def test_threads_side_by_side(tmp_path: Path, repetition: int) -> None:
    (text, again), live = run_twice(tmp_path, "side_by_side.py", [])
    assert again == text
    for expected in (
        "hello t3",
        "to the outside",
        "pool [(0, 'ThreadPoolExecutor-0_",
        "timer True",
        "served {",
        "poll True b'now'",
        "signal [10]",
        "a signal from another thread'): its moment is nobody's order: run it with --threads token",
        "(name='setitimer')",
        "(module='asyncio')",
    ):
        assert expected in text
    assert text.endswith("all right\n")
    assert live["statistics"]["mutexes_held"] < 8, "mutexes of waits that are over stay behind"


@pytest.mark.parametrize(
    ("name", "conversations", "expected"),
    [
        ("kv_locked.py", KEYS, "OK 4 Thread-"),
        ("web.py", REQUESTS, "'thing 19'"),
        ("selecting.py", LINES, "dd;"),
    ],
)
def test_servers_answer_alike(
    tmp_path: Path, name: str, conversations: list[list[str]], expected: str
) -> None:
    _, live = run_twice(tmp_path, name, conversations)
    assert expected in answers(live)


def test_what_is_not_ordered_is_noticed(tmp_path: Path) -> None:
    """The comparison can fail: without a lock, threads read and write in other orders the second time."""
    conversations = [[f"{letter}\n"] * 60 for letter in "abcdef"]
    run("live", tmp_path / "run", conversations, [str(PROGRAMS / "kv_racy.py")], world=WORLD)

    def replay_often() -> None:
        """It may be the same by chance, once."""
        for _ in range(5):
            run("replay", tmp_path / "run", conversations, [str(PROGRAMS / "kv_racy.py")], world=WORLD)

    with pytest.raises(AssertionError, match=r"output differs|replica_left_the_order|stuck"):
        replay_often()


def test_a_lock_that_is_left_out_is_noticed(tmp_path: Path) -> None:
    words = [str(PROGRAMS / "kv_locked.py")]
    _, live = run("live", tmp_path / "run", KEYS, words, world=WORLD)
    own = [index for index, entry in enumerate(live["log"]) if entry[0] == MUTEX and entry[2] == 1]
    del live["log"][own[len(own) // 2]]
    Path(tmp_path / "run.live").write_bytes(pickle.dumps(live))
    with pytest.raises(AssertionError, match=r"replica_left_the_order|stuck"):
        run("replay", tmp_path / "run", KEYS, words, world=WORLD)
