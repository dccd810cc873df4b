"""The preamble: what goes in comes out, and garbage is the peer's fault."""

from __future__ import annotations

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llft.errors import MisuseError, PeerError
from llft.wire.preamble import NO_ADDRESS, PREAMBLE_BYTES, Address, Answer, Inbound, Outbound, pack, unpack

fours = st.binary(min_size=4, max_size=4).map(lambda packed: socket.inet_ntop(socket.AF_INET, packed))
sixes = st.one_of(
    st.binary(min_size=16, max_size=16), st.lists(st.sampled_from((0, 0, 1, 255)), min_size=16, max_size=16)
).map(lambda packed: socket.inet_ntop(socket.AF_INET6, bytes(packed)))
addresses = st.builds(Address, fours | sixes.filter(lambda host: "." not in host), st.integers(0, 65_535))
preambles = st.one_of(
    st.builds(Inbound, addresses, addresses),
    st.builds(Outbound, addresses),
    st.builds(Answer, st.integers(0, 4095), addresses | st.just(NO_ADDRESS)),
)


@given(preambles)
def test_round_trip(preamble: Inbound | Outbound | Answer) -> None:
    data = pack(preamble)
    assert len(data) == PREAMBLE_BYTES
    assert unpack(data) == preamble


@given(st.binary(min_size=0, max_size=100))
def test_garbage_is_a_peer_error(data: bytes) -> None:
    with pytest.raises(PeerError):
        unpack(data)


@given(preambles, st.integers(0, PREAMBLE_BYTES - 1), st.integers(1, 255))
def test_damage_is_a_peer_error_or_another_preamble(
    preamble: Inbound | Outbound | Answer, position: int, flip: int
) -> None:
    data = bytearray(pack(preamble))
    data[position] ^= flip
    try:
        damaged = unpack(bytes(data))
    except PeerError:
        return
    assert pack(damaged) == bytes(data)


NAMES = ("example.com", "1.2.3", "1.2.3.256", "1::2::3", "1:2", "g::1", "", "1:::2", "-1::")


@pytest.mark.parametrize("host", NAMES)
def test_names_are_refused(host: str) -> None:
    with pytest.raises(MisuseError):
        pack(Outbound(Address(host, 80)))
