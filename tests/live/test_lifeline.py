"""The lifeline: a death on one's own host is told by the kernel, once, to everybody, and nothing else is."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from llft.identifiers import BirthId
from llft.runtime.native.lifeline import LIVING, STOPPED, Lifeline
from llft.runtime.priority import FURTHER
from tests.live.lifeline_holder import HOST_ID

Holder = subprocess.Popen[bytes]
PATIENCE_S = 10.0


@pytest.fixture
def hold(tmp_path: Path) -> Iterator[Callable[[], Holder]]:
    holders: list[Holder] = []

    def start() -> Holder:
        command = [sys.executable, "-m", "tests.live.lifeline_holder", str(tmp_path)]
        holder = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        holders.append(holder)
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        return holder

    yield start
    for holder in holders:
        holder.kill()
        holder.communicate()


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Lifeline:
    """This process's own. One in a life."""
    return Lifeline(str(tmp_path_factory.mktemp("own")), BirthId(HOST_ID, os.getpid(), 1))


@pytest.fixture
def watcher(line: Lifeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lifeline:
    assert line.missing == ""
    monkeypatch.setattr(line, "_directory", str(tmp_path))
    return line


def birth(holder: Holder) -> BirthId:
    return BirthId(HOST_ID, holder.pid, 1)


def told(line: Lifeline, wait_s: float = PATIENCE_S) -> list[BirthId]:
    ready, _, _ = select.select([line.fileno()], [], [], wait_s)
    return line.take_dead() if ready else []


def told_in_all(line: Lifeline, count: int) -> list[BirthId]:
    found: list[BirthId] = []
    until_s = time.monotonic() + PATIENCE_S
    while len(found) < count and time.monotonic() < until_s:
        found += told(line, 0.1)
    return found


def test_a_killed_process_is_told_once_and_its_file_goes(
    hold: Callable[[], Holder], watcher: Lifeline, tmp_path: Path
) -> None:
    holder = hold()
    assert watcher.watch(birth(holder))
    assert told(watcher, 0.1) == []
    holder.kill()
    assert told(watcher) == [birth(holder)]
    assert told(watcher, 0.1) == []
    assert list(tmp_path.iterdir()) == []


def test_all_who_watch_are_told(hold: Callable[[], Holder], watcher: Lifeline) -> None:
    holder = hold()
    for _ in range(5):
        assert watcher.watch(birth(holder))
    holder.kill()
    assert told_in_all(watcher, 5) == [birth(holder)] * 5


def test_a_process_that_becomes_another_program_has_ended(
    hold: Callable[[], Holder], watcher: Lifeline
) -> None:
    holder = hold()
    assert watcher.watch(birth(holder))
    assert holder.stdin is not None
    holder.stdin.write(b"\n")
    holder.stdin.flush()
    assert told(watcher) == [birth(holder)]
    assert holder.poll() is None


def test_a_stopped_process_lives(hold: Callable[[], Holder], watcher: Lifeline) -> None:
    holder = hold()
    assert watcher.watch(birth(holder))
    holder.send_signal(signal.SIGSTOP)
    assert told(watcher, 0.3) == []
    holder.kill()
    assert told(watcher) == [birth(holder)]


def test_who_is_stopped_is_known_and_who_goes_on_is_not_taken_for_it(
    hold: Callable[[], Holder], watcher: Lifeline
) -> None:
    holder = hold()
    assert not watcher.state(birth(holder)), "it is not watched"
    assert watcher.watch(birth(holder))
    assert watcher.state(birth(holder)) in LIVING
    holder.send_signal(signal.SIGSTOP)
    until(lambda: watcher.state(birth(holder)) == STOPPED)
    holder.send_signal(signal.SIGCONT)
    until(lambda: watcher.state(birth(holder)) in LIVING)
    holder.send_signal(signal.SIGSTOP)
    until(lambda: watcher.state(birth(holder)) == STOPPED)
    holder.kill()
    until(lambda: watcher.state(birth(holder)) not in (STOPPED, *LIVING))
    assert told(watcher) == [birth(holder)]


@pytest.mark.parametrize("wrong", ["_own_began", "_namespace"])
def test_a_stopped_process_is_not_taken_for_another_with_its_number(
    hold: Callable[[], Holder], watcher: Lifeline, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    """One that began at another time, or is numbered in another namespace."""
    holder = hold()
    if wrong == "_namespace":
        monkeypatch.setattr(watcher, "_namespace", watcher._namespace + 1)
    assert watcher.watch(birth(holder))
    if wrong == "_own_began":
        watcher._began[birth(holder)] += 1
    holder.send_signal(signal.SIGSTOP)
    until(lambda: state(holder) == "T")
    assert not watcher.state(birth(holder))
    holder.kill()
    assert told(watcher) == [birth(holder)]


def test_whoever_holds_a_line_here_can_be_watched(
    hold: Callable[[], Holder], watcher: Lifeline, tmp_path: Path
) -> None:
    holders = [hold(), hold()]
    for name in ("life-", "life-5", "life-5-x", "life-5-5-5", "life-5-5.new", "other-5-5"):
        (tmp_path / name).touch()
    watcher.watch_all()
    watcher.watch_all()
    for holder in holders:
        holder.kill()
        assert told(watcher) == [birth(holder)], "once"
    assert told(watcher, 0.1) == []
    shutil.rmtree(tmp_path)
    watcher.watch_all()


@pytest.mark.parametrize("willing", [False, True])
def test_who_was_killed_steps_back_and_who_goes_of_itself_is_left_alone(
    hold: Callable[[], Holder], watcher: Lifeline, willing: bool
) -> None:
    holder = hold()
    if nice_of(holder) is None:
        pytest.skip("this kernel has no autogroups")
    assert watcher.watch(birth(holder))
    assert holder.stdin is not None
    if willing:
        holder.stdin.write(b"willing\n")
        holder.stdin.flush()
    else:
        holder.kill()
    assert told(watcher) == [birth(holder)]
    if willing:
        time.sleep(0.1)
        assert nice_of(holder) == 0
    else:
        until(lambda: nice_of(holder) == FURTHER)


def until(holds: Callable[[], bool]) -> None:
    until_s = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < until_s
        time.sleep(0.005)


def state(holder: Holder) -> str:
    return Path(f"/proc/{holder.pid}/stat").read_text().rpartition(")")[2].split()[0]


def nice_of(holder: Holder) -> int | None:
    """Of its session. It is there until somebody has waited for it."""
    try:
        words = Path(f"/proc/{holder.pid}/autogroup").read_text().split()
    except OSError:
        return None
    return int(words[-1]) if words else None


def mounted(place: Path) -> bool:
    """A disk of one page; False: it may not be had here."""
    command = ["mount", "-t", "tmpfs", "-o", "size=4k,mode=700", "none", str(place)]
    return subprocess.run(command, capture_output=True, timeout=20).returncode == 0


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """Has names left, but no blocks."""
    place = tmp_path / "full"
    place.mkdir()
    if not mounted(place):
        pytest.skip("a disk to fill needs root: mount was refused")
    try:
        (place / "everything").write_bytes(b"x" * 4096)
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True, timeout=20)


def test_on_a_full_disk_there_is_no_line_and_the_process_lives(full_disk: Path) -> None:
    command = [sys.executable, "-m", "tests.live.lifeline_holder", str(full_disk)]
    held = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=20)
    assert held.stdout == b"No space left on device\n"
    assert [each.name for each in full_disk.iterdir()] == ["everything"]


