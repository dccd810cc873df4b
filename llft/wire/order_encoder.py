"""Writes an order stream: what a primary does with every non-deterministic result (line 8, line 28).

READ and SEND come first and take a short way, because a busy server makes hardly anything else. Law:
an entry that is refused (MisuseError) leaves stream and context as they were; so every coder checks
all fields before it changes the context.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from llft.errors import MisuseError
from llft.identifiers import ViewId
from llft.wire.order_context import OrderContext
from llft.wire.order_entries import (
    DATA_BYTES_MAX,
    GENERAL,
    MUTEX,
    NEW_COUNT,
    NEW_ITEM,
    NEW_PICK,
    NEW_THREAD,
    PRIMARY_VIEW,
    READ,
    REMOTE_VIEW,
    RUN,
    RUN_MAX,
    SEND,
    SIZE_MAX,
    SOCKET,
    TIME,
    U32_MAX,
    U64_MAX,
    VIEW_BASES_MAX,
    WAKE,
    Entry,
    check_range,
)
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
        else:
            coder = _CODERS.get(kind)
            if coder is None:
                raise MisuseError("order_entry_kind_unknown", "see llft.wire.order", kind=kind)
            self.pending += coder(self.context, entry)
            self._open = 0
        self.count += 1

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
            else:
                pending += _put_size(bytearray((READ,)), size)
        else:
            pending += _put_size(_item_head(READ, context, pick, thread, fd), size)
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
            pending += _item_head(SEND, context, pick, thread, fd)
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


def _head(kind: int, context: OrderContext, pick: int, thread: int) -> bytearray:
    """The first byte, and those of pick and thread that differ from the entry before."""
    out = bytearray((kind,))
    if pick != context.pick:
        check_range("pick", pick, 0, U64_MAX)
        out[0] |= NEW_PICK
        put_uvarint(out, zigzag(pick - context.pick))
    if thread != context.thread:
        check_range("thread", thread, 0, U32_MAX)
        out[0] |= NEW_THREAD
        put_uvarint(out, thread)
    return out


def _item_head(kind: int, context: OrderContext, pick: int, thread: int, fd: int) -> bytearray:
    out = _head(kind, context, pick, thread)
    if fd != context.fd:
        check_range("fd", fd, 0, U32_MAX)
        out[0] |= NEW_ITEM
        put_uvarint(out, fd)
    return out


def _put_size(out: bytearray, size: int) -> bytearray:
    check_range("size", size, 0, SIZE_MAX)
    put_uvarint(out, size)
    return out


def _put_count(out: bytearray, context: OrderContext, key: int, count: int) -> None:
    if count != context.counts.get(key, 0) + 1:
        check_range("count", count, 0, U64_MAX)
        out[0] |= NEW_COUNT
        put_uvarint(out, count)
    elif count > U64_MAX:
        check_range("count", count, 0, U64_MAX)


def _put_data(out: bytearray, data: bytes) -> None:
    check_range("data length", len(data), 0, DATA_BYTES_MAX)
    put_uvarint(out, len(data))
    out += data


def _put_view(out: bytearray, view: ViewId) -> None:
    precedence, primary_view_num, (host_id, pid, start_ns) = view
    for value in (precedence, primary_view_num, host_id, pid):
        check_range("view", value, 0, U32_MAX)
        put_uvarint(out, value)
    check_range("view", start_ns, 0, U64_MAX)
    put_uvarint(out, start_ns)


def _code_mutex(context: OrderContext, entry: Entry) -> bytearray:
    _, pick, thread, mutex, count, result = entry
    out = _head(MUTEX, context, pick, thread)
    check_range("mutex", mutex, 0, U64_MAX)
    put_uvarint(out, mutex)
    key = mutex << 4 | MUTEX
    _put_count(out, context, key, count)
    if result != 1:
        check_range("result", result, -(1 << 63), (1 << 63) - 1)
        out[0] |= NEW_ITEM
        put_uvarint(out, zigzag(int(result)))
    context.pick, context.thread = pick, thread
    context.note_count(key, count)
    return out


def _code_time(context: OrderContext, entry: Entry) -> bytearray:
    _, pick, thread, clock_id, value_ns = entry
    out = _head(TIME, context, pick, thread)
    check_range("clock_id", clock_id, -(1 << 31), (1 << 31) - 1)
    check_range("value_ns", value_ns, -(1 << 63), (1 << 63) - 1)
    if clock_id != context.clock_id:
        out[0] |= NEW_ITEM
        put_uvarint(out, zigzag(clock_id))
    put_uvarint(out, zigzag(value_ns - context.clocks.get(clock_id, 0)))
    context.pick, context.thread = pick, thread
    context.note_clock(clock_id, value_ns)
    return out


def _code_socket(context: OrderContext, entry: Entry) -> bytearray:
    _, pick, thread, fd, count, data = entry
    out = _item_head(SOCKET, context, pick, thread, fd)
    key = fd << 4 | SOCKET
    _put_count(out, context, key, count)
    _put_data(out, data)
    context.pick, context.thread, context.fd = pick, thread, fd
    context.note_count(key, count)
    return out


def _code_general(context: OrderContext, entry: Entry) -> bytearray:
    _, pick, thread, operation, count, data = entry
    out = _head(GENERAL, context, pick, thread)
    check_range("operation", operation, 0, U64_MAX)
    put_uvarint(out, operation)
    key = operation << 4 | GENERAL
    _put_count(out, context, key, count)
    _put_data(out, data)
    context.pick, context.thread = pick, thread
    context.note_count(key, count)
    return out


def _code_wake(context: OrderContext, entry: Entry) -> bytearray:
    _, pick, thread = entry
    out = _head(WAKE, context, pick, thread)
    context.pick, context.thread = pick, thread
    return out


def _code_primary_view(context: OrderContext, entry: Entry) -> bytearray:
    _, view, view_bases = entry
    out = bytearray((PRIMARY_VIEW,))
    _put_view(out, view)
    check_range("number of view_bases", len(view_bases), 0, VIEW_BASES_MAX)
    put_uvarint(out, len(view_bases))
    for fd, base in view_bases:
        check_range("fd", fd, 0, U32_MAX)
        check_range("base", base, 0, U64_MAX)
        put_uvarint(out, fd)
        put_uvarint(out, base)
    return out


def _code_remote_view(context: OrderContext, entry: Entry) -> bytearray:
    _, fd, view, position = entry
    out = bytearray((REMOTE_VIEW,))
    check_range("fd", fd, 0, U32_MAX)
    put_uvarint(out, fd)
    _put_view(out, view)
    check_range("position", position, 0, U64_MAX)
    put_uvarint(out, position)
    return out


_CODERS: Final[dict[int, Callable[[OrderContext, Entry], bytearray]]] = {
    MUTEX: _code_mutex,
    TIME: _code_time,
    SOCKET: _code_socket,
    GENERAL: _code_general,
    WAKE: _code_wake,
    PRIMARY_VIEW: _code_primary_view,
    REMOTE_VIEW: _code_remote_view,
}
