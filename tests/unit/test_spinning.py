"""Looking for datagrams before sleeping, and no longer where it is in vain."""

from __future__ import annotations

from typing import Any

import pytest

from llft.runtime.spinning import PAYS_NS, SLEEPS_AT_LEAST, SLEEPS_AT_MOST, Spinning

pytestmark = pytest.mark.reference  # a stand-in for the poller
LIMIT_NS, WAIT_NS = 50_000, 5_000_000
LOOK_NS = 1_000


class Network:
    """Something is there after so many looks; to be woken takes so long."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, after: int) -> None:
        self.now_ns, self.after, self.wakes_after_ns = 0, after, LIMIT_NS
        self.looks = self._looks = 0
        self.sleeps: list[int] = []
        monkeypatch.setattr("llft.originals.monotonic_ns", lambda: self.now_ns)

    def poll(self, wait_ns: int) -> bool:
        if wait_ns:
            self.sleeps.append(wait_ns)
            self.now_ns += self.wakes_after_ns
            self._looks = 0
            return True
        self.looks += 1
        self._looks += 1
        self.now_ns += LOOK_NS
        found = self._looks >= self.after
        if found:
            self._looks = 0
        return found


@pytest.fixture
def near(monkeypatch: pytest.MonkeyPatch) -> Any:
    return Network(monkeypatch, after=5)


@pytest.fixture
def far(monkeypatch: pytest.MonkeyPatch) -> Any:
    return Network(monkeypatch, after=10**9)


def looks_of(network: Any, spinning: Spinning, times: int) -> int:
    before = network.looks
    for _ in range(times):
        spinning.poll(network, WAIT_NS)
    return int(network.looks - before)


def one_that_tries(network: Any) -> Spinning:
    """With the next wait."""
    spinning = Spinning(LIMIT_NS)
    assert looks_of(network, spinning, SLEEPS_AT_LEAST - 1) == 0, "first it finds out what sleeping costs"
    network.sleeps.clear()
    return spinning


def test_what_comes_soon_is_found_without_sleeping(near: Any) -> None:
    spinning = one_that_tries(near)
    assert looks_of(near, spinning, 100) == 500
    assert near.sleeps == []


def test_without_the_option_it_sleeps_at_once(near: Any) -> None:
    assert looks_of(near, Spinning(), 1000) == 0


def test_it_looks_for_a_bounded_time_then_sleeps_for_the_rest(far: Any) -> None:
    spinning = one_that_tries(far)
    assert looks_of(far, spinning, 1) == LIMIT_NS // LOOK_NS + 2
    assert far.sleeps == [WAIT_NS - LIMIT_NS]


def test_never_beyond_the_next_deadline(far: Any) -> None:
    spinning = one_that_tries(far)
    spinning.poll(far, 3 * LOOK_NS)
    assert far.looks == 1 + 3 + 1 + 1, "and a last one instead of a sleep"


def test_in_vain_again_and_again_it_looks_more_and_more_rarely(far: Any) -> None:
    spinning = one_that_tries(far)
    in_vain = LIMIT_NS // LOOK_NS + 2
    assert looks_of(far, spinning, 1) == in_vain
    between = 2 * SLEEPS_AT_LEAST
    while between < SLEEPS_AT_MOST:
        assert looks_of(far, spinning, between - 1) == 0
        assert looks_of(far, spinning, 1) == in_vain
        between *= 2
    assert looks_of(far, spinning, 3 * SLEEPS_AT_MOST) == 3 * in_vain, "and never more rarely than that"


def test_what_comes_soon_again_is_looked_for_again(far: Any) -> None:
    spinning = one_that_tries(far)
    looks_of(far, spinning, 1)
    far.after = 2
    assert looks_of(far, spinning, 2 * SLEEPS_AT_LEAST) == 2
    assert looks_of(far, spinning, 100) == 200


def test_what_is_found_late_is_slept_for(far: Any) -> None:
    """It would be there whenever one looked, and to look for it costs more than to sleep."""
    far.wakes_after_ns = 2 * PAYS_NS
    spinning = one_that_tries(far)
    far.after = late = PAYS_NS // LOOK_NS + 5
    assert looks_of(far, spinning, 1) == late
    assert looks_of(far, spinning, 1000) < 40 * late


def test_what_comes_sooner_to_one_that_sleeps_is_slept_for(near: Any) -> None:
    """Who looks keeps the core from whoever is to answer."""
    near.wakes_after_ns = 3 * LOOK_NS
    spinning = one_that_tries(near)
    assert looks_of(near, spinning, 1) == 5
    assert looks_of(near, spinning, 1000) < 40 * 5


def test_one_that_is_late_does_not_end_it(near: Any) -> None:
    spinning = one_that_tries(near)
    looks_of(near, spinning, 100)
    near.after = 10**9
    looks_of(near, spinning, 1)
    near.after, sleeps = 5, len(near.sleeps)
    assert looks_of(near, spinning, 100) == 500
    assert len(near.sleeps) == sleeps


def test_what_is_there_already_says_nothing(near: Any) -> None:
    """Else one's own words, which come back, would make it seem that others answer."""
    near.after = 1
    spinning = one_that_tries(near)
    assert looks_of(near, spinning, 10 * SLEEPS_AT_LEAST) == 10
    assert len(near.sleeps) == 10 * (SLEEPS_AT_LEAST - 1)
