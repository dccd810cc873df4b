"""Variable-length integers: seven bits a byte, least significant first, the high bit says "more".

Readers take (data, position) and give (value, position after it). A read beyond the end raises
IndexError: whoever reads decides whether that is a truncation (a datagram) or only "not yet here"
(the order stream). A number has exactly one encoding, so padding with zero groups is refused.
"""

from __future__ import annotations

from typing import Final

from llft.errors import PeerError

VARINT_BYTES_MAX: Final = 10
"""Seventy bits: enough for the zigzag difference of any two 64-bit numbers."""


def put_uvarint(out: bytearray, value: int) -> None:
    """Append a non-negative integer; the caller has checked its range."""
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)


def get_uvarint(data: bytes | bytearray, position: int) -> tuple[int, int]:
    byte = data[position]
    if byte < 128:
        return byte, position + 1
    value = byte & 127
    for index in range(1, VARINT_BYTES_MAX):
        byte = data[position + index]
        value |= (byte & 127) << (7 * index)
        if byte < 128:
            if byte == 0:
                raise PeerError("varint_padded", "the peer's encoder is wrong; drop what it sent")
            return value, position + index + 1
    raise PeerError("varint_too_long", "the peer's encoder is wrong; drop what it sent")


def zigzag(value: int) -> int:
    """Signed to unsigned, small magnitudes to small numbers."""
    return value << 1 if value >= 0 else ((-value) << 1) - 1


def unzigzag(value: int) -> int:
    return (value >> 1) ^ -(value & 1)
