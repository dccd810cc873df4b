"""Bytes in blocks (`past.long_bytes`): the same as in one array."""

from __future__ import annotations

import random
import zlib

import pytest

from llft.past.long_bytes import LongBytes


@pytest.mark.parametrize("seed", range(40))
def test_they_are_as_in_one_array(seed: int) -> None:
    draw = random.Random(seed)
    array, found = bytearray(), LongBytes()
    for _ in range(200):
        _change(draw, array, found)
        start, end = sorted(draw.randint(0, len(array)) for _ in range(2))
        assert found.length == len(array)
        assert found.piece(start, end) == array[start:end]
        assert found.digest(end, 7) == zlib.crc32(array[:end], 7)
    assert found.piece(0, found.length) == array


def _change(draw: random.Random, array: bytearray, found: LongBytes) -> None:
    place = draw.randint(0, len(array))
    what = draw.randrange(8)
    if what == 0:
        del array[:place]
        found.drop_before(place)
    elif what == 1:
        del array[place:]
        found.drop_from(place)
    elif what == 2 and place < len(array):
        array[place] = 99
        found.put(place, 99)
    else:
        data = draw.randbytes(draw.choice([0, 1, 100, 5000, 70_000]))
        array += data
        found.append(data)


def test_all_of_it_can_be_dropped_and_more_appended() -> None:
    found = LongBytes(b"abc")
    found.drop_before(3)
    found.append_all([b"de", b"f"])
    assert (found.length, found.piece(1, 3)) == (3, b"ef")
    found.drop_from(0)
    found.append(b"ghi")
    assert found.piece(0, 3) == b"ghi"
