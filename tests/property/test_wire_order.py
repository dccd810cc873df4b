"""The order stream: whatever the seals, pieces and hand-overs, the entries come back in order."""

from __future__ import annotations

import random
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from llft.errors import PeerError
from llft.wire.order import PRIMARY_VIEW, SEND, Entry, OrderContext, OrderDecoder, OrderEncoder, describe
from tests.property.wire_strategies import assert_explained, entries, sequences


def encode_all(
    sequence: list[Entry], randomness: random.Random, takes: float = 0.2
) -> tuple[bytes, OrderEncoder]:
    encoder = OrderEncoder(OrderContext())
    stream = b""
    for entry in sequence:
        encoder.append(entry)
        assert encoder.offset == len(stream) + len(encoder.pending)
        if randomness.random() < takes:
            stream += encoder.take() if randomness.random() < 0.5 else b""
            encoder.seal()
    return stream + encoder.take(), encoder


def decode_all(stream: bytes, randomness: random.Random, decoder: OrderDecoder) -> list[Entry]:
    found = []
    position = 0
    while True:
        entry = decoder.next()
        if entry is not None:
            found.append(entry)
        elif position == len(stream):
            return found
        else:
            size = randomness.choice((1, 1, 2, 7, 100, 100_000))
            decoder.feed(stream[position : position + size])
            position = min(position + size, len(stream))


def assert_same(found: list[Entry], expected: list[Entry]) -> None:
    """Equal, but for the digests that a run of SENDs gives up."""
    assert len(found) == len(expected)
    for left, right in zip(found, expected, strict=True):
        if left[0] == SEND and left[5] is None:
            assert left[:5] == right[:5]
        else:
            assert left == right
        assert describe(left) == describe(right)


@settings(deadline=None)
@given(sequences, st.integers(0, 1 << 32))
def test_round_trip_with_random_seals_and_pieces(sequence: list[Entry], seed: int) -> None:
    randomness = random.Random(seed)
    stream, encoder = encode_all(sequence, randomness)
    decoder = OrderDecoder(OrderContext())
    assert_same(decode_all(stream, randomness, decoder), sequence)
    assert decoder.between_entries
    assert decoder.offset == decoder.end == encoder.offset == len(stream)
    assert decoder.count == encoder.count == len(sequence)
    assert decoder.context == encoder.context


@settings(deadline=None, max_examples=30)
@given(sequences, st.integers(0, 1 << 32))
def test_the_last_digest_of_a_run_survives(sequence: list[Entry], seed: int) -> None:
    randomness = random.Random(seed)
    stream, _ = encode_all(sequence, randomness)
    found = decode_all(stream, randomness, OrderDecoder(OrderContext()))
    for left, right in pairwise(found):
        if left[0] == SEND and left[5] is None:
            assert right[:4] == left[:4]
            assert right[4] == left[4] + 1
    assert not found or found[-1][0] != SEND or found[-1][5] == sequence[-1][5]


@settings(deadline=None)
@given(sequences, sequences, st.integers(0, 1 << 32))
def test_a_promoted_backup_continues_the_stream(before: list[Entry], after: list[Entry], seed: int) -> None:
    randomness = random.Random(seed)
    stream, _ = encode_all(before, randomness)
    backup = OrderDecoder(OrderContext())
    decode_all(stream, randomness, backup)
    promoted = OrderEncoder(backup.context.copy(), backup.offset, backup.count)
    joiner = OrderDecoder(OrderContext.unpack(backup.context.pack()), backup.offset, backup.count)
    for entry in after:
        promoted.append(entry)
    more = promoted.take()
    for follower in (backup, joiner):
        assert_same(decode_all(more, randomness, follower), after)
        assert follower.context == promoted.context
        assert (follower.offset, follower.count) == (promoted.offset, promoted.count)


@given(sequences)
def test_sealed_bytes_never_change(sequence: list[Entry]) -> None:
    encoder = OrderEncoder(OrderContext())
    sealed = b""
    for index, entry in enumerate(sequence):
        encoder.append(entry)
        assert encoder.pending.startswith(sealed)
        if index % 3 == 0:
            encoder.seal()
            sealed = bytes(encoder.pending)


@given(entries)
def test_each_proper_prefix_of_an_entry_only_wants_more(entry: Entry) -> None:
    encoder = OrderEncoder(OrderContext())
    encoder.append(entry)
    stream = encoder.take()
    for size in range(min(len(stream), 100)):
        decoder = OrderDecoder(OrderContext())
        decoder.feed(stream[:size])
        assert decoder.next() is None
        assert (decoder.offset, decoder.count) == (0, 0)
        assert decoder.context == OrderContext()
        decoder.feed(stream[size:])
        assert decoder.next() == entry


@given(st.binary(max_size=300))
def test_arbitrary_bytes(stream: bytes) -> None:
    decoder = OrderDecoder(OrderContext())
    decoder.feed(stream)
    try:
        for _ in range(1000):
            if decoder.next() is None:
                break
    except PeerError as refusal:
        assert_explained(refusal)
    assert OrderContext.unpack(decoder.context.pack()) == decoder.context


@settings(deadline=None)
@given(sequences.filter(bool), st.integers(0, 1 << 32))
def test_bit_flips(sequence: list[Entry], seed: int) -> None:
    randomness = random.Random(seed)
    stream = bytearray(encode_all(sequence, randomness)[0])
    stream[randomness.randrange(len(stream))] ^= 1 << randomness.randrange(8)
    decoder = OrderDecoder(OrderContext())
    decoder.feed(bytes(stream))
    try:
        while decoder.next() is not None and decoder.count < 5000:
            assert decoder.offset <= len(stream)
    except PeerError:
        pass
    assert decoder.end == len(stream)


@given(st.binary(max_size=200))
def test_arbitrary_contexts(data: bytes) -> None:
    try:
        context = OrderContext.unpack(data)
    except PeerError as refusal:
        assert_explained(refusal)
    else:
        assert context.pack() == data


@given(sequences)
def test_context_travels(sequence: list[Entry]) -> None:
    _, encoder = encode_all(sequence, random.Random(1))
    packed = encoder.context.pack()
    assert OrderContext.unpack(packed) == encoder.context
    for size in range(min(len(packed), 60)):
        try:
            OrderContext.unpack(packed[:size])
        except PeerError:
            continue
        raise AssertionError("a truncated context was accepted")


@given(entries)
def test_description_is_one_short_line(entry: Entry) -> None:
    text = describe(entry)
    assert "\n" not in text
    assert len(text) < 200 or entry[0] == PRIMARY_VIEW
