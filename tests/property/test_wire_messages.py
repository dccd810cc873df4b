"""Messages and bodies: everything comes back, and any bytes give a value or a PeerError."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llft.errors import MisuseError, PeerError
from llft.identifiers import BirthId, Member
from llft.wire.codec import decode, decode_body, encode, encode_body
from llft.wire.header import DYNAMIC_BYTES, HEADER_BYTES, PREFIX_BYTES, pack_prefix
from llft.wire.messages import (
    Body,
    Header,
    MembershipBody,
    Message,
    MessageFlag,
    MessageType,
    NackBody,
)
from tests.property.wire_strategies import BODIES, assert_explained, messages, typed_bodies


def decodes_or_is_refused(data: bytes) -> Message | None:
    try:
        message = decode(data)
    except PeerError as refusal:
        assert_explained(refusal)
        return None
    assert encode(message) == data
    return message


def body_decodes_or_is_refused(message_type: MessageType, payload: bytes) -> None:
    try:
        body = decode_body(message_type, payload)
    except PeerError as refusal:
        assert_explained(refusal)
    else:
        assert encode_body(body) == payload


def test_layout_is_the_published_one() -> None:
    assert (PREFIX_BYTES, DYNAMIC_BYTES, HEADER_BYTES) == (80, 74, 154)


@given(messages)
def test_message_round_trip(message: Message) -> None:
    data = encode(message)
    assert data.startswith(pack_prefix(message.header))
    again = decode(data)
    assert again == message
    assert type(again.header.message_type) is MessageType
    assert type(again.header.flags) is MessageFlag


@given(typed_bodies)
def test_body_round_trip(typed_body: tuple[MessageType, Body]) -> None:
    message_type, body = typed_body
    assert decode_body(message_type, encode_body(body)) == body


def test_every_type_has_a_body_or_is_known_to_have_none() -> None:
    without = {"REQUEST", "REPLY", "FIRST_ACK", "SECOND_ACK", "KEEP_ALIVE"}
    assert {kind.name for kind in MessageType} - {kind.name for kind in BODIES} == without


@given(st.binary(max_size=400))
def test_arbitrary_bytes(data: bytes) -> None:
    decodes_or_is_refused(data)


@given(st.sampled_from(MessageType), st.binary(max_size=200))
def test_arbitrary_payloads(message_type: MessageType, payload: bytes) -> None:
    body_decodes_or_is_refused(message_type, payload)


@settings(max_examples=20)
@given(messages)
def test_truncation_at_each_byte_and_trailing_bytes(message: Message) -> None:
    data = encode(message)
    for size in range(len(data)):
        assert decodes_or_is_refused(data[:size]) is None
    assert decodes_or_is_refused(data + b"\0") is None


@settings(max_examples=50)
@given(typed_bodies)
def test_body_truncation_at_each_byte(typed_body: tuple[MessageType, Body]) -> None:
    message_type, body = typed_body
    payload = encode_body(body)
    for size in range(len(payload)):
        with pytest.raises(PeerError):
            decode_body(message_type, payload[:size])
    with pytest.raises(PeerError):
        decode_body(message_type, payload + b"\0")


@given(messages, st.data())
def test_bit_flips(message: Message, data: st.DataObject) -> None:
    changed = bytearray(encode(message))
    for _ in range(data.draw(st.integers(1, 4))):
        bit = data.draw(st.integers(0, 8 * len(changed) - 1))
        changed[bit // 8] ^= 1 << bit % 8
    decodes_or_is_refused(bytes(changed))


@given(typed_bodies, st.data())
def test_body_bit_flips(typed_body: tuple[MessageType, Body], data: st.DataObject) -> None:
    message_type, body = typed_body
    changed = bytearray(encode_body(body))
    bit = data.draw(st.integers(0, 8 * len(changed) - 1))
    changed[bit // 8] ^= 1 << bit % 8
    body_decodes_or_is_refused(message_type, bytes(changed))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("source_group_id", -1),
        ("dest_group_id", 1 << 32),
        ("msg_seq_num", 1 << 32),
        ("timestamp", 1 << 64),
        ("view_start", -1),
        ("flags", 2 * max(MessageFlag)),
        ("fragment_index", 1),
        ("fragment_count", 0),
        ("message_type", 99),
        ("role", 2),
    ],
)
@pytest.mark.reference
def test_header_out_of_range_is_misuse(field: str, value: int) -> None:
    header = Header(MessageType.REQUEST, 1, 2)
    setattr(header, field, value)
    with pytest.raises(MisuseError):
        encode(Message(header))


def test_too_much_order_information_is_misuse() -> None:
    with pytest.raises(MisuseError):
        encode(Message(Header(MessageType.REQUEST, 1, 2), order_bytes=bytes(65536)))


def test_body_out_of_range_is_misuse() -> None:
    birth = BirthId(1, 2, 3)
    for body in (
        MembershipBody(birth, -1, 0),
        MembershipBody(birth, 0, 0, (Member(birth, 1),) * 1025),
        NackBody(positions=((0, ()),) * 4097),
        NackBody(positions=((0, (65536,)),)),
        NackBody(client_group_id=1 << 32),
    ):
        with pytest.raises(MisuseError):
            encode_body(body)


def test_lists_at_their_bounds_travel() -> None:
    birth = BirthId(1, 2, 3)
    membership = MembershipBody(birth, 0, 0, (Member(birth, 1),) * 1024)
    assert decode_body(MessageType.ACCEPT_BACKUP, encode_body(membership)) == membership
    nack = NackBody(positions=tuple((index, ()) for index in range(4096)))
    assert decode_body(MessageType.NACK, encode_body(nack)) == nack


def test_a_count_beyond_the_bytes_is_refused_before_anything_is_built() -> None:
    nack = bytearray(encode_body(NackBody()))
    nack[28:30] = (4096).to_bytes(2, "little")
    with pytest.raises(PeerError, match="truncated"):
        decode_body(MessageType.NACK, bytes(nack))


def test_a_payload_on_a_type_without_body_is_the_peers_fault() -> None:
    with pytest.raises(PeerError):
        decode_body(MessageType.FIRST_ACK, b"anything")
