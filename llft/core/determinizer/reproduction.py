"""What a backup does with an entry: the same operation, with the primary's result (lines 38-41).

`reproduce` takes the operation that the backup's own thread invoked and the entry that is its turn. It
checks that the two are about the same thing, performs the operation's effect on the connections
and the clock, and returns the result, or MORE if the operation has further steps. A backup
asks nothing of the outside; whatever does not fit is a DivergenceError that names both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from llft.core.determinizer.counts import note_count
from llft.core.determinizer.operation_ids import operation_id
from llft.core.determinizer.operations import (
    WOULD_BLOCK,
    Accept,
    Close,
    Connect,
    ConnectOutcome,
    Failure,
    HalfClose,
    Obtain,
    Operation,
    RandomBytes,
    ReadClock,
    Receive,
    Result,
    Select,
    Send,
)
from llft.core.determinizer.outside import MORE, Outside, Stage
from llft.core.determinizer.replay_gate import COUNTED, OperationId, operation_id_of
from llft.core.determinizer.sockets import LISTENER, FromPeeked, MessageKind, SocketOutcome, decode_outcome
from llft.errors import DivergenceError
from llft.identifiers import ConnectionId, ThreadId
from llft.wire.order import GENERAL, READ, SEND, SOCKET, Entry

Reproduced = Result | Literal[Stage.MORE]


def diverged(thread: ThreadId, operation: object, expected: object, count: int = 0) -> DivergenceError:
    """The thread did `operation`; the log has `expected`."""
    expected_id = operation_id_of(expected) if isinstance(expected, tuple) and len(expected) > 3 else None
    return DivergenceError(
        "replica_left_the_order",
        "this replica resets and rejoins; compare its inputs and its program with the primary's",
        operation_id=expected_id,
        thread=thread,
        count=count,
        expected=expected,
        found=operation,
    )


class Reproduction:
    def __init__(self, outside: Outside) -> None:
        self._outside = outside
        self._connections = outside.connections
        self._performers: dict[type, Callable[[ThreadId, Any, Entry], Reproduced]] = {
            ReadClock: self._read_clock,
            RandomBytes: self._random,
            Obtain: self._obtain,
            Connect: self._connect,
            ConnectOutcome: self._connect_outcome,
            Accept: self._accept,
            Receive: self._receive,
            Send: self._send,
            HalfClose: self._half_close,
            Close: self._close,
            Select: self.select,
        }

    def operation_id(self, thread: ThreadId, operation: Operation) -> OperationId:
        """O1 of the call's next step (line 35)."""
        if type(operation) is Connect:
            outside = self._outside
            return SOCKET, outside.connecting.get(thread) or outside.opened.get(thread, LISTENER)
        return operation_id(thread, operation)

    def next_count(self, operation_id: OperationId) -> int:
        """N1 of a counted call on O1 (line 36)."""
        return self._outside.counts.get(operation_id, 0) + 1

    def check(self, thread: ThreadId, operation: Operation, entry: Entry) -> None:
        """T, O and N of the entry are those of the call; count it."""
        operation_id = self.operation_id(thread, operation)
        if entry[2] != thread or operation_id_of(entry) != operation_id:
            raise diverged(thread, operation, entry, self.next_count(operation_id))
        if entry[0] in COUNTED:
            self._count(thread, operation, entry, self.next_count(operation_id))

    def _count(self, thread: ThreadId, operation: Operation, entry: Entry, count: int) -> None:
        if entry[4] != count:
            raise diverged(thread, operation, entry, count)
        note_count(self._outside.counts, operation_id_of(entry), count, self._connections)

    def reproduce(self, thread: ThreadId, operation: Operation, entry: Entry) -> Reproduced:
        self.check(thread, operation, entry)
        return self._performers[type(operation)](thread, operation, entry)

    def _receive(self, thread: ThreadId, operation: Receive, entry: Entry) -> Reproduced:
        fd, descriptors = operation.fd, self._outside.descriptors
        if fd in descriptors.peeked:
            return self._receive_peeked(thread, operation, entry)
        if entry[0] != READ:
            return self._failure(thread, operation, entry, operation.blocking)
        size = entry[4]
        if size > operation.limit:
            raise diverged(thread, operation, entry)
        data = self._connections.take(fd, size)
        return descriptors.keep_peeked(fd, data) if operation.peek else data

    def _receive_peeked(self, thread: ThreadId, operation: Receive, entry: Entry) -> Reproduced:
        fd, descriptors = operation.fd, self._outside.descriptors
        known = len(descriptors.peeked[fd])
        if entry[0] == READ:
            if not operation.peek or not 0 < entry[4] <= operation.limit - known:
                raise diverged(thread, operation, entry)
            return descriptors.keep_peeked(fd, self._connections.take(fd, entry[4]))
        size = min(operation.limit, known)
        if self._outcome(thread, operation, entry) != FromPeeked(size):
            raise diverged(thread, operation, entry)
        return descriptors.take_peeked(fd, size, again=operation.peek)

    def _send(self, thread: ThreadId, operation: Send, entry: Entry) -> Reproduced:
        if entry[0] != SEND:
            return self._failure(thread, operation, entry, operation.blocking)
        self._connections.write(operation.fd, operation.payload, "data", entry[4], entry[5])
        return len(operation.payload)

    def _half_close(self, thread: ThreadId, operation: HalfClose, entry: Entry) -> Reproduced:
        return self._end(thread, operation, entry, "half_close")

    def _close(self, thread: ThreadId, operation: Close, entry: Entry) -> Reproduced:
        unsettled = self._outside.descriptors.closed(operation.fd)
        result = self._end(thread, operation, entry, "close")
        return None if unsettled else result

    def _end(
        self, thread: ThreadId, operation: HalfClose | Close, entry: Entry, kind: MessageKind
    ) -> Reproduced:
        if entry[0] != SEND:
            return self._failure(thread, operation, entry, True)
        self._connections.write(operation.fd, b"", kind, entry[4], entry[5])
        return None

    def _connect(self, thread: ThreadId, operation: Connect, entry: Entry) -> Reproduced:
        outside = self._outside
        if thread in outside.opened:
            if entry[0] != SEND:
                raise diverged(thread, operation, entry)
            fd = outside.opened.pop(thread)
            self._connections.write(fd, b"", "connect", entry[4], entry[5])
            if not operation.blocking:
                outside.descriptors.unsettled[fd] = None
                return fd
            outside.connecting[thread] = fd
            return MORE
        outcome = self._outcome(thread, operation, entry)
        if thread in outside.connecting:
            if outcome is not True and not isinstance(outcome, Failure):
                raise diverged(thread, operation, entry)
            fd = outside.connecting.pop(thread)
            if isinstance(outcome, Failure):
                return outcome
            self._connections.connected(fd)
            return fd
        if type(outcome) is not int or outcome != operation.group_id:
            raise diverged(thread, operation, entry)
        outside.opened[thread] = self._connections.open(operation.group_id)
        return MORE

    def _connect_outcome(self, thread: ThreadId, operation: ConnectOutcome, entry: Entry) -> Reproduced:
        outcome = self._outcome(thread, operation, entry)
        if outcome is True:
            self._outside.descriptors.unsettled.pop(operation.fd, None)
            self._connections.connected(operation.fd)
            return True
        return self._failure(thread, operation, entry, True)

    def _accept(self, thread: ThreadId, operation: Accept, entry: Entry) -> Reproduced:
        outcome = self._outcome(thread, operation, entry)
        if isinstance(outcome, ConnectionId):
            return (self._connections.accept(outcome), outcome.client_group_id)
        return self._failure(thread, operation, entry, operation.blocking)

    def select(self, thread: ThreadId, operation: Select, entry: Entry) -> tuple[int, ...]:
        if entry[0] not in (SOCKET, GENERAL):
            raise diverged(thread, operation, entry)
        fds = decode_outcome(entry[5])
        if not isinstance(fds, tuple) or isinstance(fds, (Failure, ConnectionId, FromPeeked)):
            raise diverged(thread, operation, entry)
        if any(-fd not in operation.writing if fd < 0 else fd not in operation.fds for fd in fds):
            raise diverged(thread, operation, entry)
        del self._outside.deadlines[thread]
        return fds

    def _read_clock(self, thread: ThreadId, operation: ReadClock, entry: Entry) -> Reproduced:
        outside = self._outside
        value_ns: int = entry[4]
        outside.clock.observe(operation.clock_id, value_ns, outside.local_clock(operation.clock_id))
        return value_ns

    def _random(self, thread: ThreadId, operation: RandomBytes, entry: Entry) -> Reproduced:
        data = bytes(entry[5])
        if len(data) != operation.size:
            raise diverged(thread, operation, entry)
        return data

    def _obtain(self, thread: ThreadId, operation: Obtain, entry: Entry) -> Reproduced:
        return bytes(entry[5])

    def _failure(self, thread: ThreadId, operation: Operation, entry: Entry, blocking: bool) -> Failure:
        """The entry must say why the call failed; only a non-blocking one fails with EAGAIN."""
        outcome = self._outcome(thread, operation, entry)
        if not isinstance(outcome, Failure) or (blocking and outcome == WOULD_BLOCK):
            raise diverged(thread, operation, entry)
        return outcome

    @staticmethod
    def _outcome(thread: ThreadId, operation: Operation, entry: Entry) -> SocketOutcome:
        if entry[0] != SOCKET:
            raise diverged(thread, operation, entry)
        return decode_outcome(entry[5])
