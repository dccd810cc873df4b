"""The order stream by example: what merges, what it costs, what is refused, what is forgotten."""

from __future__ import annotations

import pytest

from llft.errors import MisuseError, PeerError
from llft.identifiers import BirthId, ViewId
from llft.wire import order_context, order_readers
from llft.wire.order import (
    CHECKPOINT,
    CONNECTION,
    GENERAL,
    MUTEX,
    PRIMARY_VIEW,
    READ,
    REMOTE_VIEW,
    SEND,
    SOCKET,
    TIME,
    WAKE,
    Entry,
    OrderContext,
    OrderDecoder,
    OrderEncoder,
    describe,
)
from llft.wire.varint import get_uvarint

VIEW = ViewId(1, 2, BirthId(3, 4, 5))


def encoder_after(*entries: Entry) -> OrderEncoder:
    encoder = OrderEncoder(OrderContext())
    for entry in entries:
        encoder.append(entry)
    return encoder


def decoded(stream: bytes) -> list[Entry]:
    decoder = OrderDecoder(OrderContext())
    decoder.feed(stream)
    return list(iter(decoder.next, None))


def cost(entry: Entry, *before: Entry) -> int:
    encoder = encoder_after(*before)
    encoder.seal()
    start = encoder.offset
    encoder.append(entry)
    return encoder.offset - start


def test_constants_are_part_of_the_format() -> None:
    operations = (READ, SEND, MUTEX, TIME, SOCKET, GENERAL)
    assert operations == (1, 2, 3, 4, 5, 6)
    assert (WAKE, CHECKPOINT, PRIMARY_VIEW, REMOTE_VIEW, CONNECTION) == (7, 8, 9, 10, 11)


def test_common_entries_are_tiny() -> None:
    before: tuple[Entry, ...] = (
        (READ, 5, 1, 3, 10),
        (SEND, 5, 1, 3, 100, 1),
        (TIME, 5, 1, 0, 1_700_000_000_000_000_000),
        (MUTEX, 5, 1, 2, 1, True),
        (GENERAL, 5, 1, 9, 1, b""),
    )
    assert cost((READ, 5, 1, 3, 100), *before) == 2
    assert cost((READ, 6, 1, 3, 1000), *before) == 4
    assert cost((SEND, 5, 1, 3, 102, 7), *before) == 2 + 4
    assert cost((TIME, 5, 1, 0, 1_700_000_000_000_009_000), *before) == 4
    assert cost((MUTEX, 5, 1, 2, 2, True), *before) == 2
    assert cost((GENERAL, 5, 1, 9, 2, b"ab"), *before) == 5
    assert cost((WAKE, 6, 2), *before) == 3
    assert cost((CHECKPOINT, 6, 0), *before) == 3


def test_identical_reads_merge_until_sealed() -> None:
    read = (READ, 0, 1, 3, 64)
    encoder = encoder_after(*[read] * 100)
    assert (encoder.offset, encoder.count) == (encoder_after(read).offset + 1, 100)
    encoder.seal()
    sealed = bytes(encoder.pending)
    encoder.append(read)
    assert encoder.pending.startswith(sealed)
    assert decoded(encoder.take()) == [read] * 101


def test_consecutive_sends_merge_and_keep_the_last_digest() -> None:
    encoder = encoder_after(*[(SEND, 0, 1, 3, 10 + step, step) for step in range(3)])
    one = encoder_after((SEND, 0, 1, 3, 10, 0))
    assert encoder.offset == one.offset + 1
    found = decoded(encoder.take())
    assert [entry[4:] for entry in found] == [(10, None), (11, None), (12, 2)]


@pytest.mark.parametrize(
    "second", [(SEND, 1, 1, 3, 11, 2), (SEND, 0, 2, 3, 11, 2), (SEND, 0, 1, 4, 11, 2), (SEND, 0, 1, 3, 12, 2)]
)
def test_what_differs_does_not_merge(second: Entry) -> None:
    first = (SEND, 0, 1, 3, 10, 1)
    assert decoded(encoder_after(first, second).take()) == [first, second]


def test_a_long_run_is_cut_and_comes_back_whole() -> None:
    read = (READ, 0, 1, 3, 64)
    stream = encoder_after(*[read] * 70_000).take()
    assert len(stream) < 20
    assert decoded(stream) == [read] * 70_000


def test_offset_stays_before_a_run_until_it_is_handed_out() -> None:
    stream = encoder_after((READ, 0, 0, 0, 1), (READ, 0, 0, 0, 1), (READ, 0, 0, 0, 1)).take()
    decoder = OrderDecoder(OrderContext())
    decoder.feed(stream)
    seen = []
    while decoder.next() is not None:
        seen.append((decoder.offset, decoder.count, decoder.between_entries, decoder.end))
        assert decoder.entry_end == len(stream)
    end = len(stream)
    assert seen == [(0, 1, False, end), (0, 2, False, end), (end, 3, True, end)]


def test_what_was_fed_beyond_the_last_entry_can_be_dropped() -> None:
    first, second = (GENERAL, 0, 0, 1, 1, b"abc"), (GENERAL, 0, 0, 1, 2, b"def")
    stream = encoder_after(first, second).take()
    decoder = OrderDecoder(OrderContext())
    decoder.feed(stream[:-1])
    assert decoder.next() == first
    assert decoder.next() is None
    decoder.drop_undecoded()
    assert decoder.end == decoder.offset
    successor = OrderEncoder(decoder.context.copy(), decoder.offset, decoder.count)
    successor.append((WAKE, 1, 2))
    decoder.feed(successor.take())
    assert decoder.next() == (WAKE, 1, 2)


