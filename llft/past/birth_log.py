"""The birth log: the completions that the program was given since it was born, in order.

A copy of the program that is given the same completions is in the same state: under the token exactly one
thread runs between two of them, so there is nothing else that it could depend on. The log is therefore the
checkpoint of a replica (D-21, replay from birth), and a joiner gets its bytes from a member.

In ordered mode threads run side by side, and the log also says when a thread *called*: a completion is given
to a replayed program when all calls that came before it have been made again, so that no lock changes
hands before its holder released it. And it says what was called, in brief: a program that does not keep what
its threads share under locks may write something else in its repeated past, and must not come out of it.

One event: number of the thread (varint), a tag, and what the tag asks for. `operation` is a check: the
kind of call that is being completed.

    START       the key of its function
    CALLED      four bytes: `brief` of the operation
    a result    NONE | TRUE | FALSE | INT | BYTES | TUPLE | FAILURE; the kind of operation, a byte; the value
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from llft.core.determinizer import operations
from llft.core.determinizer.operations import Failure, Operation, Result, Send
from llft.errors import DivergenceError, PeerError
from llft.identifiers import ThreadId
from llft.past.long_bytes import LongBytes
from llft.wire.checksum import crc32
from llft.wire.many_times import pack_times
from llft.wire.varint import get_uvarint, put_uvarint, unzigzag, zigzag

START, CALLED, NONE, TRUE, FALSE, INT, BYTES, TUPLE, FAILURE, RESTORED = range(10)

OPERATION_KINDS: dict[type, int] = {
    kind: number
    for number, kind in enumerate(sorted(operations.Operation.__args__, key=lambda t: t.__name__))
}
_KIND_NAMES: Final = {number: kind.__name__ for kind, number in OPERATION_KINDS.items()}
UNKNOWN_KIND: Final = 254
"""Of a completion that came while the program was still in its past."""
COMPLETED: Final = NONE


class Event(NamedTuple):
    """`what` is START, CALLED, or COMPLETED; RESTORED is in no log: between a head and what follows a state
    (`application.Restart`)."""

    what: int
    thread: ThreadId
    kind: int
    result: Result
    key: str = ""


class BirthLog:
    """Append-only at its end; what a checkpoint has made superfluous is dropped at its beginning.

    Positions count from birth, whatever was dropped. `length` and `digest` name the whole of it, from birth;
    `piece` gives bytes to whoever joins. `head` is kept beyond a drop: a program restored by hooks is
    replayed over it first (docs/CHECKPOINTS.md)."""

    def __init__(self, data: bytes = b"", *, start: int = 0, digest: int = 0, head: bytes = b"") -> None:
        """`digest` is that of all that came before `start`."""
        self.blocks = self._data = LongBytes(data)
        """For their memory: `room` is until the next `go_on_in`, and nothing else happens meanwhile."""
        self.start = start
        self.head = head
        self.digest_before = digest
        self.digest = crc32(data, digest)

    @property
    def length(self) -> int:
        return self.start + self._data.length

    @property
    def kept_bytes(self) -> int:
        return len(self.head) + self._data.length

    def started(self, thread: ThreadId, key: str) -> None:
        """`key` says which of the spawned functions it runs."""
        text = key.encode()
        self._append(thread, bytes((START, len(text))) + text)

    def called(self, thread: ThreadId, brief: int) -> None:
        self._append(thread, bytes((CALLED,)) + brief.to_bytes(4, "little"))

    def completed(self, thread: ThreadId, kind: int, result: Result) -> None:
        self._append(thread, encode_result(kind, result))

    def read_on(self, thread: ThreadId, kind: int, values: list[int]) -> None:
        """As many clock readings, one after the other."""
        head = bytearray()
        put_uvarint(head, thread)
        head += bytes((INT, kind))
        events = None if pack_times is None else pack_times(bytes(head), values)
        if events is None:
            self.completed_all(thread, kind, [*values])
        else:
            self.go_on(events)

    def go_on(self, events: bytes | bytearray) -> None:
        """Whole events, as they are."""
        self.digest = crc32(events, self.digest)
        self._data.append(events)

    def go_on_in(self, pieces: list[bytes], digest: int, *, placed: int = 0) -> None:
        """The same in pieces, behind so many bytes in that room. Somebody knows the digest of the whole."""
        self._data.take(placed)
        self._data.append_all(pieces)
        self.digest = digest

    def completed_all(self, thread: ThreadId, kind: int, results: list[Result]) -> None:
        """Results of calls of one kind, one after the other."""
        head, events = bytearray(), bytearray()
        put_uvarint(head, thread)
        for result in results:
            events += head + encode_result(kind, result)
        self.go_on(events)

    def completed_unseen(self, thread: ThreadId, result: Result) -> int:
        """The program has not made the call again yet; `name` says later what it was. Returns its place."""
        event = encode_result(UNKNOWN_KIND, result)
        self._append(thread, event)
        return self._data.length - len(event) + 1

    def name(self, place: int, kind: int) -> None:
        """All members must have the same bytes: what was unknown is known now. Rare, so it may cost."""
        self._data.put(place, kind)
        self.digest = self._data.digest(self._data.length, self.digest_before)

    def _append(self, thread: ThreadId, event: bytes) -> None:
        if thread < 128:
            self.go_on(bytes((thread,)) + event)
            return
        number = bytearray()
        put_uvarint(number, thread)
        self.go_on(bytes(number) + event)

    def piece(self, start: int, end: int) -> bytes:
        """Bytes from `start` to `end`, both kept (`has`)."""
        of_head = end <= len(self.head) and start < self.start
        return self.head[start:end] if of_head else self._data.piece(start - self.start, end - self.start)

    def has(self, start: int, end: int) -> bool:
        kept = self.start <= start <= end <= self.length
        return kept or (bool(self.head) and 0 <= start <= end <= len(self.head))

    def kept(self) -> bytes:
        return self._data.piece(0, self._data.length)

    def digest_at(self, position: int) -> int:
        """Of the log when it ended there, at a position that is kept."""
        if position == self.length:
            return self.digest
        return self._data.digest(position - self.start, self.digest_before)

    def go_on_from(self, position: int, data: bytes) -> None:
        """At somebody who follows another's log: what was here beyond a position was not of its history."""
        self.digest = crc32(data, self.digest_at(position))
        self._data.drop_from(position - self.start)
        self._data.append(data)

    def resumed(self, data: bytes) -> BirthLog:
        """The same log with `data` before what it has."""
        return BirthLog(data + self.kept(), start=self.start, digest=self.digest_before, head=self.head)

    def drop_before(self, position: int, digest: int, *, head_bytes: int = 0) -> None:
        """Forget what came before a position, but for the first `head_bytes` of all. `digest` was that of
        the log when it ended there."""
        assert self.start <= position <= self.length
        assert self.start == 0 or head_bytes <= len(self.head)
        if self.start == 0:
            self.head = self._data.piece(0, head_bytes)
        self._data.drop_before(position - self.start)
        self.start = position
        self.digest_before = digest


