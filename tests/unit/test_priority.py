"""Who joins steps back, and comes forward when it has caught up, when it is needed, or after a while."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from llft import originals
from llft.core.standing import BACKUP, PRIMARY, PROPOSING
from llft.identifiers import NO_BIRTH, NO_VIEW
from llft.journal.record import Record, RoleChanged, Stamp, Suspected
from llft.runtime import priority
from llft.runtime.priority import (
    BACK,
    BESIDE,
    FORWARD,
    FURTHER,
    NEARER,
    PATIENCE_NS,
    STARVED_NS,
    Behind,
    Priority,
    is_privileged,
    step_back,
)

HAS_AUTOGROUPS = os.path.exists("/proc/self/autogroup")
STAMP = Stamp(0, 1, NO_BIRTH, NO_VIEW)
NEEDED = [
    Suspected(STAMP, NO_BIRTH, "timeout"),
    RoleChanged(STAMP, PROPOSING, ""),
    RoleChanged(STAMP, PRIMARY, ""),
]


class Kernel:
    """A file in the place of the kernel's."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._path = path
        self.refusal, self.is_privileged = 0, True
        self.said: list[str] = []
        path.write_text("/autogroup-7 nice 5\n")
        monkeypatch.setattr(originals, "open_fd", self._open)
        monkeypatch.setattr(priority, "_getsid", lambda pid: pid or os.getpid())
        monkeypatch.setattr(priority, "is_privileged", lambda: self.is_privileged)

    def _open(self, path: str, flags: int) -> int:
        assert path in ("/proc/self/autogroup", "/proc/7777/autogroup")
        if flags & os.O_WRONLY and self.refusal:
            raise OSError(self.refusal, os.strerror(self.refusal))
        return os.open(self._path, flags | os.O_TRUNC if flags & os.O_WRONLY else flags)

    @property
    def nice(self) -> int:
        return int(self._path.read_text().split()[-1])

    @property
    def is_back(self) -> bool:
        return self.nice != 0


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    return Kernel(tmp_path / "autogroup", monkeypatch)


def test_it_comes_forward_when_it_has_caught_up(kernel: Kernel) -> None:
    joiner = Priority(kernel.said.append)
    joiner.tend(caught_up=False)
    assert joiner.is_back
    assert kernel.is_back
    joiner.tend(caught_up=True)
    assert not joiner.is_back
    assert not kernel.is_back
    assert kernel.said[0].startswith("comes forward")
    assert kernel.said[0].endswith("it has caught up")


@pytest.mark.parametrize("record", NEEDED, ids=["suspects", "proposes", "is primary"])
def test_it_comes_forward_at_once_when_it_is_needed(kernel: Kernel, record: Record) -> None:
    joiner = Priority(kernel.said.append)
    joiner.take(RoleChanged(STAMP, BACKUP, "accepted"))
    assert kernel.is_back
    joiner.take(record)
    assert not joiner.is_back
    assert not kernel.is_back


