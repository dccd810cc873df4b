"""What both ends of an order stream know of the entries so far, and code the next one against.

Law: encoder and decoder change it in exactly the same way, entry by entry; so after the same
bytes it is equal at both, including the order of its tables, which decides what they forget.

The tables are bounded by forgetting the oldest entry, not by an error: fds are never used twice,
so a server that lives long enough passes any bound. A forgotten count costs a varint.
"""

from __future__ import annotations

from typing import Final

from llft.errors import PeerError
from llft.wire.order_entries import KIND_MASK, U32_MAX, U64_MAX
from llft.wire.varint import get_uvarint, put_uvarint, unzigzag, zigzag

OPERATIONS_MAX: Final = 65_536
CLOCKS_MAX: Final = 1_024
CONTEXT_VERSION: Final = 1
_REMEDY: Final = "ask another member for its state"
_KEY_MAX: Final = U64_MAX << 4 | KIND_MASK


class OrderContext:
    """`counts` maps (operation identifier << 4 | kind) to the last count; `clocks` maps a clock id to its
    last value."""

    __slots__ = ("clock_id", "clocks", "counts", "fd", "pick", "thread", "timestamp")

    def __init__(self) -> None:
        self.pick = 0
        self.thread = 0
        self.fd = 0
        self.timestamp = 0
        self.clock_id = 0
        self.clocks: dict[int, int] = {}
        self.counts: dict[int, int] = {}

    def note_count(self, key: int, count: int) -> None:
        counts = self.counts
        counts[key] = count
        if len(counts) > OPERATIONS_MAX:
            del counts[next(iter(counts))]

    def note_clock(self, clock_id: int, value_ns: int) -> None:
        self.clock_id = clock_id
        self.clocks[clock_id] = value_ns
        if len(self.clocks) > CLOCKS_MAX:
            del self.clocks[next(iter(self.clocks))]

    def copy(self) -> OrderContext:
        other = OrderContext()
        other.pick, other.thread, other.fd = self.pick, self.thread, self.fd
        other.timestamp, other.clock_id = self.timestamp, self.clock_id
        other.clocks, other.counts = dict(self.clocks), dict(self.counts)
        return other

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OrderContext) and self.pack() == other.pack()

    __hash__ = None  # type: ignore[assignment]

    def pack(self) -> bytes:
        """The context as bytes, for a State message."""
        out = bytearray((CONTEXT_VERSION,))
        for value in (self.pick, self.thread, self.fd, self.timestamp, zigzag(self.clock_id)):
            put_uvarint(out, value)
        put_uvarint(out, len(self.clocks))
        for clock_id, value_ns in self.clocks.items():
            put_uvarint(out, zigzag(clock_id))
            put_uvarint(out, zigzag(value_ns))
        put_uvarint(out, len(self.counts))
        for key, count in self.counts.items():
            put_uvarint(out, key)
            put_uvarint(out, count)
        return bytes(out)

    @classmethod
    def unpack(cls, data: bytes) -> OrderContext:
        try:
            return cls._unpack(data)
        except IndexError:
            raise PeerError("order_context_truncated", _REMEDY, size=len(data)) from None

    @classmethod
    def _unpack(cls, data: bytes) -> OrderContext:
        if data[0] != CONTEXT_VERSION:
            raise PeerError("order_context_version_unknown", _REMEDY, version=data[0])
        context = cls()
        context.pick, position = get_uvarint(data, 1)
        context.thread, position = get_uvarint(data, position)
        context.fd, position = get_uvarint(data, position)
        context.timestamp, position = get_uvarint(data, position)
        clock_id, position = get_uvarint(data, position)
        context.clock_id = unzigzag(clock_id)
        clocks, position = _get_table(data, position, CLOCKS_MAX)
        context.clocks = {unzigzag(clock): unzigzag(value) for clock, value in clocks.items()}
        context.counts, position = _get_table(data, position, OPERATIONS_MAX)
        if position != len(data):
            raise PeerError("order_context_trailing_bytes", _REMEDY, size=len(data))
        context._check()
        return context

    def _check(self) -> None:
        signed = [self.clock_id, *self.clocks]
        if (
            max(self.pick, self.timestamp, *self.counts.values(), 0) > U64_MAX
            or max(self.thread, self.fd) > U32_MAX
            or max(self.counts, default=0) > _KEY_MAX
            or any(not -(1 << 31) <= clock_id < 1 << 31 for clock_id in signed)
            or any(not -(1 << 63) <= value < 1 << 63 for value in self.clocks.values())
        ):
            raise PeerError("order_context_out_of_range", _REMEDY)


def _get_table(data: bytes, position: int, limit: int) -> tuple[dict[int, int], int]:
    size, position = get_uvarint(data, position)
    if size > limit or 2 * size > len(data) - position:
        raise PeerError("order_context_table_too_long", _REMEDY, size=size)
    table: dict[int, int] = {}
    for _ in range(size):
        key, position = get_uvarint(data, position)
        table[key], position = get_uvarint(data, position)
    if len(table) != size:
        raise PeerError("order_context_key_repeated", _REMEDY)
    return table, position
