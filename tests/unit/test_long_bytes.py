"""Bytes in blocks (`past.long_bytes`): the same as in one array."""

from __future__ import annotations

import os
import random
import zlib
from collections.abc import Iterator

import pytest

from llft.past import long_bytes
from llft.past.long_bytes import (
    LARGEST_BYTES,
    LENT_BLOCKS,
    SMALLEST_BYTES,
    SPARE_BLOCKS,
    SPARE_BLOCKS_MAX,
    LongBytes,
)
from llft.runtime.mapped import mapped


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


@pytest.mark.parametrize("seed", range(6))
def test_so_are_many_blocks_of_which_some_are_used_again(seed: int) -> None:
    draw = random.Random(seed)
    array, found = bytearray(), LongBytes()
    for _ in range(60):
        data = draw.randbytes(64) * draw.randint(1, LARGEST_BYTES // 64 + 1000)
        array += data
        found.append(data)
        if draw.random() < 0.6:
            place = draw.randint(0, len(array))
            del array[:place]
            found.drop_before(place)
        elif draw.random() < 0.2:
            place = draw.randint(0, len(array))
            del array[place:]
            found.drop_from(place)
        assert found.length == len(array)
        assert found.digest(found.length, 0) == zlib.crc32(array)
    assert found.piece(0, found.length) == array


@pytest.fixture
def made() -> Iterator[list[int]]:
    """Sizes of large blocks that are made from now on."""
    sizes: list[int] = []

    def making(size: int) -> memoryview:
        sizes.append(size)
        return mapped(size)

    long_bytes.have_large_blocks_of(making)
    yield sizes
    long_bytes.have_large_blocks_of(lambda size: memoryview(bytearray(size)))


def test_a_log_that_is_dropped_as_fast_as_it_grows_takes_no_new_memory(made: list[int]) -> None:
    found = LongBytes()
    data = bytes(LARGEST_BYTES // 4)
    for _ in range(40):
        found.append(data)
    found.drop_before(found.length - len(data))
    made.clear()
    for _ in range(40):
        found.append(data)
        found.drop_before(found.length - len(data))
    assert made == []


def _is_new_after(count: int, made: list[int], *, given_back: int = 0) -> int:
    """Blocks that are made for the next `count`, where as many were forgotten."""
    found = LongBytes(bytes(2 * LARGEST_BYTES))
    found.take(count * LARGEST_BYTES)
    found.drop_before(found.length)
    for _ in range(given_back):
        found.give_back()
    made.clear()
    found.take(count * LARGEST_BYTES)
    return len(made)


def test_what_was_needed_once_is_there_again(made: list[int]) -> None:
    assert _is_new_after(4 * SPARE_BLOCKS, made) == 0


def test_what_is_kept_of_forgotten_blocks_has_a_bound(made: list[int]) -> None:
    assert _is_new_after(SPARE_BLOCKS_MAX + 20, made) >= 19


def test_what_is_not_needed_any_more_is_given_back_bit_by_bit(made: list[int]) -> None:
    assert 8 <= _is_new_after(4 * SPARE_BLOCKS, made, given_back=10) <= 10
    assert _is_new_after(4 * SPARE_BLOCKS, made, given_back=1000) >= 3 * SPARE_BLOCKS - 2


def test_a_copy_of_the_process_has_nothing_in_the_large_ones(made: list[int]) -> None:
    """An image is written by one: nobody needs the log before it."""
    found = LongBytes(bytes(SMALLEST_BYTES))
    found.append(b"x" * 2 * LARGEST_BYTES)
    child = os.fork()
    if not child:
        os._exit(any(found.piece(found.length - LARGEST_BYTES, found.length)))
    assert os.waitpid(child, 0)[1] == 0
    assert found.piece(found.length - 3, found.length) == b"xxx"
    assert made


def _change(draw: random.Random, array: bytearray, found: LongBytes) -> None:
    place = draw.randint(0, len(array))
    what = draw.randrange(9)
    if what == 0:
        del array[:place]
        found.drop_before(place)
    elif what == 1:
        del array[place:]
        found.drop_from(place)
    elif what == 2 and place < len(array):
        array[place] = 99
        found.put(place, 99)
    elif what == 3:
        data = draw.randbytes(draw.choice([0, 1, 100, 5000, 70_000]))
        array += _put_in_place(data, found)
    else:
        data = draw.randbytes(draw.choice([0, 1, 100, 5000, 70_000]))
        array += data
        found.append(data)


def _put_in_place(data: bytes, found: LongBytes) -> bytes:
    """As much of it as there is room for."""
    done = 0
    for room in found.room():
        part = min(len(room), len(data) - done)
        room[:part] = data[done : done + part]
        done += part
    found.take(done)
    return data[:done]


def test_there_is_room_for_much_where_there_is_much(made: list[int]) -> None:
    found, array = LongBytes(bytes(3 * LARGEST_BYTES)), bytearray(3 * LARGEST_BYTES)
    for _ in range(3):
        data = random.Random(len(array)).randbytes(LENT_BLOCKS * LARGEST_BYTES // 2)
        array += _put_in_place(data, found)
        found.append(b"and more")
        array += b"and more"
    assert len(array) > LENT_BLOCKS * LARGEST_BYTES
    assert found.piece(0, found.length) == array
    assert sum(map(len, found.room())) >= LENT_BLOCKS * LARGEST_BYTES


def test_all_of_it_can_be_dropped_and_more_appended() -> None:
    found = LongBytes(b"abc")
    found.drop_before(3)
    found.append_all([b"de", b"f"])
    assert (found.length, found.piece(1, 3)) == (3, b"ef")
    found.drop_from(0)
    found.append(b"ghi")
    assert found.piece(0, 3) == b"ghi"