def test_what_is_no_line_is_not_watched(watcher: Lifeline, tmp_path: Path) -> None:
    assert not watcher.watch(BirthId(HOST_ID, 5, 5)), "there is no file"
    for number, content in enumerate((b"", b"x", b"x" * 10_264, b"\0" * 10_264), start=6):
        (tmp_path / f"life-{number}-1").write_bytes(content)
        assert not watcher.watch(BirthId(HOST_ID, number, 1)), content[:10]
    assert not watcher.watch(BirthId(HOST_ID + 1, os.getpid(), 1)), "another host's process"
    assert told(watcher, 0.1) == []


def test_a_line_has_room_for_many_and_says_when_it_is_full(
    hold: Callable[[], Holder], watcher: Lifeline
) -> None:
    holder = hold()
    watched = [watcher.watch(birth(holder)) for _ in range(260)]
    assert watched == [True] * 256 + [False] * 4
    holder.kill()
    assert told_in_all(watcher, 256) == [birth(holder)] * 256


def test_who_goes_of_itself_does_not_keep_its_hurry(tmp_path: Path) -> None:
    """What it becomes by exec has the policy of the thread that was told of a death: it is taken back before.
    Where it may not be given at all there is nothing to take back."""
    text = (
        "import os, sys\n"
        "from llft.identifiers import BirthId\n"
        "from llft.runtime.native.lifeline import Lifeline\n"
        "life = Lifeline(sys.argv[1], BirthId(1, os.getpid(), 1))\n"
        "life.listen()\n"
        "try:\n"
        "    os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))\n"
        "except PermissionError:\n"
        "    pass\n"
        "life.close()\n"
        "print(os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK)"
    )
    done = subprocess.run(
        [sys.executable, "-c", text, str(tmp_path)], capture_output=True, text=True, check=True, timeout=30
    )
    assert done.stdout.strip() == str(os.SCHED_OTHER)
