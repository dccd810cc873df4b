"""The preamble: the first bytes on every virtual connection, from the side that connects.

Groups are numbers and programs speak of hosts and ports, so the connecting side says which of the program's
listeners it wants and who it is. Replicas then answer accept() and getpeername() alike, because the bytes
are part of the connection's stream like all others. A gateway that was asked to connect to the outside
answers with how the real connect ended.

    inbound    to a server       which address of the program is wanted, and who the client is
    outbound   to a gateway      which address of the outside is wanted
    answer     from a gateway    errno of the real connect (0: connected), and the real socket's own address

Eighty bytes: magic, version, kind, errno (16 bits), two addresses, zeros. An address is a family (0: none,
4, 6), a zero, a port and sixteen bytes, of which IPv4 uses the first four. Hosts are numeric: names are
resolved before.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from llft.errors import MisuseError, PeerError

PREAMBLE_BYTES: Final = 80

_LAYOUT: Final = struct.Struct("!4sBBHBBH16sBBH16s32s")
_MAGIC, _VERSION = b"LLFT", 1
_INBOUND, _OUTBOUND, _ANSWER = 1, 2, 3
_ERRNO_MAX: Final = 4095
_REMEDY: Final = "the peer speaks another protocol; close this connection"


class Address(NamedTuple):
    """A numeric host and a port, as the program says them."""

    host: str
    port: int


NO_ADDRESS: Final = Address("", 0)


class Inbound(NamedTuple):
    destination: Address
    source: Address


class Outbound(NamedTuple):
    destination: Address


class Answer(NamedTuple):
    """`error` is an errno; 0: connected."""

    error: int
    local: Address = NO_ADDRESS


Preamble = Inbound | Outbound | Answer


def pack(preamble: Preamble) -> bytes:
    """Exactly PREAMBLE_BYTES bytes."""
    if isinstance(preamble, Inbound):
        return _join(_INBOUND, 0, preamble.destination, preamble.source)
    if isinstance(preamble, Outbound):
        return _join(_OUTBOUND, 0, preamble.destination, NO_ADDRESS)
    if not 0 <= preamble.error <= _ERRNO_MAX:
        raise MisuseError("errno_out_of_range", "give a Linux errno", error=preamble.error)
    return _join(_ANSWER, preamble.error, NO_ADDRESS, preamble.local)


def unpack(data: bytes) -> Preamble:
    """The preamble that these bytes are; PeerError if they are none."""
    if len(data) != PREAMBLE_BYTES:
        raise PeerError("preamble_size", _REMEDY, size=len(data))
    magic, version, kind, error, *addresses, rest = _LAYOUT.unpack(data)
    if magic != _MAGIC or version != _VERSION or any(rest):
        raise PeerError("preamble_not_recognised", _REMEDY, magic=magic, version=version)
    first, second = _unpack_address(*addresses[:4]), _unpack_address(*addresses[4:])
    if kind == _INBOUND and first.host and second.host and not error:
        return Inbound(first, second)
    if kind == _OUTBOUND and first.host and second == NO_ADDRESS and not error:
        return Outbound(first)
    if kind == _ANSWER and first == NO_ADDRESS and error <= _ERRNO_MAX:
        return Answer(error, second)
    raise PeerError("preamble_malformed", _REMEDY, kind=kind, error=error)


def _join(kind: int, error: int, first: Address, second: Address) -> bytes:
    head = (_MAGIC, _VERSION, kind, error)
    return _LAYOUT.pack(*head, *_pack_address(first), *_pack_address(second), bytes(32))


def _pack_address(address: Address) -> tuple[int, int, int, bytes]:
    if address == NO_ADDRESS:
        return (0, 0, 0, b"")
    if not 0 <= address.port <= 65_535:
        raise MisuseError("port_out_of_range", "give a port from 0 to 65535", address=address)
    packed = _pack_six(address) if ":" in address.host else _pack_four(address)
    return (6 if len(packed) == 16 else 4, 0, address.port, packed)


def _unpack_address(family: int, zero: int, port: int, packed: bytes) -> Address:
    if family == 6 and not zero:
        return Address(_format_six(packed), port)
    if family == 4 and not zero and not any(packed[4:]):
        return Address(".".join(str(byte) for byte in packed[:4]), port)
    if family or zero or port or any(packed):
        raise PeerError("preamble_address", _REMEDY, family=family, port=port)
    return NO_ADDRESS


def _pack_four(address: Address) -> bytes:
    parts = address.host.split(".")
    if len(parts) != 4 or not all(part.isascii() and part.isdigit() and int(part) < 256 for part in parts):
        raise _not_numeric(address)
    return bytes(int(part) for part in parts)


def _pack_six(address: Address) -> bytes:
    """Colon-separated groups of hexadecimal digits, at most one run of zeros left out."""
    head, gap, tail = address.host.partition("::")
    try:
        first, last = _groups(head), _groups(tail)
    except ValueError:
        raise _not_numeric(address) from None
    missing = 8 - len(first) - len(last)
    if missing < 1 if gap else missing:
        raise _not_numeric(address)
    return struct.pack("!8H", *first, *[0] * missing, *last)


def _groups(text: str) -> list[int]:
    groups = [int(group, 16) for group in text.split(":")] if text else []
    if any(not 0 <= group <= 0xFFFF for group in groups):
        raise ValueError
    return groups


def _format_six(packed: bytes) -> str:
    """The longest run of two or more zero groups is left out, like inet_ntop does."""
    groups = [f"{group:x}" for group in struct.unpack("!8H", packed)]
    start, length = 0, 1
    for index in range(8):
        run = 0
        while index + run < 8 and groups[index + run] == "0":
            run += 1
        if run > length:
            start, length = index, run
    if length == 1:
        return ":".join(groups)
    return ":".join(groups[:start]) + "::" + ":".join(groups[start + length :])


def _not_numeric(address: Address) -> MisuseError:
    return MisuseError("address_not_numeric", "resolve names before connecting", address=address)
