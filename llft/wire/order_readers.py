"""Reads single entries of an order stream, for `order_decoder`.

A reader takes (buffer, position of the entry, context) and gives (entry, position after it). Law: it
changes the context only as its last act, so that an entry that is not whole yet changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from llft.errors import PeerError
from llft.identifiers import BirthId, ViewId
from llft.wire.order_context import OrderContext
from llft.wire.order_entries import (
    CHECKPOINT,
    CONNECTION,
    DATA_BYTES_MAX,
    GENERAL,
    KIND_MASK,
    MUTEX,
    NEW_COUNT,
    NEW_ITEM,
    NEW_PICK,
    NEW_THREAD,
    PRIMARY_VIEW,
    REMOTE_VIEW,
    RUN,
    RUN_MAX,
    SOCKET,
    TIME,
    U32_MAX,
    U64_MAX,
    VIEW_BASES_MAX,
    WAKE,
    Entry,
)
from llft.wire.varint import get_uvarint, unzigzag

REMEDY: Final = "the stream is damaged or of another version: reset and rejoin"
_S64: Final = 1 << 63


class Wanted(IndexError):
    """Not yet: the entry does not end before `size` bytes of the buffer are there. So a long entry that
    comes in many pieces is not read anew with each of them."""

    def __init__(self, size: int) -> None:
        self.size = size
        super().__init__(size)


Reading = tuple[Entry, int]


def get_head(buffer: bytearray, head: int, position: int, context: OrderContext) -> tuple[int, int, int]:
    pick, thread = context.pick, context.thread
    if head & NEW_PICK:
        delta, position = get_uvarint(buffer, position)
        pick += unzigzag(delta)
    if head & NEW_THREAD:
        thread, position = get_uvarint(buffer, position)
    if not 0 <= pick <= U64_MAX or thread > U32_MAX:
        raise PeerError("order_head_out_of_range", REMEDY, pick=pick, thread=thread)
    return pick, thread, position


def get_fd(buffer: bytearray, head: int, position: int, context: OrderContext) -> tuple[int, int]:
    if not head & NEW_ITEM:
        return context.fd, position
    fd, position = get_uvarint(buffer, position)
    if fd > U32_MAX:
        raise PeerError("order_fd_out_of_range", REMEDY, fd=fd)
    return fd, position


def get_run(buffer: bytearray, position: int) -> tuple[int, int]:
    """How many entries follow the first one of the run."""
    run, position = get_uvarint(buffer, position)
    if run > RUN_MAX - 2:
        raise PeerError("order_run_too_long", REMEDY, run=run)
    return run + 1, position


def _get_identifier(buffer: bytearray, position: int) -> tuple[int, int]:
    identifier, position = get_uvarint(buffer, position)
    if identifier > U64_MAX:
        raise PeerError("order_identifier_out_of_range", REMEDY, identifier=identifier)
    return identifier, position


def _get_count(
    buffer: bytearray, position: int, context: OrderContext, key: int, head: int
) -> tuple[int, int]:
    if head & NEW_COUNT:
        count, position = get_uvarint(buffer, position)
    else:
        count = context.counts.get(key, 0) + 1
    if count > U64_MAX:
        raise PeerError("order_count_out_of_range", REMEDY, count=count)
    return count, position


def _get_data(buffer: bytearray, position: int) -> tuple[bytes, int]:
    size, position = get_uvarint(buffer, position)
    if size > DATA_BYTES_MAX:
        raise PeerError("order_data_too_long", REMEDY, size=size)
    if size > len(buffer) - position:
        raise Wanted(position + size)
    return bytes(buffer[position : position + size]), position + size


def _get_view(buffer: bytearray, position: int) -> tuple[ViewId, int]:
    values = []
    for _ in range(5):
        value, position = get_uvarint(buffer, position)
        values.append(value)
    precedence, primary_view_num, host_id, pid, start_ns = values
    if max(precedence, primary_view_num, host_id, pid) > U32_MAX or start_ns > U64_MAX:
        raise PeerError("order_view_out_of_range", REMEDY)
    return ViewId(precedence, primary_view_num, BirthId(host_id, pid, start_ns)), position


def _refuse_flags(head: int, unknown: int) -> None:
    if head & unknown:
        raise PeerError("order_flags_unknown", REMEDY, head=head)


def _read_mutex(buffer: bytearray, position: int, context: OrderContext) -> Reading:
    head = buffer[position]
    pick, thread, position = get_head(buffer, head, position + 1, context)
    mutex, position = _get_identifier(buffer, position)
    key = mutex << 4 | MUTEX
    count, position = _get_count(buffer, position, context, key, head)
    result = 1
    if head & NEW_ITEM:
        number, position = get_uvarint(buffer, position)
        result = unzigzag(number)
        if not -_S64 <= result < _S64:
            raise PeerError("order_result_out_of_range", REMEDY, result=result)
    context.pick, context.thread = pick, thread
    context.note_count(key, count)
    return (MUTEX, pick, thread, mutex, count, result), position


def _read_time(buffer: bytearray, position: int, context: OrderContext) -> Reading:
    head = buffer[position]
    _refuse_flags(head, RUN)
    pick, thread, position = get_head(buffer, head, position + 1, context)
    clock_id = context.clock_id
    if head & NEW_ITEM:
        number, position = get_uvarint(buffer, position)
        clock_id = unzigzag(number)
    delta, position = get_uvarint(buffer, position)
    value_ns = context.clocks.get(clock_id, 0) + unzigzag(delta)
    if not (-_S64 <= value_ns < _S64 and -(1 << 31) <= clock_id < 1 << 31):
        raise PeerError("order_time_out_of_range", REMEDY, clock_id=clock_id, value_ns=value_ns)
    context.pick, context.thread = pick, thread
    context.note_clock(clock_id, value_ns)
    return (TIME, pick, thread, clock_id, value_ns), position


def _read_socket(buffer: bytearray, position: int, context: OrderContext) -> Reading:
    head = buffer[position]
    pick, thread, position = get_head(buffer, head, position + 1, context)
    fd, position = get_fd(buffer, head, position, context)
    key = fd << 4 | SOCKET
    count, position = _get_count(buffer, position, context, key, head)
    data, position = _get_data(buffer, position)
    context.pick, context.thread, context.fd = pick, thread, fd
    context.note_count(key, count)
    return (SOCKET, pick, thread, fd, count, data), position


def _read_general(buffer: bytearray, position: int, context: OrderContext) -> Reading:
    head = buffer[position]
    _refuse_flags(head, NEW_ITEM)
    pick, thread, position = get_head(buffer, head, position + 1, context)
    operation, position = _get_identifier(buffer, position)
    key = operation << 4 | GENERAL
    count, position = _get_count(buffer, position, context, key, head)
    data, position = _get_data(buffer, position)
    context.pick, context.thread = pick, thread
    context.note_count(key, count)
    return (GENERAL, pick, thread, operation, count, data), position


def _read_decision(buffer: bytearray, position: int, context: OrderContext) -> Reading:
    head = buffer[position]
    _refuse_flags(head, NEW_ITEM | NEW_COUNT)
    pick, thread, position = get_head(buffer, head, position + 1, context)
    context.pick, context.thread = pick, thread
    return (head & KIND_MASK, pick, thread), position


def _read_primary_view(buffer: bytearray, position: int, context: OrderContext) -> Reading:
    _refuse_flags(buffer[position], ~KIND_MASK)
    view, position = _get_view(buffer, position + 1)
    number, position = get_uvarint(buffer, position)
    if number > VIEW_BASES_MAX:
        raise PeerError("order_view_bases_too_many", REMEDY, number=number)
    bases = []
    for index in range(number):
        try:
            fd, after = get_uvarint(buffer, position)
            base, after = get_uvarint(buffer, after)
        except IndexError:
            # Two bytes a pair at least: each time that much nearer, so few attempts in all.
            raise Wanted(position + 2 * (number - index)) from None
        if fd > U32_MAX or base > U64_MAX:
            raise PeerError("order_view_base_out_of_range", REMEDY, fd=fd, base=base)
        bases.append((fd, base))
        position = after
    return (PRIMARY_VIEW, view, tuple(bases)), position


def _read_remote_view(buffer: bytearray, position: int, context: OrderContext) -> Reading:
    _refuse_flags(buffer[position], ~KIND_MASK)
    fd, position = get_uvarint(buffer, position + 1)
    view, position = _get_view(buffer, position)
    where, position = get_uvarint(buffer, position)
    if fd > U32_MAX or where > U64_MAX:
        raise PeerError("order_remote_view_out_of_range", REMEDY, fd=fd, position=where)
    return (REMOTE_VIEW, fd, view, where), position


def _read_connection(buffer: bytearray, position: int, context: OrderContext) -> Reading:
    _refuse_flags(buffer[position], ~KIND_MASK)
    what, position = get_uvarint(buffer, position + 1)
    numbers = []
    for _ in range(4):
        number, position = get_uvarint(buffer, position)
        numbers.append(number)
    if what > 255 or max(numbers) > U32_MAX:
        raise PeerError("order_connection_out_of_range", REMEDY, what=what, numbers=tuple(numbers))
    return (CONNECTION, what, *numbers), position


READERS: Final[dict[int, Callable[[bytearray, int, OrderContext], Reading]]] = {
    MUTEX: _read_mutex,
    TIME: _read_time,
    SOCKET: _read_socket,
    GENERAL: _read_general,
    WAKE: _read_decision,
    CHECKPOINT: _read_decision,
    PRIMARY_VIEW: _read_primary_view,
    REMOTE_VIEW: _read_remote_view,
    CONNECTION: _read_connection,
}
