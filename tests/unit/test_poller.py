"""Waiting with and without patience, on real descriptors."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest

from llft import originals
from llft.instant import MS, SECOND
from llft.runtime.poller import Poller

LONG_NS = 20 * SECOND


@pytest.fixture
def pipes() -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    both = os.pipe(), os.pipe()
    yield both
    for fd in (*both[0], *both[1]):
        os.close(fd)


def test_who_rests_hears_what_is_urgent_and_nothing_else(
    pipes: tuple[tuple[int, int], tuple[int, int]],
) -> None:
    (network, to_network), (lifeline, to_lifeline) = pipes
    poller = Poller()
    poller.watch([network], urgent=[lifeline])
    os.write(to_network, b"x")
    assert poller.poll(0)
    before_ns = time.monotonic_ns()
    poller.rest(30 * MS)
    assert time.monotonic_ns() - before_ns >= 29 * MS
    assert poller.take_ready() == {network}
    os.write(to_lifeline, b"x")
    before_ns = time.monotonic_ns()
    poller.rest(LONG_NS)
    assert time.monotonic_ns() - before_ns < LONG_NS // 2
    assert lifeline in poller.take_ready(), "it is served next"


def test_who_rests_is_woken(pipes: tuple[tuple[int, int], tuple[int, int]]) -> None:
    poller = Poller()
    poller.watch([pipes[0][0]])
    poller.wake()
    before_ns = time.monotonic_ns()
    poller.rest(LONG_NS)
    assert time.monotonic_ns() - before_ns < LONG_NS // 2


def test_what_is_watched_no_more_is_not_heard(pipes: tuple[tuple[int, int], tuple[int, int]]) -> None:
    (network, to_network), (lifeline, to_lifeline) = pipes
    poller = Poller()
    poller.watch([network], urgent=[lifeline])
    poller.watch([network])
    os.write(to_lifeline, b"x")
    assert not poller.poll(0)
    os.write(to_network, b"x")
    assert poller.poll(0)


def test_a_wake_that_another_thread_waits_for_is_left_to_it() -> None:
    poller = Poller()
    poller.awaited = True
    poller.wake()
    for _ in range(3):
        assert poller.poll(0)
        assert poller.woken
    poller.awaited = False
    assert poller.poll(0)
    assert not poller.poll(0)


@pytest.mark.reference
def test_a_wake_for_who_waits_elsewhere_is_not_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though it comes between a look at whether there is one, and the end of an earlier one."""
    poller, read = Poller(), originals.eventfd_read

    def read_late(fd: int) -> int:
        poller.awaited = True
        poller.wake()
        return read(fd)

    poller.wake()
    monkeypatch.setattr(originals, "eventfd_read", read_late)
    assert poller.poll(0)
    assert poller.poll(0)
    monkeypatch.setattr(originals, "eventfd_read", read)
    poller.awaited = False
    assert poller.poll(0)
    assert not poller.poll(0)
