"""The transport in C is the one in Python, byte for byte: what one seals the other opens, and both drop the
same for the same reasons."""

from __future__ import annotations

import itertools
import os
import random
import socket
import struct
from collections.abc import Iterator
from zlib import crc32

import pytest

from llft.identifiers import BirthId
from llft.lane.choice import in_use
from llft.runtime.transport import compiled_udp
from llft.runtime.transport.envelope import (
    BIRTH,
    DATAGRAM_PURPOSE,
    ENVELOPE_BYTES,
    HEADER_BYTES,
    MAC_BYTES,
    Channel,
    Opener,
    Sealer,
    Version,
    gmac_keys,
)
from llft.runtime.transport.keys import KeyRing
from llft.runtime.transport.senders import IDENTITY

ANN, BOB = BirthId(1, 100, 1000), BirthId(2, 200, 2000)
LARGEST = 61_440
UDP_SEGMENT = 103
RINGS = (KeyRing(), KeyRing({3: b"k" * 16}), KeyRing({1: b"a" * 32, 9: b"z" * 64}))
both_versions = pytest.mark.parametrize("version", Version)
WAYS = (0, 1, 2)
"""Of GMAC: without instructions, with some for a block, with some for four, as far as they are there."""
SIZES = (0, 1, 7, 8, 79, 80, 81, 95, 96, 97, 127, 128, 129, 1000, LARGEST - ENVELOPE_BYTES)

pytestmark = pytest.mark.skipif(
    in_use() == "reference", reason="the reference lane has none: make test runs this on the compiled one too"
)


def compiled(
    keys: KeyRing,
    own: BirthId,
    *,
    sends_as: Sealer,
    fd: int = -1,
    largest: int = LARGEST,
    gmac_most: int = WAYS[-1],
) -> object:
    return compiled_udp.Datagrams(
        sending_fd=fd,
        largest=largest,
        prefix=sends_as.prefix,
        own_birth=BIRTH.pack(*own),
        keys={number: keys.key(number) for number in keys.numbers()},
        person=DATAGRAM_PURPOSE,
        gmac_keys=gmac_keys(keys),
        gmac_most=gmac_most,
    )


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sending,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as hearing,
    ):
        for one in (sending, hearing):
            one.bind(("127.0.0.1", 0))
            one.setblocking(False)
        hearing.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        yield sending, hearing


@pytest.mark.parametrize("keys", RINGS, ids=("public", "one", "two"))
@pytest.mark.parametrize("channel", Channel)
@both_versions
def test_seals_the_same_bytes(keys: KeyRing, channel: Channel, version: Version) -> None:
    sealer = Sealer(keys, 7, ANN, 4000, version)
    datagrams = compiled(keys, ANN, sends_as=sealer)
    for size in SIZES:
        data = random.Random(size).randbytes(size)
        assert datagrams.seal(data, channel) == sealer.seal(data, channel)  # type: ignore[attr-defined]


@pytest.mark.parametrize("keys", RINGS, ids=("public", "one", "two"))
@both_versions
def test_sends_what_the_other_opens(
    keys: KeyRing, version: Version, pair: tuple[socket.socket, socket.socket]
) -> None:
    sending, hearing = pair
    datagrams = compiled(keys, ANN, sends_as=Sealer(keys, 7, ANN, 4000, version), fd=sending.fileno())
    opener = Opener(keys, BOB)
    for size in SIZES:
        data = os.urandom(size)
        datagrams.send(data, Channel.TO_GROUP, (hearing.getsockname(),))  # type: ignore[attr-defined]
        found = opener.open(hearing.recv(LARGEST + 1))
        assert found is not None
        assert found[1] == data
        assert found[0].birth_id == ANN


@both_versions
@pytest.mark.parametrize("way", WAYS)
def test_receives_many_at_once(version: Version, way: int, pair: tuple[socket.socket, socket.socket]) -> None:
    sending, hearing = pair
    keys, count = RINGS[1], 100
    sealer = Sealer(keys, 7, ANN, 4000, version)
    datagrams = compiled(keys, BOB, sends_as=Sealer(keys, 7, BOB, 1), gmac_most=way)
    sent = [os.urandom(random.Random(number).randrange(2000)) for number in range(count)]
    for data in sent:
        sending.sendto(sealer.seal(data, Channel.TO_GROUP), hearing.getsockname())
    got = datagrams.receive(hearing.fileno(), 60)  # type: ignore[attr-defined]
    assert len(got) == 60
    got += datagrams.receive(hearing.fileno(), 256)  # type: ignore[attr-defined]
    host, port = sending.getsockname()
    address = int.from_bytes(socket.inet_aton(host), "big") << 16 | port
    identity = IDENTITY.pack(7, *ANN, 4000)
    assert got == [(identity, 0, number, data, address) for number, data in enumerate(sent, 1)]
    assert datagrams.receive(hearing.fileno(), 256) == []  # type: ignore[attr-defined]


