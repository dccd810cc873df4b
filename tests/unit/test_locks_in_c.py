"""Locks of the compiled lane (`llft/dialogue/locks.c`): with them a program sees what it sees without."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from llft.interpose import counting, locks, passage
from tests.unit.compiled_parts import compiled_part

pytestmark = pytest.mark.reference

ALLOWANCE, TRYLOCK = 40, 9
METHODS = ("acquire", "release", "locked", "__enter__", "__exit__")
_quick: list[type] = []
"""C takes one type in a process."""


def alike() -> Any:
    """A type with the methods of a lock, in Python."""
    contents = {name: locks.Lock.__dict__[name] for name in (*METHODS, "__init__", "_wait", "_hand_over")}
    return type("Alike", (), {"__slots__": ("_held", "_owner", "_waiters"), **contents})


@pytest.fixture
def native() -> Iterator[Any]:
    part = compiled_part("llft.reading_on")
    yield part
    part.i_am(0)
    part.set_spent(0)


@pytest.fixture
def quick(native: Any) -> Any:
    if not _quick:
        _quick.append(alike())
        native.lock_for(_quick[0], ALLOWANCE, TRYLOCK)
    return _quick[0]


class Script:
    """What threads do with two locks, one after the other; none of them ever has to wait."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, native: Any, kind: Any) -> None:
        self.native, self.me = native, 1
        self.locks = [kind(), kind()]
        self.seen: list[object] = []
        native.set_spent(0)
        monkeypatch.setattr(locks, "ALLOWANCE", ALLOWANCE)
        monkeypatch.setattr(locks, "TRYLOCK", TRYLOCK)
        monkeypatch.setattr(counting, "spend", native.spend)
        monkeypatch.setattr(passage, "current", lambda: self.me)
        monkeypatch.setattr(passage, "used_up", lambda: self.seen.append("used up"))

    def go(self, seed: int, count: int) -> list[object]:
        draw = random.Random(seed)
        for _ in range(count):
            self.me = draw.choice([1, 1, 2, 0])
            self.native.i_am(self.me)
            one = draw.choice(self.locks)
            self.seen.append(self._do(draw.randrange(6), one))
            self.seen.append((self.native.spent(), [(each._held, each._owner) for each in self.locks]))
        return self.seen

    def _do(self, what: int, lock: Any) -> object:
        if what == 0:
            return lock.acquire(False)
        if what == 1:
            return lock.acquire(blocking=False)
        if what == 2:
            return lock.__enter__() if not lock._held else lock.__exit__(None, None, None)
        if what == 3:
            return lock.locked()
        if what == 4:
            return lock.acquire(True, -1) if not lock._held else lock.acquire(False, -1)
        try:
            return lock.release()
        except RuntimeError as error:
            return str(error)


@pytest.mark.parametrize("seed", range(8))
def test_they_do_and_count_what_those_in_python_do(
    monkeypatch: pytest.MonkeyPatch, native: Any, quick: Any, seed: int
) -> None:
    slowly = Script(monkeypatch, native, alike()).go(seed, 600)
    assert Script(monkeypatch, native, quick).go(seed, 600) == slowly
    assert slowly.count("used up") > 10


def test_whoever_waits_is_handed_the_lock(monkeypatch: pytest.MonkeyPatch, native: Any, quick: Any) -> None:
    script = Script(monkeypatch, native, quick)
    native.i_am(1)
    lock = script.locks[0]
    woken: list[int] = []

    def parked(left_ns: int) -> bool:
        script.me = 1
        native.i_am(1)
        lock.release()  # the one that has it, meanwhile
        script.me = 2
        native.i_am(2)
        return True

    monkeypatch.setattr(passage, "park", parked)
    monkeypatch.setattr(passage, "unpark", woken.append)
    assert lock.acquire()
    script.me = 2
    native.i_am(2)
    assert lock.acquire()
    assert woken == [2]
    assert (lock._held, lock._owner) == (True, 2)
    lock.release()
    assert not lock._held


def test_a_trylock_of_ones_own_lock_is_no_waiting(
    monkeypatch: pytest.MonkeyPatch, native: Any, quick: Any
) -> None:
    """So conditions find out whether they may be waited for, at each wait and at each notification."""
    lock = Script(monkeypatch, native, quick).locks[0]
    native.i_am(1)
    lock.acquire()
    assert not lock.acquire(False)
    assert native.spent() == 1
    native.i_am(2)
    assert not lock.acquire(False)
    assert native.spent() == 1 + TRYLOCK


def test_a_traced_program_sees_frames(monkeypatch: pytest.MonkeyPatch, native: Any, quick: Any) -> None:
    import sys

    lock = Script(monkeypatch, native, quick).locks[0]
    native.i_am(1)
    seen: list[str] = []
    sys.setprofile(lambda frame, event, argument: seen.append(f"{event} {frame.f_code.co_name}"))
    try:
        lock.acquire()
        lock.release()
    finally:
        sys.setprofile(None)
    assert "call acquire" in seen
    assert "call release" in seen
