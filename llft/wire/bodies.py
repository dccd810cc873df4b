"""The payloads that are not the application's: one body per message type, as a table of fields.

A body is coded field by field with the coders named in `_FIELDS`, in the order of its dataclass; so a new
body is a row. Laws as in `codec`: any bytes give a body or a PeerError, lists are bounded by their limit
and by the bytes that remain before they are built, and each body has one encoding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct, error
from typing import Any, Final, NamedTuple

from llft.errors import MisuseError, PeerError
from llft.identifiers import BirthId, Member, ViewId
from llft.wire.messages import (
    Body,
    HeartbeatBody,
    MembershipAckBody,
    MembershipBody,
    MessageType,
    NackBody,
    NewPrimaryViewAckBody,
    NewPrimaryViewBody,
    OrderRange,
    ProposeBackupBody,
    ProposePrimaryBody,
    StateAckBody,
    StateBody,
)

MEMBERS_MAX: Final = 1024
NACK_POSITIONS_MAX: Final = 4096
FRAGMENTS_MAX: Final = 65_535
HELD_RANGES_MAX: Final = 1024

_REMEDY: Final = "drop the message; check that all replicas run the same version"
_U16: Final = Struct("<H")
_U32: Final = Struct("<I")
_U64: Final = Struct("<Q")
_BIRTH: Final = Struct("<IIQ")
_VIEW: Final = Struct("<IIIIQ")


class Coder(NamedTuple):
    """Writes a value to the end of a buffer; reads one at (data, position), giving the position after it."""

    write: Callable[[bytearray, Any], None]
    read: Callable[[bytes, int], tuple[Any, int]]


def encode_body(body: Body) -> bytes:
    row = _FIELDS.get(type(body))
    if row is None:
        raise MisuseError("body_unknown", "only the bodies of llft.wire.messages travel", body=body)
    out = bytearray()
    try:
        for name, coder in row:
            coder.write(out, getattr(body, name))
    except error as reason:
        raise MisuseError("body_field_out_of_range", str(reason), body=body) from None
    return bytes(out)


def decode_body(message_type: MessageType, payload: bytes) -> Body:
    body_type = BODY_TYPES.get(message_type)
    if body_type is None:
        raise PeerError("body_unexpected", _REMEDY, message_type=message_type, size=len(payload))
    values = []
    position = 0
    try:
        for _, coder in _FIELDS[body_type]:
            value, position = coder.read(payload, position)
            values.append(value)
    except error:
        raise PeerError("body_truncated", _REMEDY, message_type=message_type, size=len(payload)) from None
    if position != len(payload):
        raise PeerError("body_trailing_bytes", _REMEDY, message_type=message_type, size=len(payload))
    return body_type(*values)


def _number(form: Struct) -> Coder:
    def write(out: bytearray, value: int) -> None:
        out += form.pack(value)

    def read(data: bytes, position: int) -> tuple[int, int]:
        (value,) = form.unpack_from(data, position)
        return value, position + form.size

    return Coder(write, read)


def _write_bool(out: bytearray, value: bool) -> None:
    out.append(1 if value else 0)


def _read_bool(data: bytes, position: int) -> tuple[bool, int]:
    _require(data, position, 1)
    if data[position] > 1:
        raise PeerError("body_bool_unknown", _REMEDY, value=data[position])
    return data[position] == 1, position + 1


def _write_birth(out: bytearray, birth_id: BirthId) -> None:
    out += _BIRTH.pack(*birth_id)


def _read_birth(data: bytes, position: int) -> tuple[BirthId, int]:
    return BirthId._make(_BIRTH.unpack_from(data, position)), position + _BIRTH.size


def _write_view(out: bytearray, view: ViewId) -> None:
    out += _VIEW.pack(view[0], view[1], *view[2])


def _read_view(data: bytes, position: int) -> tuple[ViewId, int]:
    precedence, number, host_id, pid, start_ns = _VIEW.unpack_from(data, position)
    return ViewId(precedence, number, BirthId(host_id, pid, start_ns)), position + _VIEW.size


def _write_bytes(out: bytearray, data: bytes) -> None:
    out += _U32.pack(len(data))
    out += data


def _read_bytes(data: bytes, position: int) -> tuple[bytes, int]:
    (size,) = _U32.unpack_from(data, position)
    position += 4
    _require(data, position, size)
    return data[position : position + size], position + size


def _require(data: bytes, position: int, size: int) -> None:
    if size > len(data) - position:
        raise PeerError("body_truncated", _REMEDY, wanted=size, remaining=len(data) - position)


def _list(name: str, limit: int, item: Coder, item_bytes_min: int) -> Coder:
    """A number of items (16 bits), then the items, none shorter than `item_bytes_min`."""

    def write(out: bytearray, items: Sequence[Any]) -> None:
        if len(items) > limit:
            raise MisuseError("body_list_too_long", f"at most {limit} {name}", size=len(items))
        out += _U16.pack(len(items))
        for value in items:
            item.write(out, value)

    def read(data: bytes, position: int) -> tuple[tuple[Any, ...], int]:
        (size,) = _U16.unpack_from(data, position)
        position += 2
        if size > limit:
            raise PeerError("body_list_too_long", _REMEDY, what=name, size=size)
        _require(data, position, size * item_bytes_min)
        items = []
        for _ in range(size):
            value, position = item.read(data, position)
            items.append(value)
        return tuple(items), position

    return Coder(write, read)


def _row(form: Callable[..., Any], *coders: Coder) -> Coder:
    """A tuple of fixed fields, made by `form` from its values."""

    def write(out: bytearray, values: Any) -> None:
        for coder, value in zip(coders, values, strict=True):
            coder.write(out, value)

    def read(data: bytes, position: int) -> tuple[Any, int]:
        values = []
        for coder in coders:
            value, position = coder.read(data, position)
            values.append(value)
        return form(*values), position

    return Coder(write, read)


def _write_range(out: bytearray, held: OrderRange) -> None:
    _write_view(out, held.view)
    out += _U64.pack(held.view_start)
    out += _U64.pack(held.start)
    _write_bytes(out, held.data)


U16: Final = _number(_U16)
U32: Final = _number(_U32)
U64: Final = _number(_U64)
BOOL: Final = Coder(_write_bool, _read_bool)
BIRTH: Final = Coder(_write_birth, _read_birth)
VIEW: Final = Coder(_write_view, _read_view)
BYTES: Final = Coder(_write_bytes, _read_bytes)
MEMBERS: Final = _list("members", MEMBERS_MAX, _row(Member, BIRTH, U32), 20)
FRAGMENTS: Final = _list("fragments", FRAGMENTS_MAX, U16, 2)
POSITIONS: Final = _list("positions", NACK_POSITIONS_MAX, _row(lambda *pair: pair, U64, FRAGMENTS), 10)
HELD: Final = _list(
    "ranges", HELD_RANGES_MAX, Coder(_write_range, _row(OrderRange, VIEW, U64, U64, BYTES).read), 44
)

_FIELDS: Final[dict[type[Body], tuple[tuple[str, Coder], ...]]] = {
    NackBody: (
        ("sender", BIRTH),
        ("client_group_id", U32),
        ("server_group_id", U32),
        ("conn_seq_num", U32),
        ("positions", POSITIONS),
        ("order_start", U64),
        ("order_end", U64),
    ),
    HeartbeatBody: (
        ("sender", BIRTH),
        ("beat", U64),
        ("echo", U64),
        ("order_end", U64),
        ("watermark", U64),
        ("executed", U64),
        ("change_num", U64),
    ),
    ProposePrimaryBody: (
        ("sender", BIRTH),
        ("old_view", VIEW),
        ("change_num", U64),
        ("old_membership", MEMBERS),
        ("membership", MEMBERS),
    ),
    MembershipAckBody: (
        ("sender", BIRTH),
        ("view", VIEW),
        ("change_num", U64),
        ("needs_state", BOOL),
        ("order_end", U64),
    ),
    NewPrimaryViewBody: (
        ("settled", BOOL),
        ("order_end", U64),
        ("delivered_up_to", U64),
        ("delivered_digest", U64),
    ),
    NewPrimaryViewAckBody: (
        ("view", VIEW),
        ("definite", BOOL),
        ("checked", BOOL),
        ("received_view", VIEW),
        ("received_up_to", U64),
        ("received_digest", U64),
        ("last_sent", U64),
        ("held", HELD),
    ),
    ProposeBackupBody: (("sender", BIRTH), ("former", BIRTH), ("withdrawn", VIEW), ("fingerprint", BYTES)),
    MembershipBody: (
        ("subject", BIRTH),
        ("change_num", U64),
        ("next_precedence", U32),
        ("old_membership", MEMBERS),
        ("membership", MEMBERS),
    ),
    StateBody: (("recipient", BIRTH), ("order_offset", U64), ("digest", U64), ("state", BYTES)),
    StateAckBody: (("sender", BIRTH), ("order_offset", U64)),
}

BODY_TYPES: Final[dict[MessageType, type[Body]]] = {
    MessageType.NACK: NackBody,
    MessageType.HEARTBEAT: HeartbeatBody,
    MessageType.PROPOSE_PRIMARY: ProposePrimaryBody,
    MessageType.PROPOSE_PRIMARY_ACK: MembershipAckBody,
    MessageType.NEW_PRIMARY_VIEW: NewPrimaryViewBody,
    MessageType.NEW_PRIMARY_VIEW_ACK: NewPrimaryViewAckBody,
    MessageType.PROPOSE_BACKUP: ProposeBackupBody,
    MessageType.ACCEPT_BACKUP: MembershipBody,
    MessageType.REMOVE_BACKUP: MembershipBody,
    MessageType.MEMBERSHIP_ACK: MembershipAckBody,
    MessageType.STATE: StateBody,
    MessageType.STATE_ACK: StateAckBody,
    MessageType.HELD: StateAckBody,
}
"""Request, Reply, FirstAck, SecondAck and KeepAlive have none."""