@pytest.mark.parametrize("keys", RINGS, ids=("public", "one", "two"))
@pytest.mark.parametrize("seed", range(40))
def test_both_drop_the_same(keys: KeyRing, seed: int, pair: tuple[socket.socket, socket.socket]) -> None:
    """Datagrams that were cut, lengthened or changed somewhere, or that are nobody's."""
    sending, hearing = pair
    chance = random.Random(seed)
    opener = Opener(keys, BOB)
    way = chance.choice(WAYS)
    datagrams = compiled(keys, BOB, sends_as=Sealer(keys, 7, BOB, 1), gmac_most=way)
    opened = []
    for number in range(30):
        whose = chance.choice((keys, keys, KeyRing({3: b"another key, 16"}), KeyRing({200: b"x" * 16})))
        sealer = Sealer(whose, 7, chance.choice((ANN, ANN, BOB)), number, chance.choice(list(Version)))
        sealed = bytearray(sealer.seal(chance.randbytes(chance.randrange(200)), chance.choice(list(Channel))))
        harm = chance.randrange(5)
        if harm == 0:
            sealed[chance.randrange(len(sealed))] ^= 1 << chance.randrange(8)
        elif harm == 1:
            del sealed[chance.randrange(len(sealed)) :]
        elif harm == 2:
            sealed += chance.randbytes(chance.randrange(1, 40))
        elif harm == 3 and chance.random() < 0.3:
            sealed = bytearray(chance.randbytes(chance.randrange(100)))
        sending.sendto(sealed, hearing.getsockname())
        found = opener.open(bytes(sealed))
        if found is not None:
            opened.append(found[1])
    got = datagrams.receive(hearing.fileno(), 256)  # type: ignore[attr-defined]
    assert [data for _, _, _, data, _ in got] == opened
    counts = datagrams.counts()  # type: ignore[attr-defined]
    assert {name: counts[name] for name in ("malformed", "wrong_key", "own")} == {
        name: opener.dropped[name] for name in ("malformed", "wrong_key", "own")
    }


@pytest.mark.parametrize("keys", RINGS, ids=("public", "one", "two"))
@pytest.mark.parametrize("seed", range(40))
def test_those_that_come_together_are_told_apart(
    keys: KeyRing, seed: int, pair: tuple[socket.socket, socket.socket]
) -> None:
    """As one message's do (UDP_GRO); here also of several senders, of which some have another key, and harmed
    ones among them."""
    sending, hearing = pair
    chance = random.Random(seed)
    opener, size = Opener(keys, BOB), chance.choice((1, 90, 128, 700, 1400))
    datagrams = compiled(keys, BOB, sends_as=Sealer(keys, 7, BOB, 1), largest=1500)
    assert datagrams.receive(hearing.fileno(), 1) == []  # type: ignore[attr-defined]
    others = (KeyRing({3: b"another key, 16"}), KeyRing({200: b"x" * 16}), KeyRing({9: b"z" * 64}))
    calm, opened, numbers = chance.choice((2, 10, 1000)), [], itertools.count()
    for _ in range(5):
        batch = []
        for _ in range(chance.randint(2, 30)):
            whose = chance.choice(others) if chance.randrange(calm) == 0 else keys
            version = chance.choice(list(Version))
            sealer = Sealer(whose, 7, BOB if chance.randrange(calm) == 0 else ANN, next(numbers), version)
            sealed = bytearray(sealer.seal(chance.randbytes(size), chance.choice(list(Channel))))
            if chance.randrange(calm) == 0:
                sealed[chance.randrange(len(sealed))] ^= 1 << chance.randrange(8)
            batch.append(bytes(sealed))
        batch[-1] = batch[-1][: chance.choice((len(batch[-1]), 20))]
        segment = (socket.IPPROTO_UDP, UDP_SEGMENT, struct.pack("H", len(batch[0])))
        sending.sendmsg([b"".join(batch)], [segment], 0, hearing.getsockname())
        opened += [found[1] for found in map(opener.open, batch) if found is not None]
    got = datagrams.receive(hearing.fileno(), 256)  # type: ignore[attr-defined]
    assert [data for _, _, _, data, _ in got] == opened
    counts = datagrams.counts()  # type: ignore[attr-defined]
    assert {name: counts[name] for name in ("malformed", "wrong_key", "own")} == {
        name: opener.dropped[name] for name in ("malformed", "wrong_key", "own")
    }


