"""The MAC that processors have instructions for: the published vectors, and all ways to it (plain Python, C
without instructions, with some for a block and for four) are one function."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llft.identifiers import BirthId
from llft.runtime.transport import gmac
from llft.runtime.transport.envelope import (
    BIRTH,
    DATAGRAM_PURPOSE,
    HEADER_BYTES,
    Channel,
    Opener,
    Sealer,
    Version,
    gmac_keys,
)
from llft.runtime.transport.keys import MAC_BYTES, KeyRing, derived_key, keyed_hash
from tests.unit.compiled_parts import compiled_part

Tag = Callable[[bytes, bytes, bytes], bytes]
"""Of key, number and data."""
WAYS = (0, 1, 2)
NAMES = ("without instructions", "by some for a block", "by some for four")
SIZES = (*range(301), 511, 512, 513, 1023, 1024, 1399, 1400, 1432, 4096, 61_392)
ANN, BOB = BirthId(1, 100, 1000), BirthId(2, 200, 2000)
KEYS = KeyRing({3: b"k" * 32})
LARGEST = 61_440


def in_python(key: bytes, number: bytes, data: bytes) -> bytes:
    return gmac.Gmac(key).tag(number, data)


@pytest.fixture(scope="module")
def parts() -> Any:
    return compiled_part("llft.runtime.transport.datagrams")


@pytest.fixture(params=(None, *WAYS), ids=("in Python", *NAMES))
def tag(request: pytest.FixtureRequest) -> Tag:
    if request.param is None:
        return in_python
    found = request.getfixturevalue("parts")
    if request.param > found.GMAC_BEST:
        pytest.skip("this processor has no such instructions")
    return lambda key, number, data: found.gmac(key, number, data, request.param)


# -- FIPS 197, the GCM specification of McGrew and Viega, and NIST's validation suite ----------------


@pytest.mark.parametrize(
    ("key", "block", "found"),
    [
        (
            "000102030405060708090a0b0c0d0e0f",
            "00112233445566778899aabbccddeeff",
            "69c4e0d86a7b0430d8cdb78070b4c55a",
        ),
        (
            "2b7e151628aed2a6abf7158809cf4f3c",
            "3243f6a8885a308d313198a2e0370734",
            "3925841d02dc09fbdc118597196a0b32",
        ),
        ("00" * 16, "00" * 16, "66e94bd4ef8a2c3b884cfa59ca342b2e"),
    ],
)
def test_aes(key: str, block: str, found: str) -> None:
    assert gmac.Cipher(bytes.fromhex(key)).encipher(bytes.fromhex(block)).hex() == found


@pytest.mark.parametrize(
    ("key", "data", "first", "second", "found"),
    [
        (
            "66e94bd4ef8a2c3b884cfa59ca342b2e",
            "0388dace60b6a392f328c2b971b2fe78",
            *(0, 128),
            "f38cbb1ad69223dcc3457ae5b6b0f885",
        ),
        (
            "b83b533708bf535d0aa6e52980d53b78",
            "feedfacedeadbeeffeedfacedeadbeefabaddad2" + 12 * "00" + "42831ec2217774244b7221b784d0d49c"
            "e3aa212f2c02a4e035c17e2329aca12e21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091",
            *(160, 480),
            "698e57f70e6ecc7fd9463b7260a9ae5f",
        ),
        ("b83b533708bf535d0aa6e52980d53b78", "cafebabefacedbad", 0, 64, "c43a83c4c4badec4354ca984db252f7d"),
        (
            "b83b533708bf535d0aa6e52980d53b78",
            "9313225df88406e555909c5aff5269aa6a7a9538534f7da1e4c303d2a318a728c3c0c95156809539fcf0e2429a6b5254"
            "16aedbf5a0de6a57a637b39b",
            *(0, 480),
            "3bab75780a31c059f83d2a44752f9864",
        ),
    ],
)
def test_ghash(key: str, data: str, first: int, second: int, found: str) -> None:
    assert gmac.Hash(bytes.fromhex(key)).of(bytes.fromhex(data), first, second) == int(found, 16)


@pytest.mark.parametrize(
    ("key", "number", "data", "found"),
    [
        ("00" * 16, "00" * 12, "", "58e2fccefa7e3061367f1d57a4e7455a"),
        (
            "cf063a34d4a9a76c2c86787d3f96db71",
            "113b9785971864c83b01c787",
            "",
            "72ac8493e3a5228b5d130a69d2510e42",
        ),
        (
            "77be63708971c4e240d1cb79e8d77feb",
            "e0e00f19fed7ba0136a797f3",
            "7a43ec1d9c0a5a78a0b16533a6213cab",
            "209fcc8d3675ed938e9c7166709dd946",
        ),
        (
            "7674e09a02011df80cb66abf646c4448",
            "c9191abd553ca614e09b3784",
            "3911e9620a863cb435a74305be2d104d569a6e4ef796de23e8ec3b79b013244713dd4a2b1d3310de6ca74ecf51c44a2c3"
            "de573c8dfb6cf8c3c2763aa0add823b4426374591869ab5a5c08252d81dad73384d8965eb4a810be4e1",
            "92cf1e6b89d22b456bd8e1d63d",
        ),
        (
            "dcee093edc5724d30c8f46dc3f8dccfd",
            "69",
            "0b1df0fd5c5ea793d8d5ad9427c316704e77f9bd",
            "29be0d2f94ab5aec58f3d6e47784ee",
        ),
        ("3275cab187425ec9f607215ba3e2f780", "81", "", "86cc4cc6111d10254244e84d"),
        (
            "8d06bed41844c9522d252098244e4381",
            "b1a1dc553e571d68537ff95badcfe86d8be01a7077e089b46c824156a80dcaa4683a0d31ed28589214611ee81e6ad544e"
            "bc874f8a72099948d3f34fa453f8ea52498a9bb469d41c2e081c011e3da9ed193946ee1440cdf27250ce2431ad1444e3"
            "22980b04b53e3195821e4865ec74664dcafba910a4114b5d470bf99a4b349cf",
            "adf79c70baa2113997204234b6bbb246c974df8ac004fcd551f0d9c7bf45782bd5679905b1720800ba01bf0877fd719b",
            "3c3f648ad9557e5a0db0ba41feda",
        ),
    ],
)
def test_gmac_of_short_and_long_numbers(tag: Tag, key: str, number: str, data: str, found: str) -> None:
    """Some of the published tags are cut."""
    got = tag(bytes.fromhex(key), bytes.fromhex(number), bytes.fromhex(data))
    assert len(got) == gmac.BLOCK_BYTES
    assert got.hex().startswith(found)


# -- one function ------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
def test_all_makers_agree_on_every_length(tag: Tag, size: int) -> None:
    chance = random.Random(size)
    key, data = chance.randbytes(16), chance.randbytes(size)
    for number_size in (HEADER_BYTES, 12, chance.randrange(1, 300)):
        number = chance.randbytes(number_size)
        assert tag(key, number, data) == in_python(key, number, data)


@settings(max_examples=200)
@given(st.binary(min_size=16, max_size=16), st.binary(min_size=1, max_size=80), st.binary(max_size=1500))
def test_compiled_is_as_in_python(parts: Any, key: bytes, number: bytes, data: bytes) -> None:
    expected = in_python(key, number, data)
    for way in WAYS:
        assert parts.gmac(key, number, data, way) == expected


def test_a_key_of_another_length_is_refused(parts: Any) -> None:
    for size in (0, 15, 17, 32):
        with pytest.raises(ValueError, match="16 bytes"):
            parts.gmac(bytes(size), b"number", b"data", 2)


@pytest.mark.parametrize("way", WAYS, ids=NAMES)
@pytest.mark.parametrize("size", SIZES[:-1:7] + SIZES[-1:])
def test_datagrams_are_sealed_alike(parts: Any, way: int, size: int) -> None:
    sealer = Sealer(KEYS, 7, ANN, 4000, Version.GMAC)
    datagrams = parts.Datagrams(
        sending_fd=-1,
        largest=LARGEST,
        prefix=sealer.prefix,
        own_birth=BIRTH.pack(*ANN),
        keys={3: KEYS.key(3)},
        person=DATAGRAM_PURPOSE,
        gmac_keys=gmac_keys(KEYS),
        gmac_most=way,
    )
    for channel in (*Channel, *Channel):
        data = random.Random(size).randbytes(size)
        assert datagrams.seal(data, channel) == sealer.seal(data, channel)


# -- what the MAC is of ------------------------------------------------------------------------------


def test_it_stays_what_it_is() -> None:
    """Lanes and versions that differ in it do not hear each other."""
    sealed = Sealer(KEYS, 7, ANN, 4000, Version.GMAC).seal(b"data", Channel.TO_PROCESS)
    assert sealed[:HEADER_BYTES].hex() == "f20300000007000000010000006400000000000003e80fa08000000000000001"
    assert sealed[-MAC_BYTES:].hex() == "5db63d84d375f3a73bd2ba3920c7d345"


def test_its_keys_tell_nothing_of_the_other_macs_key() -> None:
    key = b"k" * 32
    both = gmac_keys(KEYS)[3]
    assert len(both) == gmac.BOTH_KEYS_BYTES
    assert both[:16] != both[16:]
    others = (key, keyed_hash(key, DATAGRAM_PURPOSE).digest(), keyed_hash(key, b"llft-gmac").digest())
    assert all(half not in others for half in (both[:16], both[16:]))
    assert derived_key(key, b"another", 32) != both
    assert derived_key(b"K" * 32, b"llft-gmac", 32) != both


def test_without_a_key_there_is_none() -> None:
    assert gmac_keys(KeyRing()) == {}
    assert Sealer(KeyRing(), 7, ANN, version=Version.GMAC).prefix[0] == Version.BLAKE2B


PLANTED: dict[str, Callable[[gmac.Gmac, gmac.Cipher, bytes], bytes]] = {
    "not enciphered": lambda inner, outer, body: inner.tag(body[:HEADER_BYTES], body),
    "by the first key": lambda inner, outer, body: gmac.Cipher(FIRST).encipher(
        inner.tag(body[:HEADER_BYTES], body)
    ),
    "another number": lambda inner, outer, body: outer.encipher(inner.tag(body[24:HEADER_BYTES], body)),
    "no number": lambda inner, outer, body: outer.encipher(inner.tag(bytes(12), body)),
    "of the data alone": lambda inner, outer, body: outer.encipher(
        inner.tag(body[:HEADER_BYTES], body[HEADER_BYTES:])
    ),
    "cut": lambda inner, outer, body: outer.encipher(inner.tag(body[:HEADER_BYTES], body))[:12] + bytes(4),
}
FIRST, SECOND = gmac_keys(KEYS)[3][:16], gmac_keys(KEYS)[3][16:]


@pytest.mark.parametrize("planted", PLANTED)
def test_a_mac_that_is_made_otherwise_is_refused(planted: str) -> None:
    body = Sealer(KEYS, 7, ANN, 4000, Version.GMAC).seal(b"some data", Channel.TO_GROUP)[:-MAC_BYTES]
    inner, outer = gmac.Gmac(FIRST), gmac.Cipher(SECOND)
    right = outer.encipher(inner.tag(body[:HEADER_BYTES], body))
    assert Opener(KEYS, BOB).open(body + right) is not None
    opener = Opener(KEYS, BOB)
    assert opener.open(body + PLANTED[planted](inner, outer, body)) is None
    assert opener.dropped["wrong_key"] == 1
