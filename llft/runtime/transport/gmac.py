"""The MAC that processors have instructions for: AES-GMAC, and its tag enciphered once more (D-15).

    MAC = AES-128(second key, GMAC(first key, number = the envelope's header, data = all before the MAC))

GMAC (NIST SP 800-38D) is sound only as long as no number is used for two contents: whoever has two such tags
can compute its hash key. Numbers of ours never are (`envelope`), as far as it is up to us; a virtual
machine that is put back to an earlier moment and goes on repeats them all the same. Of an enciphered tag
nobody learns anything but whether it is another one's equal (an "encrypted Wegman-Carter MAC"), so that
numbers that come again do no harm.

This is the reference, in Python alone: right, and a hundred times slower than `gmac.c`, which is why a
process that has no other seals with BLAKE2b, and opens both. Its tables are read at places that follow from
the key, which a process on the same processor might see in its cache; `gmac.c` reads none.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import reduce
from operator import getitem, xor
from typing import Final

BLOCK_BYTES: Final = 16
KEY_BYTES: Final = 16
BOTH_KEYS_BYTES: Final = 2 * KEY_BYTES

_PLAIN_NUMBER_BYTES: Final = 12
"""A number of this length is taken as it is, with a count behind it; of others it is the hash."""
_ROUNDS: Final = 10
_WORDS: Final = struct.Struct(">4I")
_MODULUS: Final = 0xE1 << 120
"""Of GHASH. The first bit of a block is its lowest power."""


# -- AES-128 (FIPS 197) ------------------------------------------------------------------------------


def _doubled(byte: int) -> int:
    return byte << 1 ^ (0x11B if byte & 0x80 else 0)


def _substitutions() -> list[int]:
    """The inverse of each byte, its bits mixed. 3 generates all that have one."""
    powers = [1]
    while len(powers) < 255:
        powers.append(powers[-1] ^ _doubled(powers[-1]))
    found = [0x63] * 256
    for exponent, byte in enumerate(powers):
        twice = powers[-exponent % 255] * 0x101
        found[byte] = (twice ^ twice >> 4 ^ twice >> 5 ^ twice >> 6 ^ twice >> 7) & 0xFF ^ 0x63
    return found


def _turned(word: int, bits: int) -> int:
    return word >> bits | (word << (32 - bits) & 0xFFFFFFFF)


def _columns() -> list[list[int]]:
    """What each substituted byte becomes of a column, by its row."""
    first = [_doubled(byte) << 24 | byte << 16 | byte << 8 | byte ^ _doubled(byte) for byte in _BYTES]
    return [[_turned(word, 8 * row) for word in first] for row in range(4)]


_BYTES: Final = _substitutions()
_ROWS: Final = _columns()


def _expanded(key: bytes) -> list[int]:
    words = list(_WORDS.unpack(key))
    constant = 1
    while len(words) < 4 * (_ROUNDS + 1):
        word = words[-1]
        if len(words) % 4 == 0:
            word = _turned(word, 24)
            word = int.from_bytes(bytes(_BYTES[byte] for byte in word.to_bytes(4, "big")), "big")
            word ^= constant << 24
            constant = _doubled(constant)
        words.append(word ^ words[-4])
    return words


class Cipher:
    __slots__ = ("_words",)

    def __init__(self, key: bytes) -> None:
        self._words = _expanded(key)

    def encipher(self, block: bytes) -> bytes:
        words = self._words
        state = [word ^ key for word, key in zip(_WORDS.unpack(block), words[:4], strict=True)]
        for at in range(4, 4 * _ROUNDS, 4):
            state = [self._mixed(state, column) ^ words[at + column] for column in range(4)]
        last = words[4 * _ROUNDS :]
        return _WORDS.pack(*(self._substituted(state, column) ^ last[column] for column in range(4)))

    @staticmethod
    def _mixed(state: list[int], column: int) -> int:
        first, second, third, fourth = _ROWS
        return (
            first[state[column] >> 24]
            ^ second[state[(column + 1) & 3] >> 16 & 0xFF]
            ^ third[state[(column + 2) & 3] >> 8 & 0xFF]
            ^ fourth[state[(column + 3) & 3] & 0xFF]
        )

    @staticmethod
    def _substituted(state: list[int], column: int) -> int:
        return (
            _BYTES[state[column] >> 24] << 24
            | _BYTES[state[(column + 1) & 3] >> 16 & 0xFF] << 16
            | _BYTES[state[(column + 2) & 3] >> 8 & 0xFF] << 8
            | _BYTES[state[(column + 3) & 3] & 0xFF]
        )


# -- GHASH and GMAC (NIST SP 800-38D) ----------------------------------------------------------------


class Hash:
    """What a block becomes by a multiplication is the sum of what each of its bytes does."""

    __slots__ = ("_tables",)

    def __init__(self, key: bytes) -> None:
        power = int.from_bytes(key, "big")
        self._tables: list[list[int]] = []
        for _ in range(BLOCK_BYTES):
            table = [0] * 256
            for bit in range(7, -1, -1):
                table[1 << bit] = power
                power = power >> 1 ^ (_MODULUS if power & 1 else 0)
            for byte in range(256):
                lowest = byte & -byte
                if byte != lowest:
                    table[byte] = table[byte ^ lowest] ^ table[lowest]
            self._tables.append(table)

    def of(self, data: bytes, first: int, second: int) -> int:
        """Of data, filled up with zeros, and a last block of two numbers."""
        padding = bytes(-len(data) % BLOCK_BYTES)
        data += padding + (first << 64 | second).to_bytes(BLOCK_BYTES, "big")
        tables, found = self._tables, 0
        for at in range(0, len(data), BLOCK_BYTES):
            found ^= int.from_bytes(data[at : at + BLOCK_BYTES], "big")
            found = reduce(xor, map(getitem, tables, found.to_bytes(BLOCK_BYTES, "big")))
        return found


class Gmac:
    """Its tables are made when they are first needed: where nobody sends this MAC they never are."""

    __slots__ = ("_cipher", "_hash")

    def __init__(self, key: bytes) -> None:
        self._cipher = Cipher(key)
        self._hash: Hash | None = None

    def tag(self, number: bytes, data: bytes) -> bytes:
        if self._hash is None:
            self._hash = Hash(self._cipher.encipher(bytes(BLOCK_BYTES)))
        start = number + b"\0\0\0\1"
        if len(number) != _PLAIN_NUMBER_BYTES:
            start = self._hash.of(number, 0, 8 * len(number)).to_bytes(BLOCK_BYTES, "big")
        mask = int.from_bytes(self._cipher.encipher(start), "big")
        return (self._hash.of(data, 8 * len(data), 0) ^ mask).to_bytes(BLOCK_BYTES, "big")


def mac_under(keys: bytes, number_bytes: int) -> Callable[[bytes | memoryview], bytes]:
    """The MAC of a datagram that begins with its number; `keys`: GMAC's, and that of its tags."""
    gmac, cipher = Gmac(keys[:KEY_BYTES]), Cipher(keys[KEY_BYTES:])

    def mac(body: bytes | memoryview) -> bytes:
        data = bytes(body)
        return cipher.encipher(gmac.tag(data[:number_bytes], data))

    return mac
