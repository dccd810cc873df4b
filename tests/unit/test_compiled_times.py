"""Many clock readings at a time: the bytes are those of one by one, in the order stream and the birth log."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llft.core.determinizer.operations import WOULD_BLOCK
from llft.past import birth_log
from llft.past.birth_log import BirthLog
from llft.wire import order_decoder, order_encoder
from llft.wire.order import GENERAL, SOCKET, TIME, OrderContext, OrderDecoder, OrderEncoder
from tests.unit.compiled_parts import compiled_part

pytestmark = pytest.mark.reference

ordinary = st.lists(st.integers(0, (1 << 62) - 1), min_size=1, max_size=62).map(sorted)
odd = st.lists(st.integers(-(1 << 63), (1 << 63) - 1), min_size=1, max_size=70)
close_together = st.tuples(st.integers(0, 1 << 61), st.lists(st.integers(0, 300), max_size=70)).map(
    lambda made: [made[0] + sum(made[1][:count]) for count in range(len(made[1]) + 1)]
)
readings = ordinary | odd | close_together


@pytest.fixture(scope="session")
def times() -> Any:
    return compiled_part("llft.wire.times")


def encoder_behind(before: list[tuple[Any, ...]]) -> OrderEncoder:
    encoder = OrderEncoder(OrderContext())
    for entry in before:
        encoder.append(entry)
    return encoder


BEFORE = [(TIME, 3, 1, 1, 77), (GENERAL, 3, 1, 9, 1, b"abc")]


@given(readings, st.sampled_from([0, 1]), st.integers(1, 300))
def test_the_encoder_writes_them_as_one_by_one(
    times: Any, values: list[int], clock: int, thread: int
) -> None:
    one_by_one = encoder_behind(BEFORE)
    for value in values:
        one_by_one.append((TIME, 3, thread, clock, value))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(order_encoder, "encode_times", times.encode)
        at_once = encoder_behind(BEFORE)
        at_once.append_readings(3, thread, clock, values)
    assert (at_once.count, at_once.context) == (one_by_one.count, one_by_one.context)
    assert at_once.take() == one_by_one.take()


@given(
    st.sampled_from([SOCKET, GENERAL]),
    st.integers(0, 300),
    st.integers(1, 1 << 40),
    st.lists(st.binary(max_size=300), min_size=1, max_size=9),
)
def test_counted_entries_are_written_as_one_by_one(
    kind: int, identifier: int, count: int, data: list[bytes]
) -> None:
    entries = [(kind, 3, 1, identifier, count + index, each) for index, each in enumerate(data)]
    one_by_one, together = encoder_behind(BEFORE + entries), encoder_behind(BEFORE)
    together.append_counted(entries[0], data)
    assert (together.count, together.context) == (one_by_one.count, one_by_one.context)
    assert together.take() == one_by_one.take()


@given(st.lists(readings, max_size=4), st.integers(1, 9), st.booleans())
def test_the_decoder_reads_them_as_one_by_one(
    times: Any, runs: list[list[int]], cut: int, other_clock: bool
) -> None:
    encoder = encoder_behind(BEFORE)
    for number, values in enumerate(runs):
        for value in values:
            encoder.append((TIME, 3 + number // 2, 1, number % 2 if other_clock else 0, value))
        encoder.append(BEFORE[1])
    data = encoder.take()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(order_decoder, "decode_times", times.decode)
        many = decoded(data, cut, together=True)
        one = decoded(data, cut, together=False)
    assert many == one


counted = st.tuples(
    st.sampled_from([SOCKET, GENERAL]),
    st.sampled_from([1, 1, 1, 2]),
    st.sampled_from([1, 2]),
    st.sampled_from([5, 6, 200, 300]),
    st.sampled_from([1, 1, 1, 1, 7]),
    st.sampled_from([b"", b"\1\2", b"\5", bytes(127), bytes(128)]),
)


@given(st.lists(st.tuples(counted, st.integers(1, 9)), max_size=9), st.integers(1, 40))
def test_the_decoder_reads_counted_entries_as_one_by_one(
    drawn: list[tuple[tuple[Any, ...], int]], cut: int
) -> None:
    encoder, counts, pick = encoder_behind(BEFORE), {}, 3
    for (kind, thread, step, identifier, more, data), repeated in drawn:
        pick += step // 2
        for _ in range(repeated):
            counts[kind, identifier] = counts.get((kind, identifier), 0) + more
            encoder.append((kind, pick, thread, identifier, counts[kind, identifier], data))
    encoded = encoder.take()
    assert decoded(encoded, cut, together=True) == decoded(encoded, cut, together=False)


def test_counted_entries_that_are_alike_are_read_together() -> None:
    encoder = encoder_behind([])
    encoder.append_counted((SOCKET, 1, 1, 4, 1, b"\5"), [b"\5"] * 9)
    encoder.append_counted((GENERAL, 1, 1, 1, 1, b"abc"), [b"abc", b"", b"d"])
    decoder = OrderDecoder(OrderContext())
    decoder.feed(encoder.take())
    for length in (9, 3):
        first = decoder.next()
        assert first is not None
        assert len(decoder.alike_behind(first)) == length - 1
    assert decoder.exhausted


def decoded(data: bytes, cut: int, *, together: bool) -> tuple[object, ...]:
    """Fed in pieces: entries, and where the decoder stands when it has no more."""
    decoder, entries = OrderDecoder(OrderContext()), []
    for start in range(0, len(data), cut):
        decoder.feed(data[start : start + cut])
        while (entry := decoder.next()) is not None:
            entries.append(entry)
            if together and TIME <= entry[0] <= GENERAL:
                entries += decoder.alike_behind(entry)
    return entries, decoder.offset, decoder.count, decoder.context, decoder.exhausted


@given(readings, st.integers(1, 100_000))
def test_the_birth_log_has_them_as_one_by_one(times: Any, values: list[int], thread: int) -> None:
    one_by_one, at_once = BirthLog(b"before"), BirthLog(b"before")
    for value in values:
        one_by_one.completed(thread, 7, value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(birth_log, "pack_times", times.pack)
        at_once.read_on(thread, 7, values)
    assert (at_once.kept(), at_once.digest) == (one_by_one.kept(), one_by_one.digest)


@given(st.integers(1, 1000), st.lists(st.binary(max_size=300) | st.just(WOULD_BLOCK), max_size=9))
def test_the_birth_log_has_other_results_as_one_by_one(thread: int, results: list[Any]) -> None:
    one_by_one, together = BirthLog(b"before"), BirthLog(b"before")
    for result in results:
        one_by_one.completed(thread, 7, result)
    together.completed_all(thread, 7, results)
    assert (together.kept(), together.digest) == (one_by_one.kept(), one_by_one.digest)


def test_what_is_ordinary_is_done_in_c(times: Any) -> None:
    """All would be right if it never were, and slow."""
    values = [1_700_000_000_000_000_000 + 50 * number for number in range(62)]
    assert times.encode(values) is not None
    assert times.pack(b"\x01\x05\x07", values) is not None
    encoder = encoder_behind([])
    encoder.append_readings(1, 1, 0, values)
    data = bytearray(encoder.take())
    decoder = OrderDecoder(OrderContext())
    decoder.feed(bytes(data))
    first = decoder.next()
    assert first is not None
    found, end = times.decode(data, decoder.offset, first)
    assert [entry[4] for entry in found] == values[1:]
    assert end == len(data)


@pytest.mark.parametrize(
    "damaged", [b"\x04", b"\x04\x80", b"\x04\x80\x00", b"\x04\x01", b"\x44\x02\x02", b"\x14\x02\x02"]
)
def test_what_is_not_is_left(times: Any, damaged: bytes) -> None:
    entry = (TIME, 1, 1, 0, 5)
    assert times.decode(bytearray(b"?\x04\x02" + damaged), 1, entry) == ([(TIME, 1, 1, 0, 6)], 3)
