"""Reads an order stream: what a backup does with the order information of its primary (line 33).

Laws: an entry changes the context only when it is whole; what is not whole is no error but "not yet";
memory is bounded by the bytes fed, since a run is counted down and not expanded; malformed
bytes raise PeerError, again at every further call, and move nothing.
"""

from __future__ import annotations

from llft.errors import PeerError
from llft.wire.many_times import decode_times
from llft.wire.order_context import OrderContext
from llft.wire.order_entries import (
    KIND_MASK,
    MUTEX,
    NEW_ITEM,
    NEW_PICK,
    NEW_THREAD,
    READ,
    RUN,
    SEND,
    SIZE_MAX,
    SOCKET,
    TIME,
    U64_MAX,
    Entry,
)
from llft.wire.order_locks import decode_locks, locks_at, mutex_head
from llft.wire.order_readers import READERS, REMEDY, Wanted, get_fd, get_head, get_run
from llft.wire.varint import get_uvarint, unzigzag


class OrderDecoder:
    """`count` entries were handed out, the last of which ends at `offset`. While a run is being handed
    out `offset` stays before it, and `context` is already the one after it: `between_entries`
    tells when (context, offset, count) belong together."""

    __slots__ = (
        "_buffer",
        "_position",
        "_run",
        "_run_entry",
        "_run_size",
        "_wanted",
        "context",
        "count",
        "offset",
    )

    def __init__(self, context: OrderContext, offset: int = 0, count: int = 0) -> None:
        self.context = context
        self.offset = offset
        self.count = count
        self._buffer = bytearray()
        self._position = 0
        self._wanted = 0
        """No use in trying before the buffer is so long."""
        self._run = 0
        """Entries of the run still to be handed out."""
        self._run_entry: Entry = ()
        self._run_size = 0

    @property
    def entry_end(self) -> int:
        """Where the bytes of the last entry handed out end; in the midst of a run that is beyond `offset`.
        Whoever notes "ordered up to here" for an entry must note this one."""
        return self.offset + self._run_size

    @property
    def end(self) -> int:
        """The offset up to which the stream was fed."""
        return self.offset + self._run_size + len(self._buffer) - self._position

    @property
    def exhausted(self) -> bool:
        """All that was fed has been handed out."""
        return self._run == 0 and self._position == len(self._buffer)

    @property
    def between_entries(self) -> bool:
        return self._run == 0

    def feed(self, data: bytes) -> None:
        """The next bytes of the stream, from offset `end` on."""
        if self._position:
            del self._buffer[: self._position]
            self._wanted -= self._position
            self._position = 0
        self._buffer += data

    def drop_undecoded(self) -> None:
        """Forget what was fed beyond the last whole entry: a new primary view may go on differently."""
        del self._buffer[self._position :]
        self._wanted = 0

    def next(self) -> Entry | None:
        """The next entry, or None: more bytes are needed."""
        if self._run:
            return self._next_of_run()
        if self._wanted > len(self._buffer):
            return None
        try:
            return self._decode()
        except IndexError:
            return None

    def alike_behind(self, entry: Entry) -> list[Entry]:
        """The last entry handed out was this one, of TIME, SOCKET or GENERAL: those that follow it, as far as
        they are whole, and are like it but for later values, or next counts and short data. Maybe not all."""
        if self._run:
            return []
        if entry[0] != TIME:
            return self._counted_behind(entry)
        if decode_times is None:
            return []
        entries, position = decode_times(self._buffer, self._position, entry)
        if entries:
            self._pass(len(entries), position)
            self.context.note_clock(entry[3], entries[-1][4])
        return entries

    def locks_behind(self, entry: Entry) -> list[int]:
        """The last entry handed out was this one, of MUTEX: counts of those that follow it, as far as they
        are whole and differ from it in nothing else. Maybe not all."""
        buffer, position, count = self._buffer, self._position, entry[4]
        head = mutex_head(entry[3])
        counts: list[int] = []
        if entry[5] != 1 or not buffer.startswith(head[1:], position + 1):
            return counts
        if decode_locks is not None:
            counts, position = decode_locks(buffer, position, head, count)
        else:
            counts, position = locks_at(buffer, position, head, count)
        if counts:
            self._pass(len(counts), position)
            self.context.note_count(entry[3] << 4 | MUTEX, counts[-1])
        return counts

    def _counted_behind(self, entry: Entry) -> list[Entry]:
        kind, pick, thread, identifier, count, _ = entry
        buffer, position = self._buffer, self._position
        behind, size = 1 if kind == SOCKET else 2, len(buffer)
        entries: list[Entry] = []
        while position + behind < size and buffer[position] == kind:
            start = position + behind + 1
            end = start + buffer[start - 1]
            if buffer[start - 1] > 127 or end > size or count >= U64_MAX:
                break
            if behind == 2 and (identifier > 127 or buffer[position + 1] != identifier):
                break
            count += 1
            entries.append((kind, pick, thread, identifier, count, bytes(buffer[start:end])))
            position = end
        if entries:
            self._pass(len(entries), position)
            self.context.note_count(identifier << 4 | kind, count)
        return entries

    def _pass(self, count: int, position: int) -> None:
        self.offset += position - self._position
        self._position = position
        self.count += count

    def _decode(self) -> Entry:
        buffer = self._buffer
        position = self._position
        head = buffer[position]
        kind = head & KIND_MASK
        if kind != READ and kind != SEND:
            return self._decode_other(kind)
        context = self.context
        pick, thread, fd = context.pick, context.thread, context.fd
        position += 1
        if head & (NEW_PICK | NEW_THREAD | NEW_ITEM):
            pick, thread, position = get_head(buffer, head, position, context)
            fd, position = get_fd(buffer, head, position, context)
        number = buffer[position]
        if number < 128:
            position += 1
        else:
            number, position = get_uvarint(buffer, position)
        if kind == SEND:
            return self._decode_send((SEND, pick, thread, fd), number, head & RUN, position)
        if number > SIZE_MAX:
            raise PeerError("order_size_out_of_range", REMEDY, size=number)
        if head & RUN:
            self._run, position = get_run(buffer, position)
        context.pick, context.thread, context.fd = pick, thread, fd
        return self._consumed((READ, pick, thread, fd, number), position)

    def _decode_send(self, start: Entry, delta: int, is_run: int, position: int) -> Entry:
        context = self.context
        timestamp = context.timestamp + 1 + unzigzag(delta)
        after = position + 4
        run = 0
        if is_run:
            run, after = get_run(self._buffer, after)
        elif after > len(self._buffer):
            raise Wanted(after)
        if timestamp < 0 or timestamp + run > U64_MAX:
            raise PeerError("order_timestamp_out_of_range", REMEDY, timestamp=timestamp)
        digest = int.from_bytes(self._buffer[position : position + 4], "little")
        _, context.pick, context.thread, context.fd = start
        context.timestamp = timestamp + run
        self._run = run
        return self._consumed((*start, timestamp, digest), after)

    def _decode_other(self, kind: int) -> Entry:
        reader = READERS.get(kind)
        if reader is None:
            raise PeerError("order_entry_kind_unknown", REMEDY, kind=kind, offset=self.offset)
        try:
            entry, position = reader(self._buffer, self._position, self.context)
        except Wanted as wanted:
            self._wanted = wanted.size
            raise
        return self._consumed(entry, position)

    def _consumed(self, entry: Entry, position: int) -> Entry:
        size = position - self._position
        self._position = position
        self.count += 1
        if self._run == 0:
            self.offset += size
            return entry
        self._run_size = size
        self._run_entry = entry
        return entry if entry[0] == READ else (*entry[:5], None)

    def _next_of_run(self) -> Entry:
        self._run -= 1
        self.count += 1
        entry = self._run_entry
        if entry[0] == SEND:
            kind, pick, thread, fd, timestamp, digest = entry
            entry = self._run_entry = (kind, pick, thread, fd, timestamp + 1, digest)
        if self._run == 0:
            self.offset += self._run_size
            self._run_size = 0
            return entry
        return entry if entry[0] == READ else (*entry[:5], None)
