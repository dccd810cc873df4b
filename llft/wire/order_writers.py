"""Writes single entries of an order stream, for `order_encoder`.

A writer takes (context, entry) and gives the entry's bytes. Law: it checks all fields before it changes the
context, as its last act, so that an entry that is refused changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from llft.identifiers import ViewId
from llft.wire.order_context import OrderContext
from llft.wire.order_entries import (
    CHECKPOINT,
    CONNECTION,
    DATA_BYTES_MAX,
    GENERAL,
    MUTEX,
    NEW_COUNT,
    NEW_ITEM,
    NEW_PICK,
    NEW_THREAD,
    PRIMARY_VIEW,
    REMOTE_VIEW,
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


def item_head(kind: int, context: OrderContext, pick: int, thread: int, fd: int) -> bytearray:
    out = _head(kind, context, pick, thread)
    if fd != context.fd:
        check_range("fd", fd, 0, U32_MAX)
        out[0] |= NEW_ITEM
        put_uvarint(out, fd)
    return out


def put_size(out: bytearray, size: int) -> bytearray:
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


def _write_mutex(context: OrderContext, entry: Entry) -> bytearray:
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


def _write_time(context: OrderContext, entry: Entry) -> bytearray:
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


def _write_socket(context: OrderContext, entry: Entry) -> bytearray:
    _, pick, thread, fd, count, data = entry
    out = item_head(SOCKET, context, pick, thread, fd)
    key = fd << 4 | SOCKET
    _put_count(out, context, key, count)
    _put_data(out, data)
    context.pick, context.thread, context.fd = pick, thread, fd
    context.note_count(key, count)
    return out


def _write_general(context: OrderContext, entry: Entry) -> bytearray:
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


def _write_decision(context: OrderContext, entry: Entry) -> bytearray:
    kind, pick, thread = entry
    out = _head(kind, context, pick, thread)
    context.pick, context.thread = pick, thread
    return out


def write_primary_view(context: OrderContext, entry: Entry) -> bytearray:
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


def _write_remote_view(context: OrderContext, entry: Entry) -> bytearray:
    _, fd, view, position = entry
    out = bytearray((REMOTE_VIEW,))
    check_range("fd", fd, 0, U32_MAX)
    put_uvarint(out, fd)
    _put_view(out, view)
    check_range("position", position, 0, U64_MAX)
    put_uvarint(out, position)
    return out


def _write_connection(context: OrderContext, entry: Entry) -> bytearray:
    _, what, fd, client_group_id, server_group_id, conn_seq_num = entry
    out = bytearray((CONNECTION,))
    check_range("what", what, 0, 255)
    put_uvarint(out, what)
    for value in (fd, client_group_id, server_group_id, conn_seq_num):
        check_range("connection", value, 0, U32_MAX)
        put_uvarint(out, value)
    return out


WRITERS: Final[dict[int, Callable[[OrderContext, Entry], bytearray]]] = {
    MUTEX: _write_mutex,
    TIME: _write_time,
    SOCKET: _write_socket,
    GENERAL: _write_general,
    WAKE: _write_decision,
    CHECKPOINT: _write_decision,
    PRIMARY_VIEW: write_primary_view,
    REMOTE_VIEW: _write_remote_view,
    CONNECTION: _write_connection,
}
