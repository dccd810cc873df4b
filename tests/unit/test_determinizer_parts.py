"""Mutex table, scheduler, socket outcomes, snapshot values: the small machines."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llft.core.determinizer.mutex import MutexTable
from llft.core.determinizer.operations import (
    BAD_DESCRIPTOR,
    REFUSED,
    RESET,
    WOULD_BLOCK,
    Connect,
    Failure,
    Select,
)
from llft.core.determinizer.scheduler import TokenScheduler
from llft.core.determinizer.snapshot import dump, from_plain, load, to_plain
from llft.core.determinizer.sockets import SocketOutcome, decode_outcome, encode_outcome
from llft.errors import InvariantError, PeerError, UnsupportedOperationError
from llft.identifiers import ConnectionId


def test_a_mutex_goes_to_who_waited_first() -> None:
    table = MutexTable()
    assert table.claim(5, 1)
    assert not table.claim(5, 2)
    table.wait(5, 2)
    table.wait(5, 3)
    table.wait(5, 2)
    assert table.waiting_count == 2
    assert table.release(5) == 2
    assert not table.claim(5, 4), "handed over, not freed"
    assert table.owner(5) == 2
    assert table.release(5) == 3
    assert table.release(5) is None
    assert not table.is_held(5)
    assert table.held_count == 0


def test_the_scheduler_counts_decisions_and_calls() -> None:
    scheduler = TokenScheduler(quantum_calls=2)
    scheduler.enqueue(("start", 1, None))
    assert scheduler.pick() == ("start", 1, None)
    assert scheduler.pick_count == 1
    assert not scheduler.spend()
    assert scheduler.spend()
    with pytest.raises(InvariantError):
        scheduler.wake(2, None)
    with pytest.raises(InvariantError):
        scheduler.pick()
    scheduler.stop()
    assert scheduler.wake(2, "operation") == 1
    assert scheduler.pick() == ("retry", 2, "operation")
    assert scheduler.calls == 0


numbers = st.integers(0, 2**32 - 1)
outcomes: st.SearchStrategy[SocketOutcome] = st.one_of(
    st.sampled_from([WOULD_BLOCK, REFUSED, RESET, BAD_DESCRIPTOR]),
    st.builds(Failure, st.text(max_size=20), st.booleans()),
    st.builds(ConnectionId, numbers, numbers, numbers),
    st.lists(numbers, max_size=10).map(tuple),
    numbers,
    st.just(True),
)


@given(outcomes)
def test_socket_outcomes_survive(outcome: SocketOutcome) -> None:
    decoded = decode_outcome(encode_outcome(outcome))
    assert decoded == outcome
    assert type(decoded) is type(outcome)


@given(st.binary(max_size=20))
def test_any_bytes_are_an_outcome_or_a_peer_error(data: bytes) -> None:
    with contextlib.suppress(PeerError):
        decode_outcome(data)


def test_frequent_failures_take_one_byte() -> None:
    assert len(encode_outcome(WOULD_BLOCK)) == 1


plain = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.text(max_size=5),
        st.binary(max_size=5),
        st.just(Failure("EPIPE", False)),
        st.just(Select((1, 2), -1)),
        st.just(Connect(3)),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.one_of(st.integers(), st.text(max_size=3)), inner, max_size=3),
    ),
    max_leaves=10,
)


@given(plain)
def test_plain_values_survive_a_checkpoint(value: object) -> None:
    restored = load(dump({"value": value}))["value"]
    assert restored == value
    assert type(restored) is type(value)
    assert from_plain(to_plain(value)) == value


def test_what_has_no_plain_form_is_refused() -> None:
    with pytest.raises(UnsupportedOperationError):
        to_plain(object())


@pytest.mark.parametrize(
    "data", [b"", b"[1]", b"7", b'{"x": 1}', b'{"o": ["NoSuch"]}', b'{"b": "zz"}', b"\xff"]
)
def test_a_malformed_state_is_a_peer_error(data: bytes) -> None:
    with pytest.raises(PeerError):
        load(data)
