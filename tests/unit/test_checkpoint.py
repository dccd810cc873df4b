"""The checkpoint of a program, packed for the State message."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llft.errors import PeerError
from llft.identifiers import BirthId
from llft.past.birth_log import BirthLog
from llft.past.checkpoint import CARRIED_LOG_BYTES, Checkpoint, pack, unpack

BIRTH = BirthId(1, 2, 3)


def of(log: BirthLog) -> Checkpoint:
    return Checkpoint(BIRTH, log.length, log.digest, [1], [2], {"options": {"program": "a.py"}})


def test_a_short_log_comes_with_it() -> None:
    log = BirthLog(b"past" * 100)
    assert unpack(pack(of(log), log)) == of(log)._replace(log=b"past" * 100)


def test_a_long_log_is_only_named() -> None:
    log = BirthLog(bytes(CARRIED_LOG_BYTES + 1))
    assert unpack(pack(of(log), log)) == of(log)
    assert of(log).is_of(bytes(CARRIED_LOG_BYTES + 1))
    assert not of(log).is_of(bytes(CARRIED_LOG_BYTES))


def test_a_log_that_is_not_the_named_one_is_refused() -> None:
    log, other = BirthLog(b"one"), BirthLog(b"two")
    with pytest.raises(PeerError, match="checkpoint_digest_differs"):
        unpack(pack(of(log), other))


@given(st.binary(max_size=200))
def test_any_bytes_are_a_checkpoint_or_a_peer_error(data: bytes) -> None:
    with pytest.raises(PeerError):
        unpack(data)


def test_damage_is_found() -> None:
    log = BirthLog(b"past" * 100)
    packed = pack(of(log), log)
    for place in range(packed.index(b"\n") + 1, len(packed)):
        damaged = packed[:place] + bytes((packed[place] ^ 1,)) + packed[place + 1 :]
        with suppress(PeerError):
            assert unpack(damaged).log == b"past" * 100  # the trailing checksum of zlib is not looked at
