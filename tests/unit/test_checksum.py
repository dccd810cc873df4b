"""The lane's CRC-32 is zlib's: of every length, wherever it begins, and piece by piece."""

from __future__ import annotations

import random
import zlib

import pytest

from llft.wire.checksum import crc32, in_python, joined

DATA = random.Random(7).randbytes(70_000)


@pytest.mark.parametrize("size", [*range(600), 1023, 1024, 4096 + 17, 65_535, 65_536])
def test_it_is_that_of_zlib(size: int) -> None:
    for start in (0, 1, 7, 16):
        piece = DATA[start : start + size]
        assert crc32(piece) == zlib.crc32(piece)
        assert crc32(piece, 0xDEADBEEF) == zlib.crc32(piece, 0xDEADBEEF)


def test_pieces_add_up() -> None:
    cuts = random.Random(8)
    value, start = 0, 0
    while start < len(DATA):
        size = cuts.choice((1, 15, 63, 64, 65, 127, 128, 1000))
        value = crc32(DATA[start : start + size], value)
        start += size
    assert value == zlib.crc32(DATA)


def test_whatever_has_bytes_is_taken() -> None:
    for data in (DATA[:200], bytearray(DATA[:200]), memoryview(DATA)[:200], b""):
        assert crc32(data) == zlib.crc32(data)
    with pytest.raises(TypeError):
        crc32("text")
    with pytest.raises(TypeError):
        crc32()


@pytest.mark.parametrize("size", [0, 1, 13, 255, 4096, 65_000])
def test_that_of_two_pieces_follows_from_theirs(size: int) -> None:
    cut = len(DATA) - size
    for join in (joined, in_python):
        assert join(crc32(DATA[:cut]), crc32(DATA[cut:]), size) == zlib.crc32(DATA)
