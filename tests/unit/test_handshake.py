"""The handshake of the service port: who has the key gets in, and only as whom it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llft.errors import PeerError
from llft.identifiers import BirthId
from llft.runtime.handshake import ClientHandshake, Handshake, Purpose, ServerHandshake
from llft.runtime.transport.keys import MAC_BYTES, KeyRing

ANN, BOB = BirthId(1, 10, 100), BirthId(2, 20, 200)
KEYS = KeyRing({1: b"a" * 32})


def client(
    keys: KeyRing = KEYS, group_id: int = 7, birth_id: BirthId = ANN, asks_for: BirthId = BOB
) -> ClientHandshake:
    return ClientHandshake(
        keys, group_id, birth_id, b"c" * 16, server_birth_id=asks_for, purpose=Purpose.LIVENESS
    )


def server(keys: KeyRing = KEYS) -> ServerHandshake:
    return ServerHandshake(keys, 7, BOB, b"s" * 16)


def converse(one: ClientHandshake, other: ServerHandshake, flipped_bit: int = -1) -> int:
    """Carries bytes to and fro, with one bit changed on the way; returns how many there were."""
    carried, sides = 0, (other, one)
    data = one.hello
    turn = 0
    while data:
        changed = bytearray(data)
        if 0 <= flipped_bit - 8 * carried < 8 * len(data):
            bit = flipped_bit - 8 * carried
            changed[bit // 8] ^= 1 << bit % 8
        carried += len(data)
        receiver: Handshake = sides[turn % 2]
        assert receiver.wanted == len(data)
        data = receiver.feed(bytes(changed))
        turn += 1
    return carried


LENGTH = converse(client(), server())


def test_both_know_each_other() -> None:
    one, other = client(), server()
    converse(one, other)
    assert one.established
    assert other.established
    assert (one.peer_birth_id, other.peer_birth_id) == (BOB, ANN)
    assert one.session_key() == other.session_key()
    assert one.wanted == other.wanted == 0


@given(st.integers(0, 8 * LENGTH - 1))
def test_a_changed_bit_is_noticed_by_whom_it_reaches(bit: int) -> None:
    one, other = client(), server()
    with pytest.raises(PeerError):
        converse(one, other, bit)
    assert not one.established
    confirmation = 8 * (LENGTH - MAC_BYTES)
    assert other.established is (bit >= confirmation), "the server is convinced by a whole proof alone"


@given(st.lists(st.binary(min_size=1, max_size=50), max_size=10))
def test_any_bytes_are_no_handshake(pieces: list[bytes]) -> None:
    other = server()
    try:
        for piece in pieces:
            other.feed(piece[: other.wanted])
    except PeerError:
        pass
    assert not other.established


@pytest.mark.parametrize(
    ("one", "condition"),
    [
        (client(keys=KeyRing({1: b"z" * 32})), "handshake_wrong_key"),
        (client(keys=KeyRing({2: b"a" * 32})), "handshake_wrong_key"),
        (client(keys=KeyRing()), "handshake_wrong_key"),
        (client(group_id=8), "handshake_other_group"),
        (client(birth_id=BOB), "handshake_other_group"),
        (client(asks_for=ANN), "handshake_other_process"),
    ],
)
def test_strangers_are_refused(one: ClientHandshake, condition: str) -> None:
    other = server()
    with pytest.raises(PeerError, match=condition):
        converse(one, other)
    assert not one.established
    assert not other.established


def test_a_server_that_only_repeats_is_refused() -> None:
    """Somebody without the key sends back what it was sent before."""
    first = client()
    challenge = server().feed(first.hello)
    other = ClientHandshake(KEYS, 7, ANN, b"d" * 16, server_birth_id=BOB, purpose=Purpose.LIVENESS)
    with pytest.raises(PeerError, match="handshake_wrong_key"):
        other.feed(challenge)