@pytest.mark.parametrize(
    "entry",
    [
        (READ, 0, 0, 0, -1),
        (READ, 0, 0, 0, (1 << 31) + 1),
        (READ, -1, 0, 0, 1),
        (READ, 0, 1 << 32, 0, 1),
        (READ, 0, 0, 1 << 32, 1),
        (SEND, 0, 0, 0, 1 << 64, 0),
        (SEND, 0, 0, 0, 1, 1 << 32),
        (SEND, 0, 0, 0, 1, None),
        (SEND, 0, 0, -1, 1, 0),
        (MUTEX, 0, 0, -1, 1, 1),
        (MUTEX, 0, 0, 1, 1 << 64, 1),
        (MUTEX, 0, 0, 1, 1, 1 << 63),
        (TIME, 0, 0, 1 << 31, 0),
        (TIME, 0, 0, 0, 1 << 63),
        (SOCKET, 0, 0, 0, 1, bytes(65536)),
        (GENERAL, 0, 0, 1 << 64, 1, b""),
        (WAKE, 1 << 64, 0),
        (PRIMARY_VIEW, VIEW, ((1 << 32, 0),)),
        (REMOTE_VIEW, 1, VIEW, 1 << 64),
        (CONNECTION, 256, 0, 0, 0, 0),
        (CONNECTION, 1, 0, 0, 0, 1 << 32),
        (77,),
    ],
)
def test_a_refused_entry_leaves_no_trace(entry: Entry) -> None:
    first, third = (READ, 3, 2, 1, 9), (SEND, 3, 2, 1, 5, 6)
    encoder = encoder_after(first)
    before = (encoder.context.pack(), bytes(encoder.pending), encoder.count)
    with pytest.raises(MisuseError):
        encoder.append(entry)
    assert (encoder.context.pack(), bytes(encoder.pending), encoder.count) == before
    encoder.append(third)
    assert decoded(encoder.take()) == [first, third]


@pytest.mark.parametrize(
    "stream",
    [
        b"\x00",
        b"\x0f",
        b"\x01\x80\x00",
        b"\x01" + b"\xff" * 10,
        b"\x01\xff\xff\xff\xff\x0f",
        b"\x11\x01\x05",
        b"\x81\x05\xff\xff\x03",
        b"\x02\x03" + bytes(4),
        b"\x84\x00",
        b"\x46\x00\x00",
        b"\x47",
        b"\x48",
        b"\x1a\x00",
        b"\x19\x00",
        b"\x06\x01\x80\x80\x04",
    ],
)
def test_malformed_bytes_are_refused_again_and_again(stream: bytes) -> None:
    decoder = OrderDecoder(OrderContext())
    decoder.feed(stream)
    for _ in range(2):
        with pytest.raises(PeerError):
            decoder.next()
    assert (decoder.offset, decoder.count, decoder.end) == (0, 0, len(stream))
    assert decoder.context == OrderContext()


@pytest.mark.reference
def test_tables_forget_the_oldest_alike_at_both_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order_context, "OPERATIONS_MAX", 4)
    monkeypatch.setattr(order_context, "CLOCKS_MAX", 2)
    entries: list[Entry] = []
    for turn in range(1, 4):
        for item in range(6):
            entries.append((GENERAL, 0, 0, item, turn, b""))
            entries.append((TIME, 0, 0, item % 3, 1000 * turn + item))
    encoder = encoder_after(*entries)
    assert len(encoder.context.counts) == 4
    decoder = OrderDecoder(OrderContext())
    decoder.feed(encoder.take())
    assert list(iter(decoder.next, None)) == entries
    assert decoder.context == encoder.context


def test_a_context_with_too_many_operations_is_refused() -> None:
    context = OrderContext()
    context.counts = dict.fromkeys(range(order_context.OPERATIONS_MAX + 1), 1)
    with pytest.raises(PeerError, match="too_long"):
        OrderContext.unpack(context.pack())


def test_a_long_entry_in_many_pieces_is_read_anew_only_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = 0

    def counting(data: bytes | bytearray, position: int) -> tuple[int, int]:
        nonlocal readings
        readings += 1
        return get_uvarint(data, position)

    monkeypatch.setattr(order_readers, "get_uvarint", counting)
    entry = (PRIMARY_VIEW, VIEW, tuple((fd, fd * 1000) for fd in range(5_000)))
    stream = encoder_after(entry).take()
    decoder = OrderDecoder(OrderContext())
    found = []
    for start in range(0, len(stream), 50):
        decoder.feed(stream[start : start + 50])
        found.append(decoder.next())
    assert found[-1] == entry
    assert not any(found[:-1])
    assert readings < 20 * 2 * 5_000


def test_description_is_the_same_at_primary_and_backup() -> None:
    primary: list[Entry] = [
        (SEND, 0, 1, 3, 10, 77),
        (SEND, 0, 1, 3, 11, 78),
        (MUTEX, 0, 1, 5, 1, True),
        (MUTEX, 0, 1, 5, 2, False),
        (PRIMARY_VIEW, VIEW, ((3, 9),)),
        (REMOTE_VIEW, 3, VIEW, 12),
        (CONNECTION, 1, 3, 7, 8, 9),
    ]
    backup = decoded(encoder_after(*primary).take())
    assert [describe(entry) for entry in backup] == [describe(entry) for entry in primary]
    assert describe(primary[0]) == "send pick=0 thread=1 fd=3 timestamp=10"
    assert describe(primary[4]) == "primary_view v2/p1 of 3.4.5 [3:9]"