def test_it_does_not_stay_back_for_ever(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    now_ns = originals.monotonic_ns()
    joiner = Priority(kernel.said.append)
    monkeypatch.setattr(originals, "monotonic_ns", lambda: now_ns)
    places = []
    while joiner.is_back:
        now_ns += STARVED_NS // 2
        joiner.tend(caught_up=False)
        places.append(kernel.nice)
    half = len(places) // 2
    assert places[: half - 1] == [FURTHER] * (half - 1)
    assert places[half:-1] == [BACK] * (len(places) - half - 1)
    assert places[-1] == 0
    assert abs(len(places) - 2 * PATIENCE_NS // (STARVED_NS // 2)) <= 1


def test_who_gets_too_little_comes_nearer_at_once(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    now_ns = originals.monotonic_ns()
    monkeypatch.setattr(originals, "monotonic_ns", lambda: now_ns)
    joiner = Priority(kernel.said.append)
    now_ns += STARVED_NS
    joiner.tend(caught_up=False)
    assert kernel.nice == FURTHER
    now_ns += STARVED_NS + 1
    joiner.tend(caught_up=False)
    joiner.tend(caught_up=False)
    assert (joiner.is_back, kernel.nice) == (True, BACK)


def test_a_process_that_works_for_it_is_brought_nearer(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ns = originals.monotonic_ns()
    kernel.refusal = errno.EAGAIN
    behind = Behind(7777)
    kernel.refusal = 0
    behind.tend()
    assert kernel.nice == FURTHER, "it tries again"
    monkeypatch.setattr(originals, "monotonic_ns", lambda: now_ns + 2 * PATIENCE_NS)
    behind.tend()
    assert kernel.nice == BACK


def test_who_failed_to_join_goes_no_further_back_in_any_life(kernel: Kernel) -> None:
    joiner = Priority(kernel.said.append)
    assert kernel.nice == FURTHER
    joiner.start_anew(as_image=True)
    assert kernel.nice == BACK
    joiner = Priority(kernel.said.append)
    assert kernel.nice == FURTHER
    joiner.start_anew(as_image=False)
    for as_image in (True, False, True):
        assert kernel.nice == NEARER
        joiner = Priority(kernel.said.append)
        joiner.tend(caught_up=False)
        assert (joiner.is_back, kernel.nice) == (True, NEARER)
        joiner.tend(caught_up=True)
        assert kernel.nice == 0
        joiner.start_anew(as_image=as_image)


def test_it_tries_again_when_the_kernel_was_asked_too_often(kernel: Kernel) -> None:
    joiner = Priority(kernel.said.append)
    kernel.refusal = errno.EAGAIN
    joiner.take(RoleChanged(STAMP, PRIMARY, ""))
    assert joiner.is_back
    assert kernel.said == []
    kernel.refusal = 0
    joiner.tend(caught_up=False)
    assert not joiner.is_back
    assert kernel.said[0].endswith("it is needed")


def test_it_says_once_that_it_is_refused(kernel: Kernel) -> None:
    joiner = Priority(kernel.said.append)
    kernel.refusal = errno.EACCES
    joiner.tend(caught_up=True)
    joiner.tend(caught_up=True)
    assert joiner.is_back
    assert len(kernel.said) == 1
    assert "Permission denied" in kernel.said[0]


def test_who_is_not_back_is_left_alone(kernel: Kernel) -> None:
    kernel.refusal = errno.ENOENT
    assert not step_back()
    with open(originals.open_fd("/proc/self/autogroup", os.O_RDWR), "w") as file:
        file.write("/autogroup-7 nice 0\n")
    joiner = Priority(kernel.said.append)
    joiner.tend(caught_up=True)
    assert not joiner.is_back
    assert kernel.said == []


@pytest.mark.skipif(not HAS_AUTOGROUPS, reason="the kernel has no autogroups")
def test_only_a_session_of_ones_own_steps_back() -> None:
    text = (
        "from llft.runtime.priority import Priority, place, step_back\n"
        "print(place(), step_back(), place())\n"
        "Priority(lambda text: None).tend(caught_up=True)\n"
        "print(place())"
    )
    for own, expected in ((True, "0 True 5\n0\n"), (False, "0 False 0\n0\n")):
        done = subprocess.run(
            [sys.executable, "-c", text], capture_output=True, text=True, start_new_session=own, check=True
        )
        assert done.stdout == expected


def test_a_backup_that_keeps_up_lets_its_primary_come_first(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until it is needed, or falls behind: then it is in front for a while."""
    now_ns = originals.monotonic_ns()
    monkeypatch.setattr(originals, "monotonic_ns", lambda: now_ns)
    backup = Priority(kernel.said.append)
    backup.tend(caught_up=True, follows=True)
    assert kernel.nice == FORWARD, "it has joined"
    for in_front in (lambda: backup.take(NEEDED[-1]), lambda: backup.tend(caught_up=False, follows=True)):
        backup.tend(caught_up=True, follows=True)
        assert not backup.is_back, "it was in front just now"
        now_ns += PATIENCE_NS
        backup.tend(caught_up=False, follows=True)
        assert kernel.nice == FORWARD
        backup.tend(caught_up=True, follows=True)
        backup.take(NEEDED[0])
        assert (backup.is_back, kernel.nice) == (True, BESIDE), "nor for a suspicion, which takes it no time"
        in_front()
        assert (backup.is_back, kernel.nice) == (False, FORWARD)
    assert len(kernel.said) == 1


def test_one_that_may_not_come_forward_at_any_time_stays_in_front(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel.is_privileged = False
    now_ns = originals.monotonic_ns() + PATIENCE_NS
    founder = Priority(kernel.said.append)
    founder.tend(caught_up=True)
    monkeypatch.setattr(originals, "monotonic_ns", lambda: now_ns)
    for _ in range(3):
        now_ns += PATIENCE_NS
        founder.tend(caught_up=True, follows=True)
        assert kernel.nice == FORWARD


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("Name:\tpython\nCapEff:\t000001ffffffffff\nCapBnd:\t0\n", True),
        ("CapEff:\t0000000000000000\nCapBnd:\t000001ffffffffff\n", False),
        ("CapEff:\tnonsense\n", False),
        ("Name:\tpython\n", False),
    ],
)
def test_who_is_privileged_is_read_of_the_kernel(
    status: str, expected: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "status").write_text(status)
    monkeypatch.setattr(originals, "open_fd", lambda path, flags: os.open(tmp_path / "status", flags))
    assert is_privileged() is expected


def test_a_primary_is_in_front(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever became of its record, and though the kernel was asked too often."""
    now_ns = originals.monotonic_ns() + PATIENCE_NS
    founder = Priority(kernel.said.append)
    founder.tend(caught_up=True)
    monkeypatch.setattr(originals, "monotonic_ns", lambda: now_ns)
    now_ns += PATIENCE_NS
    founder.tend(caught_up=True, follows=True)
    assert kernel.nice == BESIDE
    kernel.refusal = errno.EAGAIN
    founder.take(RoleChanged(STAMP, PRIMARY, ""))
    assert founder.is_back
    kernel.refusal = 0
    founder.tend(caught_up=True)
    assert (founder.is_back, kernel.nice) == (False, FORWARD)
    founder.tend(caught_up=True)
    assert kernel.nice == FORWARD
