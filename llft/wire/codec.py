"""Bytes to messages and back.

Laws: `decode` gives a Message or raises PeerError, whatever the bytes; it takes no more memory than the
bytes themselves, since every length is compared with what is there before anything is cut out.
Each message has exactly one encoding: `encode(decode(data)) == data`. What cannot be encoded
is the caller's fault, a MisuseError.

`decode` leaves the payload alone: Request and Reply carry the application's bytes, and a fragment (D-12)
carries a slice; a whole payload of another type goes to `decode_body`.
"""

from __future__ import annotations

from struct import Struct, error
from typing import Final

from llft.errors import MisuseError, PeerError
from llft.identifiers import BirthId
from llft.wire.bodies import decode_body, encode_body
from llft.wire.header import (
    DROP_REMEDY,
    DYNAMIC,
    FLAG_LIMIT,
    FLAGS,
    HEADER_BYTES,
    PREFIX_BYTES,
    Prefix,
    pack_prefix,
    unpack_prefix,
)
from llft.wire.messages import Header, Message

__all__ = ["decode", "decode_body", "encode", "encode_body", "plain_held", "who_holds"]

ORDER_BYTES_MAX: Final = 65_535
"""Of order information on one datagram, and the same of reflected."""
_HELD_BODY: Final = Struct("<IIQQ")
"""A `StateAckBody`: who holds, and up to where."""
_HELD_DYNAMIC: Final = DYNAMIC.pack(0, 0, 1, 0, 0, 0, 0, 0, _HELD_BODY.size, 0, 0, 0, 0, 0, 0)


def encode(message: Message) -> bytes:
    header = message.header
    flags = header.flags
    order_bytes, reflected_bytes, payload = message.order_bytes, message.reflected_bytes, message.payload
    if not 0 <= header.fragment_index < header.fragment_count or not 0 <= flags < FLAG_LIMIT:
        raise MisuseError("header_field_out_of_range", "see flags and fragment numbers", header=header)
    try:
        dynamic = DYNAMIC.pack(
            flags,
            header.fragment_index,
            header.fragment_count,
            len(order_bytes),
            len(reflected_bytes),
            header.msg_seq_num,
            header.ack_view_num,
            header.ack,
            len(payload),
            header.back,
            header.timestamp,
            header.order_watermark,
            header.order_committed,
            message.order_start,
            message.reflected_start,
        )
    except error as reason:
        raise MisuseError("header_field_out_of_range", str(reason), header=header) from None
    return b"".join((pack_prefix(header), dynamic, order_bytes, reflected_bytes, payload))


def plain_held(data: bytes) -> tuple[Prefix, int] | None:
    """Of a Held that has nothing but what it says: the prefix, and up to where something is held."""
    if len(data) != HEADER_BYTES + _HELD_BODY.size or data[PREFIX_BYTES:HEADER_BYTES] != _HELD_DYNAMIC:
        return None
    return unpack_prefix(data[:PREFIX_BYTES]), _HELD_BODY.unpack_from(data, HEADER_BYTES)[3]


def who_holds(data: bytes) -> BirthId:
    """Of such a Held: whose it is."""
    return BirthId(*_HELD_BODY.unpack_from(data, HEADER_BYTES)[:3])


def decode(data: bytes) -> Message:
    if len(data) < HEADER_BYTES:
        raise PeerError("datagram_truncated", DROP_REMEDY, size=len(data))
    prefix = unpack_prefix(data[:PREFIX_BYTES])
    (
        flags, fragment_index, fragment_count, order_length, reflected_length,
        msg_seq_num, ack_view_num, ack, payload_length,
        back, timestamp, order_watermark, order_committed, order_start, reflected_start,
    ) = DYNAMIC.unpack_from(data, PREFIX_BYTES)  # fmt: skip
    if flags >= FLAG_LIMIT or fragment_index >= fragment_count:
        fragment = (fragment_index, fragment_count)
        raise PeerError("header_field_unknown", DROP_REMEDY, flags=flags, fragment=fragment)
    reflected_at = HEADER_BYTES + order_length
    payload_at = reflected_at + reflected_length
    if payload_at + payload_length != len(data):
        raise PeerError(
            "datagram_length_wrong", DROP_REMEDY, size=len(data), wanted=payload_at + payload_length
        )
    header = Header(
        *prefix,
        FLAGS[flags],
        fragment_index,
        fragment_count,
        msg_seq_num,
        ack_view_num,
        ack,
        back,
        timestamp,
        order_watermark,
        order_committed,
    )
    order_bytes = data[HEADER_BYTES:reflected_at]
    return Message(
        header, order_start, order_bytes, reflected_start, data[reflected_at:payload_at], data[payload_at:]
    )
