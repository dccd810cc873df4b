"""What the primary obtains from outside, and records (paper, determinizer figure, lines 23-28).

An *outside* operation is one whose result does not follow from the program: clock readings, random
bytes, everything on connections. `Outside.attempts` maps each to a function that performs it at the
primary: it returns the result, having recorded one entry (T, O, N, D), or BLOCKED, having
recorded nothing. Laws:

* One entry per step. Connect has three steps (`sockets` says why), and the table remembers which have
  been made, so that a log that ends between two of them can be continued by a new primary.
* `ready` changes nothing, and asks only.
* Deadlines (of Sleep, Park and Select) are this replica's own time: they are never recorded, only what
  came of them is.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Final, Literal

from llft.core.determinizer.clock import GroupClock, LocalClock
from llft.core.determinizer.counts import note_count
from llft.core.determinizer.deadlines import Deadlines
from llft.core.determinizer.descriptors import Descriptors
from llft.core.determinizer.operation_ids import RANDOM, obtaining_id, select_id
from llft.core.determinizer.operations import (
    BAD_DESCRIPTOR,
    IN_PROGRESS,
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
    Sleep,
)
from llft.core.determinizer.replay_gate import OperationId
from llft.core.determinizer.sockets import LISTENER, Connections, FromPeeked, SocketOutcome, encode_outcome
from llft.errors import UnsupportedOperationError
from llft.identifiers import ThreadId
from llft.instant import NEVER
from llft.wire.order import GENERAL, READ, SEND, SOCKET, TIME, Entry

DATA_BYTES_MAX: Final = 65_535


class Stage(Enum):
    """Instead of a result."""

    BLOCKED = "nothing there yet"
    MORE = "one step made, another one follows"


BLOCKED: Final = Stage.BLOCKED
MORE: Final = Stage.MORE

Attempt = Callable[[ThreadId, Any], Result | Literal[Stage.BLOCKED]]


class Outside:
    """The primary's source of results, and the state that a backup keeps for the day it is one."""

    def __init__(
        self,
        connections: Connections,
        record: Callable[[Entry], None],
        local_clock: LocalClock,
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self.connections = connections
        self.descriptors = Descriptors(connections)
        self.local_clock = local_clock
        self._record = record
        self._random_bytes = random_bytes
        self.clock = GroupClock()
        self.pick = 0
        self.now_ns = 0
        self.recorded_count = 0
        self.counts: dict[OperationId, int] = {}
        """N of each operation identifier (`counts`)."""
        self.deadlines = Deadlines()
        self.opened: dict[ThreadId, int] = {}
        """Connects whose CONNECT message is not sent yet, by the fd they got."""
        self.connecting: dict[ThreadId, int] = {}
        """Connects that wait for the outcome."""
        self.attempts: dict[type, Attempt] = {
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
            Select: self._select,
        }

    def record(self, entry: Entry) -> None:
        self.recorded_count += 1
        self._record(entry)

    def record_counted(self, kind: int, thread: ThreadId, identifier: int, data: object) -> None:
        """Lines 23-28 for the kinds that carry N."""
        operation_id = (kind, identifier)
        count = self.counts.get(operation_id, 0) + 1
        note_count(self.counts, operation_id, count, self.connections)
        self.record((kind, self.pick, thread, identifier, count, data))

    def set_deadline(self, thread: ThreadId, duration_ns: int) -> None:
        """A negative duration, and one beyond all instants, never ends."""
        endless = duration_ns < 0 or self.now_ns + duration_ns >= NEVER
        self.deadlines[thread] = NEVER if endless else self.now_ns + duration_ns

    def ready(self, thread: ThreadId, operation: Operation) -> bool:
        """Whether trying a blocked operation again would, as things are, complete it."""
        if isinstance(operation, Receive):
            return self.descriptors.readable(operation.fd)
        if isinstance(operation, Accept):
            return self.connections.pending_accept() is not None
        if isinstance(operation, Send):
            return self.descriptors.writable(operation.fd) is not False
        if isinstance(operation, Connect):
            return self.connections.connect_state(self.connecting[thread]) is not None
        if self.deadlines.get(thread, NEVER) <= self.now_ns:
            return True
        return isinstance(operation, Select) and self._selectable(operation)

    def can_block(self, thread: ThreadId, operation: Operation) -> bool:
        """Whether a primary may have gone on without completing this operation."""
        if isinstance(operation, Receive):
            return operation.blocking and operation.fd not in self.descriptors.peeked
        if isinstance(operation, (Send, Accept)):
            return operation.blocking
        if isinstance(operation, Connect):
            return thread in self.connecting
        return isinstance(operation, Sleep) or (isinstance(operation, Select) and operation.timeout_ns != 0)

    def _receive(self, thread: ThreadId, operation: Receive) -> Result | Literal[Stage.BLOCKED]:
        fd = operation.fd
        if fd in self.descriptors.peeked:
            return self._receive_peeked(thread, operation)
        size = self.descriptors.offer(fd, operation.limit)
        if size is None:
            return BLOCKED if operation.blocking else self._fail(thread, fd, WOULD_BLOCK)
        if isinstance(size, Failure):
            return self._fail(thread, fd, size)
        data = self._take(thread, fd, size)
        return self.descriptors.keep_peeked(fd, data) if operation.peek else data

    def _receive_peeked(self, thread: ThreadId, operation: Receive) -> Result:
        """Bytes are there already. Only a peek for more of them looks at the connection."""
        fd, descriptors = operation.fd, self.descriptors
        known = len(descriptors.peeked[fd])
        if operation.peek and operation.limit > known:
            more = descriptors.offer(fd, operation.limit - known)
            if isinstance(more, int) and more > 0:
                return descriptors.keep_peeked(fd, self._take(thread, fd, more))
        size = min(operation.limit, known)
        self._record_socket(thread, fd, FromPeeked(size))
        return descriptors.take_peeked(fd, size, again=operation.peek)

    def _take(self, thread: ThreadId, fd: int, size: int) -> bytes:
        data = self.connections.take(fd, size)
        self.record((READ, self.pick, thread, fd, size))
        return data

    def _send(self, thread: ThreadId, operation: Send) -> Result | Literal[Stage.BLOCKED]:
        fd = operation.fd
        writable = self.descriptors.writable(fd)
        if writable is True:
            payload = operation.payload
            timestamp, digest = self.connections.write(fd, payload, "data", None, None)
            self.record((SEND, self.pick, thread, fd, timestamp, digest))
            return len(payload)
        if isinstance(writable, Failure):
            return self._fail(thread, fd, writable)
        return BLOCKED if operation.blocking else self._fail(thread, fd, WOULD_BLOCK)

    def _half_close(self, thread: ThreadId, operation: HalfClose) -> Result:
        failure = self.descriptors.failure(operation.fd)
        if failure is not None:
            return self._fail(thread, operation.fd, failure)
        timestamp, digest = self.connections.write(operation.fd, b"", "half_close", None, None)
        self.record((SEND, self.pick, thread, operation.fd, timestamp, digest))
        return None

    def _close(self, thread: ThreadId, operation: Close) -> Result:
        """A broken connection is closed like any other, for its descriptor has to be given back. One that
        could not be made is gone already; the application need not know."""
        unsettled = self.descriptors.closed(operation.fd)
        if self.connections.failure(operation.fd) == BAD_DESCRIPTOR:
            failure = self._fail(thread, operation.fd, BAD_DESCRIPTOR)
            return None if unsettled else failure
        timestamp, digest = self.connections.write(operation.fd, b"", "close", None, None)
        self.record((SEND, self.pick, thread, operation.fd, timestamp, digest))
        return None

    def _connect(self, thread: ThreadId, operation: Connect) -> Result | Literal[Stage.BLOCKED]:
        if thread not in self.connecting:
            fd = self.opened.pop(thread, None)
            if fd is None:
                fd = self.connections.open(operation.group_id)
                self._record_socket(thread, LISTENER, operation.group_id)
            timestamp, digest = self.connections.write(fd, b"", "connect", None, None)
            self.record((SEND, self.pick, thread, fd, timestamp, digest))
            if not operation.blocking:
                self.descriptors.unsettled[fd] = None
                self.connections.connect_state(fd)  # its time runs from now on
                return fd
            self.connecting[thread] = fd
        fd = self.connecting[thread]
        state = self.connections.connect_state(fd)
        if state is None:
            return BLOCKED
        del self.connecting[thread]
        self._record_socket(thread, fd, state)
        return state if isinstance(state, Failure) else fd

    def _connect_outcome(self, thread: ThreadId, operation: ConnectOutcome) -> Result:
        fd = operation.fd
        outcome = self.descriptors.connect_outcome(fd)
        if outcome is None:
            return self._fail(thread, fd, IN_PROGRESS)
        if outcome is True:
            self.descriptors.unsettled.pop(fd, None)
        self._record_socket(thread, fd, outcome)
        return outcome

    def _accept(self, thread: ThreadId, operation: Accept) -> Result | Literal[Stage.BLOCKED]:
        connection_id = self.connections.pending_accept()
        if connection_id is None:
            return BLOCKED if operation.blocking else self._fail(thread, LISTENER, WOULD_BLOCK)
        fd = self.connections.accept(connection_id)
        self._record_socket(thread, LISTENER, connection_id)
        return (fd, connection_id.client_group_id)

    def _select(self, thread: ThreadId, operation: Select) -> Result | Literal[Stage.BLOCKED]:
        descriptors = self.descriptors
        fds = [fd for fd in operation.fds if descriptors.readable(fd)]
        fds += [-fd for fd in operation.writing if descriptors.writable(fd) is not False]
        if not fds and self.deadlines[thread] > self.now_ns:
            return BLOCKED
        del self.deadlines[thread]
        result = tuple(fds)
        kind, identifier = select_id(thread, operation)
        self.record_counted(kind, thread, identifier, encode_outcome(result))
        return result

    def _selectable(self, operation: Select) -> bool:
        """Asked whenever something changes that may concern the select: it stops at the first."""
        descriptors = self.descriptors
        for fd in operation.fds:
            if descriptors.readable(fd):
                return True
        writing = operation.writing
        return bool(writing) and any(descriptors.writable(fd) is not False for fd in writing)

    def _read_clock(self, thread: ThreadId, operation: ReadClock) -> Result:
        clock_id = operation.clock_id
        value_ns = self.clock.read(clock_id, self.local_clock(clock_id))
        self.record((TIME, self.pick, thread, clock_id, value_ns))
        return value_ns

    def _random(self, thread: ThreadId, operation: RandomBytes) -> Result:
        if not 0 <= operation.size <= DATA_BYTES_MAX:
            raise UnsupportedOperationError(
                "random_bytes_too_many", f"draw at most {DATA_BYTES_MAX} at a time", size=operation.size
            )
        data = self._random_bytes(operation.size)
        self.record_counted(GENERAL, thread, RANDOM, data)
        return data

    def _obtain(self, thread: ThreadId, operation: Obtain) -> Result:
        data = operation.produce()
        if len(data) > DATA_BYTES_MAX:
            remedy = f"obtain at most {DATA_BYTES_MAX} bytes at a time"
            raise UnsupportedOperationError("obtained_too_much", remedy, name=operation.name, size=len(data))
        kind, identifier = obtaining_id(operation.name)
        self.record_counted(kind, thread, identifier, data)
        return data

    def _fail(self, thread: ThreadId, fd: int, failure: Failure) -> Failure:
        self._record_socket(thread, fd, failure)
        return failure

    def _record_socket(self, thread: ThreadId, fd: int, outcome: SocketOutcome) -> None:
        self.record_counted(SOCKET, thread, fd, encode_outcome(outcome))
