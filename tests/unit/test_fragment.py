"""Fragments: cut, lost, repeated, out of order, and never more memory than agreed."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llft.errors import MisuseError, PeerError
from llft.wire.fragment import FRAGMENT_CHARGE_MIN, FRAGMENT_COUNT_MAX, Reassembly, slices


def test_an_empty_payload_is_one_empty_slice() -> None:
    assert slices(b"", 10) == [b""]


@given(st.binary(max_size=500), st.integers(1, 60))
def test_slices_are_full_but_the_last(payload: bytes, limit: int) -> None:
    pieces = slices(payload, limit)
    assert b"".join(pieces) == payload
    assert all(len(piece) == limit for piece in pieces[:-1])
    assert len(pieces) == 1 or 0 < len(pieces[-1]) <= limit


def test_impossible_cuts_are_misuse() -> None:
    with pytest.raises(MisuseError):
        slices(b"abc", 0)
    with pytest.raises(MisuseError):
        slices(bytes(FRAGMENT_COUNT_MAX + 1), 1)
    with pytest.raises(MisuseError):
        Reassembly(0, 1)


@given(st.lists(st.binary(min_size=1, max_size=300), min_size=1, max_size=5), st.integers(0, 1 << 32))
def test_any_arrival_order_with_duplicates(payloads: list[bytes], seed: int) -> None:
    randomness = random.Random(seed)
    reassembly = Reassembly(1 << 20, 100)
    arrivals = [
        (key, index, len(pieces), piece)
        for key, payload in enumerate(payloads)
        for pieces in [slices(payload, 50)]
        for index, piece in enumerate(pieces)
    ]
    randomness.shuffle(arrivals)
    found = {}
    for key, index, count, piece in arrivals:
        whole = reassembly.add(key, index, count, piece)
        if whole is not None:
            found[key] = whole
        elif randomness.random() < 0.3:
            assert reassembly.add(key, index, count, piece) is None
    assert found == dict(enumerate(payloads))
    assert reassembly.statistics()["unfinished_messages"] == 0
    assert reassembly.statistics()["unfinished_bytes"] == 0


def test_missing_fragments_are_named() -> None:
    reassembly = Reassembly(10_000, 10)
    assert reassembly.missing("m") == ()
    reassembly.add("m", 1, 4, b"b")
    reassembly.add("m", 3, 4, b"d")
    assert reassembly.missing("m") == (0, 2)
    reassembly.drop("m")
    reassembly.drop("m")
    assert reassembly.missing("m") == ()
    assert reassembly.statistics()["unfinished_bytes"] == 0


def test_an_inconsistent_fragment_is_the_peers_fault() -> None:
    reassembly = Reassembly(10_000, 10)
    reassembly.add("m", 0, 3, b"a")
    for index, count in ((1, 4), (0, 1), (3, 3), (-1, 3), (0, 0), (0, 65536)):
        with pytest.raises(PeerError):
            reassembly.add("m", index, count, b"x")
    assert reassembly.missing("m") == (1, 2)


def test_the_oldest_message_is_given_up_beyond_the_bounds() -> None:
    reassembly = Reassembly(limit_bytes=1000, limit_messages=2)
    for key in "abc":
        reassembly.add(key, 0, 2, b"x")
    assert [reassembly.missing(key) for key in "abc"] == [(), (1,), (1,)]
    reassembly.add("c", 1, 3 - 1, b"y")
    reassembly.add("d", 0, 2, bytes(900))
    assert reassembly.missing("b") == ()
    assert reassembly.missing("d") == (1,)
    assert reassembly.statistics()["dropped"] == 2


def test_many_tiny_fragments_are_bounded_too() -> None:
    reassembly = Reassembly(limit_bytes=100 * FRAGMENT_CHARGE_MIN, limit_messages=1000)
    for index in range(10_000):
        reassembly.add("m", index, 65535, b"")
    statistics = reassembly.statistics()
    assert statistics["peak_bytes"] <= 101 * FRAGMENT_CHARGE_MIN
    assert statistics["dropped"] > 0