def test_a_channel_that_is_none_is_dropped(pair: tuple[socket.socket, socket.socket]) -> None:
    """Authentic, but by somebody newer than us."""
    sending, hearing = pair
    keys = RINGS[1]
    sealer = Sealer(keys, 7, ANN, 4000)
    body = sealer.prefix + (3 << 62 | 1).to_bytes(8, "big") + b"data"
    assert len(body) == HEADER_BYTES + 4
    sealed = body + sealer._mac(body)
    datagrams = compiled(keys, BOB, sends_as=Sealer(keys, 7, BOB, 1))
    sending.sendto(sealed, hearing.getsockname())
    assert datagrams.receive(hearing.fileno(), 256) == []  # type: ignore[attr-defined]
    assert datagrams.counts()["malformed"] == 1  # type: ignore[attr-defined]
    assert Opener(keys, BOB).open(sealed) is None


def test_a_crc_is_no_gmac(pair: tuple[socket.socket, socket.socket]) -> None:
    """What says that it has one, under the key that everybody has."""
    sending, hearing = pair
    keys = RINGS[0]
    body = bytes((Version.GMAC, 0)) + Sealer(keys, 7, ANN, 4000).seal(b"data", Channel.TO_GROUP)[2:-MAC_BYTES]
    sealed = body + crc32(body).to_bytes(4, "big") + b"llft, no key"
    datagrams, opener = compiled(keys, BOB, sends_as=Sealer(keys, 7, BOB, 1)), Opener(keys, BOB)
    sending.sendto(sealed, hearing.getsockname())
    assert datagrams.receive(hearing.fileno(), 256) == []  # type: ignore[attr-defined]
    assert opener.open(sealed) is None
    assert datagrams.counts()["wrong_key"] == opener.dropped["wrong_key"] == 1  # type: ignore[attr-defined]


def test_misuse_is_an_error(pair: tuple[socket.socket, socket.socket]) -> None:
    sending, hearing = pair
    datagrams = compiled(RINGS[1], ANN, sends_as=Sealer(RINGS[1], 7, ANN, 4000), fd=sending.fileno())
    to = (hearing.getsockname(),)
    for data, channel, addresses in (
        (bytes(LARGEST - ENVELOPE_BYTES + 1), 0, to),
        (b"", 3, to),
        (b"", -1, to),
        (b"", 0, (("nowhere.example", 5),)),
    ):
        with pytest.raises(ValueError, match=r"too large|no such channel|no IPv4"):
            datagrams.send(data, channel, addresses)  # type: ignore[attr-defined]
    with pytest.raises(OSError, match="Bad file descriptor"):
        datagrams.receive(987, 1)  # type: ignore[attr-defined]
    datagrams.close()  # type: ignore[attr-defined]
    for call in (lambda: datagrams.receive(hearing.fileno(), 1), lambda: datagrams.send(b"", 0, to)):  # type: ignore[attr-defined]
        with pytest.raises(RuntimeError, match="closed"):
            call()
    with pytest.raises(RuntimeError):
        datagrams.__init__(-1, 100, b"", b"", {}, b"")  # type: ignore[misc]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"gmac_keys": {}}, "none for GMAC"),
        ({"gmac_keys": {3: bytes(31)}}, "32 bytes"),
        ({"gmac_keys": {3: bytes(32), 4: bytes(32)}}, "number of a key"),
        ({"gmac_keys": {3: bytes(32), 0: bytes(32)}}, "number of a key"),
        ({"gmac_keys": {300: bytes(32)}}, "number of a key"),
        ({"prefix": bytes((0xF3, 3)) + bytes(22)}, "a version"),
        ({"prefix": bytes((Version.GMAC, 4)) + bytes(22)}, "a version"),
        ({"keys": {3: b"", 4: b"k" * 16}, "gmac_keys": {4: bytes(32)}}, "a version"),
    ],
)
def test_keys_and_prefixes_that_do_not_fit_are_refused(changed: dict[str, object], reason: str) -> None:
    fitting = {
        "keys": {3: b"k" * 16},
        "gmac_keys": {3: bytes(32)},
        "prefix": bytes((Version.GMAC, 3)) + bytes(22),
    }
    with pytest.raises(ValueError, match=reason):
        compiled_udp.Datagrams(
            sending_fd=-1, largest=1500, own_birth=bytes(16), person=DATAGRAM_PURPOSE, **(fitting | changed)
        )
