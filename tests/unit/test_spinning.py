"""Looking for datagrams before sleeping, and no longer where it is in vain."""

from __future__ import annotations

from typing import Any

import pytest

from llft.runtime.spinning import IN_VAIN_AT_MOST, SLEEPS_BETWEEN, Spinning

pytestmark = pytest.mark.reference  # a stand-in for the poller
LIMIT_NS, WAIT_NS = 50_000, 5_000_000
LOOK_NS = 1_000


class Network:
    """Something is there after so many looks; a sleep always ends with something."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, after: int) -> None:
        self.now_ns, self.after = 0, after
        self.looks = 0
        self.sleeps: list[int] = []
        monkeypatch.setattr("llft.originals.monotonic_ns", lambda: self.now_ns)

    def poll(self, wait_ns: int) -> bool:
        if wait_ns:
            self.sleeps.append(wait_ns)
            return True
        self.looks += 1
        self.now_ns += LOOK_NS
        return self.looks % self.after == 0


@pytest.fixture
def near(monkeypatch: pytest.MonkeyPatch) -> Any:
    return Network(monkeypatch, after=5)


@pytest.fixture
def far(monkeypatch: pytest.MonkeyPatch) -> Any:
    return Network(monkeypatch, after=10**9)


def test_what_comes_soon_is_found_without_sleeping(near: Any) -> None:
    spinning = Spinning(LIMIT_NS)
    for _ in range(100):
        spinning.poll(near, WAIT_NS)
    assert near.sleeps == []
    assert near.looks == 500


def test_without_the_option_it_sleeps_at_once(near: Any) -> None:
    Spinning().poll(near, WAIT_NS)
    assert (near.looks, near.sleeps) == (0, [WAIT_NS])


def test_it_looks_for_a_bounded_time_then_sleeps_for_the_rest(far: Any) -> None:
    Spinning(LIMIT_NS).poll(far, WAIT_NS)
    assert far.looks == LIMIT_NS // LOOK_NS
    assert far.sleeps == [WAIT_NS - LIMIT_NS]


def test_never_beyond_the_next_deadline(far: Any) -> None:
    Spinning(LIMIT_NS).poll(far, 3 * LOOK_NS)
    assert far.looks == 3 + 1, "and a last one instead of a sleep"


def test_in_vain_again_and_again_it_looks_only_now_and_then(far: Any) -> None:
    spinning = Spinning(LIMIT_NS)
    for _ in range(IN_VAIN_AT_MOST + 3 * SLEEPS_BETWEEN):
        spinning.poll(far, WAIT_NS)
    assert far.looks == (IN_VAIN_AT_MOST + 3) * LIMIT_NS // LOOK_NS
    far.after = 1
    for _ in range(SLEEPS_BETWEEN + 10):
        spinning.poll(far, WAIT_NS)
    before = len(far.sleeps)
    spinning.poll(far, WAIT_NS)
    assert len(far.sleeps) == before, "it was found by looking, so it looks again"
