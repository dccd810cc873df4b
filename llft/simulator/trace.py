"""The trace: one hash over everything that happened, and readable lines when wanted.

What is hashed is a fixed-size binary form of each line (instant, process, kind, checksum of
the data), because formatting 50 000 lines costs more than simulating them. Lines are made
only while tracing; the hash is the same with and without, since it never looks at them.

    0.012345 S.2 (backup v1/p1) <- REPLY C1>S#1 seq=4 view=v1/p1 120 bytes
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from struct import Struct
from typing import Any
from zlib import crc32

from llft.errors import PeerError
from llft.instant import format_instant

_LINE = Struct("<QHHI")
_FLUSH_BYTES = 1 << 16


class Trace:
    """Takes every event of the world. `tracing` says whether lines are kept."""

    __slots__ = ("_buffer", "_hash", "group_names", "lines", "tracing")

    def __init__(self, tracing: bool) -> None:
        self.tracing = tracing
        self.lines: list[str] = []
        self.group_names: dict[int, str] = {}
        self._buffer = bytearray()
        self._hash = blake2b(digest_size=16)

    def add(self, now_ns: int, process_number: int, kind: int, value: int) -> None:
        """Hash one line. `kind` and `value` must follow from the simulation alone (no id, no hash)."""
        buffer = self._buffer
        buffer += _LINE.pack(now_ns, process_number, kind, value & 0xFFFFFFFF)
        if len(buffer) > _FLUSH_BYTES:
            self._hash.update(buffer)
            buffer.clear()

    def say(self, now_ns: int, who: str, text: str) -> None:
        """Keep a line. Call only while `tracing`."""
        self.lines.append(f"{format_instant(now_ns)} {who} {text}")

    def hexdigest(self) -> str:
        self._hash.update(self._buffer)
        self._buffer.clear()
        return self._hash.hexdigest()

    def name_of(self, group_id: int) -> str:
        return self.group_names.get(group_id, str(group_id))

    def describe(self, data: bytes) -> str:
        """A datagram in words: for people, so it may be slow."""
        try:
            header = _decoder()(data).header
        except (PeerError, ImportError) as error:
            return f"undecodable {len(data)} bytes, crc {crc32(data):08x} ({type(error).__name__})"
        source, dest = self.name_of(header.source_group_id), self.name_of(header.dest_group_id)
        if header.role:
            link = f"{dest}>{source}#{header.conn_seq_num}"
        else:
            link = f"{source}>{dest}#{header.conn_seq_num}"
        flags = f" {header.flags!r}" if header.flags else ""
        return (
            f"{header.message_type.name} {link} seq={header.msg_seq_num} ack={header.ack} "
            f"view={header.source_view}{flags} {len(data)} bytes"
        )


def _decoder() -> Callable[[bytes], Any]:
    """The codec, looked up late: the world itself never needs to parse a datagram."""
    from llft.wire.codec import decode

    return decode
