"""Writes an order stream: what a primary does with every non-deterministic result (line 8, line 28).

READ and SEND take a short way of their own, because a busy server makes hardly anything else. Law: an entry
that is refused (MisuseError) leaves stream and context as they were.
"""

from __future__ import annotations

from llft.errors import MisuseError
from llft.wire.many_times import encode_times
from llft.wire.order_context import OrderContext
from llft.wire.order_entries import (
    GENERAL,
    PRIMARY_VIEW,
    READ,
    RUN,
    RUN_MAX,
    SEND,
    TIME,
    U32_MAX,
    U64_MAX,
    Entry,
)
from llft.wire.order_locks import encode_locks
from llft.wire.order_writers import WRITERS, item_head, put_size, write_primary_view
from llft.wire.varint import put_uvarint, zigzag


class OrderEncoder:
    """`pending` holds what was appended since the last `take`, `count` the entries so far (the
    last one's orderSeqNum), `context` what the next entry is coded against."""

    __slots__ = ("_base", "_open", "_open_at", "_run", "_run_at", "_size", "context", "count", "pending")

    def __init__(self, context: OrderContext, offset: int = 0, count: int = 0) -> None:
        self.context = context
        self.count = count
        self.pending = bytearray()
        self._base = offset
        self._open = 0
        """The kind of the entry that may still grow (READ or SEND), or 0."""
        self._open_at = 0
        self._run_at = 0
        self._run = 1
        self._size = 0

    @property
    def offset(self) -> int:
        """Where the stream ends, the open entry included."""
        return self._base + len(self.pending)

    def append(self, entry: Entry) -> None:
        kind = entry[0]
        if kind == READ:
            self._append_read(entry)
        elif kind == SEND:
            self._append_send(entry)
        elif kind == PRIMARY_VIEW:
            self.pending += write_primary_view(self.context, entry)  # clients wait for it
            self._open = 0
        else:
            writer = WRITERS.get(kind)
            if writer is None:
                raise MisuseError("order_entry_kind_unknown", "see llft.wire.order", kind=kind)
            self.pending += writer(self.context, entry)
            self._open = 0
        self.count += 1

    def append_readings(self, pick: int, thread: int, clock_id: int, values: list[int]) -> None:
        """Entries of clock readings that follow one another."""
        self.append((TIME, pick, thread, clock_id, values[0]))
        pieces = None if encode_times is None else encode_times(values)
        if pieces is None:
            for value_ns in values[1:]:
                self.append((TIME, pick, thread, clock_id, value_ns))
            return
        self.pending += pieces
        self.count += len(values) - 1
        self.context.note_clock(clock_id, values[-1])

    def append_counted(self, first: Entry, data: list[bytes]) -> None:
        """Entries that follow one another and differ from the first in counts, one more each, and data."""
        self.append(first)
        kind, _, _, identifier, count, _ = first
        pending, head = self.pending, bytearray((kind,))
        if kind == GENERAL:
            put_uvarint(head, identifier)
        for each in data[1:]:
            pending += head
            put_uvarint(pending, len(each))
            pending += each
        self.count += len(data) - 1
        self.context.note_count(identifier << 4 | kind, count + len(data) - 1)

    def append_locks(self, first: Entry, counts: list[int]) -> None:
        """Entries of a mutex that follow one another, and differ from the first in counts alone."""
        self.append(first)
        if len(counts) == 1:
            return
        kind, pick, thread, mutex, _, result = first
        if result != 1:
            for count in counts[1:]:
                self.append((kind, pick, thread, mutex, count, result))
            return
        self.pending += encode_locks(mutex, counts)
        self.count += len(counts) - 1
        self.context.note_count(mutex << 4 | kind, counts[-1])

    def go_on(self, size: int, count: int) -> None:
        """Somebody else wrote on (a dialogue): so many bytes, up to so many entries. Nothing is pending."""
        assert not self.pending, "what was recorded here comes first"
        self._base += size
        self.count = count
        self._open = 0

    def seal(self) -> None:
        """Close the open entry: the bytes so far never change again."""
        self._open = 0

    def take(self) -> bytes:
        """Seal, hand over everything appended since the last call, and forget it."""
        self._open = 0
        pending = self.pending
        data = bytes(pending)
        self._base += len(data)
        pending.clear()
        return data

    def _append_read(self, entry: Entry) -> None:
        _, pick, thread, fd, size = entry
        context = self.context
        pending = self.pending
        at = len(pending)
        if fd == context.fd and pick == context.pick and thread == context.thread:
            if self._open == READ and size == self._size and self._run < RUN_MAX:
                return self._lengthen_run()
            if 0 <= size < 128:
                pending.append(READ)
                pending.append(size)
            elif 128 <= size < 16_384:
                pending += bytes((READ, size & 0x7F | 0x80, size >> 7))
            else:
                pending += put_size(bytearray((READ,)), size)
        else:
            pending += put_size(item_head(READ, context, pick, thread, fd), size)
            context.pick, context.thread, context.fd = pick, thread, fd
        self._open = READ
        self._open_at = at
        self._run_at = len(pending)
        self._run = 1
        self._size = size
        return None

    def _append_send(self, entry: Entry) -> None:
        _, pick, thread, fd, timestamp, digest = entry
        if not (0 <= timestamp <= U64_MAX and type(digest) is int and 0 <= digest <= U32_MAX):
            raise MisuseError("order_send_out_of_range", "64 and 32 bits, unsigned", entry=entry)
        context = self.context
        pending = self.pending
        at = len(pending)
        delta = timestamp - context.timestamp - 1
        if fd == context.fd and pick == context.pick and thread == context.thread:
            if delta == 0 and self._open == SEND and self._run < RUN_MAX:
                pending[self._run_at - 4 : self._run_at] = digest.to_bytes(4, "little")
                context.timestamp = timestamp
                return self._lengthen_run()
            pending.append(SEND)
        else:
            pending += item_head(SEND, context, pick, thread, fd)
            context.pick, context.thread, context.fd = pick, thread, fd
        if 0 <= delta < 64:
            pending.append(delta << 1)
        else:
            put_uvarint(pending, zigzag(delta))
        pending += digest.to_bytes(4, "little")
        context.timestamp = timestamp
        self._open = SEND
        self._open_at = at
        self._run_at = len(pending)
        self._run = 1
        return None

    def _lengthen_run(self) -> None:
        pending = self.pending
        run = self._run = self._run + 1
        if run == 2:
            pending[self._open_at] |= RUN
            pending.append(0)
        elif run <= 129:
            pending[-1] = run - 2
        else:
            del pending[self._run_at :]
            put_uvarint(pending, run - 2)
