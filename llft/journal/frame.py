"""The file format of a journal, shared by its writer and its reader (D-22).

    file    magic "LLFTJRNL", schema version u32, then frames
    frame   payload length u32, CRC-32 of the payload u32, payload        (all little endian)
    payload JSON in ASCII: [type name, field, ...], tuples as lists

JSON, because a journal outlives the program that wrote it and must be readable with nothing
but this docstring; a length and a checksum, because a process that is killed leaves half a frame.
"""

from __future__ import annotations

import json
import struct
import zlib

from llft.journal.record import SCHEMA_VERSION, Record

MAGIC = b"LLFTJRNL"
HEADER = struct.Struct("<8sI")
FRAME = struct.Struct("<II")

MAX_PAYLOAD_BYTES = 1 << 20
"""Larger ones are neither written nor believed: a reader takes no memory on a length's word."""

PAYLOAD_START = b'["'
"""How every payload begins, which lets a reader look for frames after damage."""

_encode_json = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


def file_header() -> bytes:
    return HEADER.pack(MAGIC, SCHEMA_VERSION)


def encode_record(record: Record) -> bytes:
    """The whole frame of a record. Named tuples are JSON arrays, nested ones too."""
    payload = _encode_json((type(record).__name__, *record)).encode("ascii")
    return FRAME.pack(len(payload), zlib.crc32(payload)) + payload