def encode_result(kind: int, result: Result) -> bytes:
    if result is None:
        return bytes((NONE, kind))
    if result is True:
        return bytes((TRUE, kind))
    if result is False:
        return bytes((FALSE, kind))
    if isinstance(result, bytes):
        out = bytearray((BYTES, kind))
        put_uvarint(out, len(result))
        return bytes(out) + result
    if isinstance(result, int):
        out = bytearray((INT, kind))
        put_uvarint(out, zigzag(result))
        return bytes(out)
    if isinstance(result, Failure):
        name = result.name.encode()
        return bytes((FAILURE, kind, result.definite, len(name))) + name
    out = bytearray((TUPLE, kind))
    put_uvarint(out, len(result))
    for number in result:
        put_uvarint(out, zigzag(number))
    return bytes(out)


def events(data: bytes) -> Iterator[Event]:
    """The events of a whole log. What is not one is a PeerError: it came from another process."""
    position, end = 0, len(data)
    try:
        while position < end:
            thread, position = get_uvarint(data, position)
            tag = data[position]
            if tag == CALLED:
                position += 5
                if position > end:
                    raise IndexError
                yield Event(CALLED, thread, 0, int.from_bytes(data[position - 4 : position], "little"))
                continue
            if tag == START:
                after = position + 2 + data[position + 1]
                yield Event(START, thread, 0, None, data[position + 2 : after].decode())
                position = after
                continue
            kind = data[position + 1]
            result, position = _decode_result(tag, data, position + 2)
            yield Event(COMPLETED, thread, kind, result)
    except IndexError:
        raise PeerError("birth_log_truncated", "fetch it again") from None


def _decode_result(tag: int, data: bytes, position: int) -> tuple[Result, int]:
    if tag == NONE:
        return None, position
    if tag in (TRUE, FALSE):
        return tag == TRUE, position
    if tag == INT:
        number, position = get_uvarint(data, position)
        return unzigzag(number), position
    if tag == BYTES:
        size, position = get_uvarint(data, position)
        if size > len(data) - position:
            raise IndexError
        return data[position : position + size], position + size
    if tag == FAILURE:
        size = data[position + 1]
        name = data[position + 2 : position + 2 + size].decode("utf-8", "replace")
        return Failure(name, bool(data[position])), position + 2 + size
    if tag == TUPLE:
        size, position = get_uvarint(data, position)
        numbers = []
        for _ in range(size):
            number, position = get_uvarint(data, position)
            numbers.append(unzigzag(number))
        return tuple(numbers), position
    raise PeerError("birth_log_event_unknown", "run the same version of LLFT at all replicas", tag=tag)


def brief(operation: Operation) -> int:
    """What it is about, and all that it writes."""
    if isinstance(operation, Send):
        return crc32(operation.payload, operation.fd)
    first: object = operation[0] if operation else 0
    return first & 0xFFFF_FFFF if isinstance(first, int) else 0


def briefs(data: bytes) -> dict[ThreadId, deque[int]]:
    """Of the calls in a log, by thread."""
    found: dict[ThreadId, deque[int]] = {}
    for event in events(data):
        if event.what == CALLED:
            assert isinstance(event.result, int)
            found.setdefault(event.thread, deque()).append(event.result)
    return found


def check_brief(thread: ThreadId, expected: int, found: int) -> None:
    """In ordered mode: what a replayed thread calls is what it called."""
    if expected != found:
        raise DivergenceError(
            "replay_diverged",
            "is all that the program's threads share under locks? If not, run it with --threads token",
            thread=thread,
            expected=expected,
            found=found,
        )


def check_kind(thread: ThreadId, expected: int, found: int) -> None:
    """A replayed program must make the calls that the log completes."""
    if expected not in (found, UNKNOWN_KIND):
        raise DivergenceError(
            "replay_diverged",
            "is the program the same at all replicas, and all it does in the interposition's table?",
            thread=thread,
            expected=_KIND_NAMES.get(expected, expected),
            found=_KIND_NAMES.get(found, found),
        )
