"""The layout of a datagram, little endian without padding:

    prefix   constant for one direction of a connection and a pair of views, but for the message type:
             whoever receives many datagrams recognises them by comparing bytes with the last one
    dynamic  what changes with every message
    order bytes, reflected bytes, payload; their lengths are in the dynamic part

The fields are those of the paper's message header figure, with the additions that
`messages.Header` explains. `view` is precedence, primary view number, host id, process id, start.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct, error
from typing import Final, NamedTuple

from llft.errors import MisuseError, PeerError
from llft.identifiers import BirthId, GroupId, Role, ViewId
from llft.wire.messages import WIRE_VERSION, Header, MessageFlag, MessageType

PREFIX: Final = Struct("<BBBBIII" + 2 * "IIIIQ" + "QQ")
"""version, message_type, role, waits_for_commit, source_group_id, dest_group_id, conn_seq_num, source view,
dest view, view_base, view_start"""
PREFIX_BYTES: Final = PREFIX.size

DYNAMIC: Final = Struct("<HHHHHIIIIQQQQQQ")
"""flags, fragment_index, fragment_count, order_length, reflected_length, msg_seq_num, ack_view_num, ack,
payload_length, back, timestamp, order_watermark, order_committed, order_start, reflected_start"""
DYNAMIC_BYTES: Final = DYNAMIC.size

HEADER_BYTES: Final = PREFIX_BYTES + DYNAMIC_BYTES

MESSAGE_TYPES: Final = {int(member): member for member in MessageType}
ROLES: Final = {int(member): member for member in Role}
FLAG_LIMIT: Final = 2 * max(MessageFlag)
FLAGS: Final = tuple(MessageFlag(bits) for bits in range(FLAG_LIMIT))
"""Every combination of flags, because making one costs more than unpacking the header."""

_FLAGS_FIELD: Final = Struct("<H")

DROP_REMEDY: Final = "drop the datagram; check that all replicas run the same version"


def flags_of(data: bytes) -> int:
    """Of an encoded message."""
    flags: int = _FLAGS_FIELD.unpack_from(data, PREFIX_BYTES)[0]
    return flags


class Prefix(NamedTuple):
    """The decoded prefix: the first fields of a Header, in its order."""

    message_type: MessageType
    source_group_id: GroupId
    dest_group_id: GroupId
    conn_seq_num: int
    role: Role
    source_view: ViewId
    dest_view: ViewId
    view_base: int
    view_start: int
    waits_for_commit: bool


def pack_prefix(header: Header) -> bytes:
    source, dest = header.source_view, header.dest_view
    if header.message_type not in MESSAGE_TYPES or header.role not in ROLES:
        raise MisuseError("header_field_unknown", "use MessageType and Role", header=header)
    try:
        return PREFIX.pack(
            WIRE_VERSION,
            header.message_type,
            header.role,
            header.waits_for_commit,
            header.source_group_id,
            header.dest_group_id,
            header.conn_seq_num,
            source[0],
            source[1],
            *source[2],
            dest[0],
            dest[1],
            *dest[2],
            header.view_base,
            header.view_start,
        )
    except error as reason:
        raise MisuseError("header_field_out_of_range", str(reason), header=header) from None


@lru_cache(maxsize=1024)
def unpack_prefix(data: bytes) -> Prefix:
    """`data` is exactly PREFIX_BYTES long. Remembered, since few prefixes make up all the traffic."""
    if len(data) != PREFIX_BYTES:
        raise PeerError("datagram_truncated", DROP_REMEDY, size=len(data))
    version, type_number, role_number, waits, source, dest, connection, *rest = PREFIX.unpack(data)
    if version != WIRE_VERSION:
        raise PeerError("wire_version_unknown", DROP_REMEDY, version=version)
    message_type, role = MESSAGE_TYPES.get(type_number), ROLES.get(role_number)
    if message_type is None:
        raise PeerError("message_type_unknown", DROP_REMEDY, message_type=type_number)
    if role is None or waits > 1:
        raise PeerError("role_unknown", DROP_REMEDY, role=role_number, waits=waits)
    source_view = ViewId(rest[0], rest[1], BirthId(*rest[2:5]))
    dest_view = ViewId(rest[5], rest[6], BirthId(*rest[7:10]))
    return Prefix(
        message_type,
        source,
        dest,
        connection,
        role,
        source_view,
        dest_view,
        rest[10],
        rest[11],
        bool(waits),
    )
