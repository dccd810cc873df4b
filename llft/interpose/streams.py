"""Streams of bytes: a connection of the core, or a buffer inside the program.

A `Local` stream has two buffers, one for each direction (None where there is none: a pipe has one). Both of
its ends are in this process, so its bytes are state of the program, and nothing of it is ordered. A
`Remote` stream is a descriptor of the core. One call of the core for one call of the program wherever that
is possible.
"""

from __future__ import annotations

import errno
from typing import Any

from llft.core.determinizer.operations import WOULD_BLOCK, Close, Failure, HalfClose, Receive, Select, Send
from llft.interpose import counting, passage
from llft.interpose.descriptors import (
    Answered,
    Asked,
    Description,
    Ready,
    Watched,
    failed,
    system_error,
    would_block,
)
from llft.interpose.monitor import entered
from llft.interpose.waiting import Deadline

CAPACITY = 65_536
SEND_AT_MOST = 262_144
"""Bytes in one message; a larger write is a partial one, and sendall goes on."""


class Buffer(Watched):
    __slots__ = ("data", "reader_open", "writer_open")

    def __init__(self) -> None:
        super().__init__()
        self.data = bytearray()
        self.writer_open = True
        self.reader_open = True

    @property
    def readable(self) -> bool:
        return bool(self.data) or not self.writer_open

    @property
    def writable(self) -> bool:
        return len(self.data) < CAPACITY or not self.reader_open


class Local(Description):
    def __init__(self, incoming: Buffer | None, outgoing: Buffer | None, *, is_socket: bool = True) -> None:
        super().__init__()
        self.is_socket = is_socket
        self.incoming = incoming
        self.outgoing = outgoing
        self.read_ended = False

    def probe(self, reading: bool, writing: bool, asked: Asked) -> Ready:
        readable = reading and (self.read_ended or (self.incoming is not None and self.incoming.readable))
        return readable, writing and self.outgoing is not None and self.outgoing.writable

    def watched(self) -> tuple[Watched, ...]:
        return tuple(buffer for buffer in (self.incoming, self.outgoing) if buffer is not None)

    @entered
    def receive(self, limit: int, timeout_ns: int, peek: bool = False) -> bytes:
        buffer = self.incoming
        if buffer is None:
            raise system_error(errno.EBADF)
        deadline = Deadline(timeout_ns) if not buffer.readable else None
        while not buffer.readable and not self.read_ended:
            if deadline is None or timeout_ns == 0:
                raise would_block()
            deadline.block_on(self, True, False)
        data = bytes(buffer.data[:limit])
        if not peek and data:
            del buffer.data[:limit]
            buffer.changed()
        return data

    @entered
    def send(self, data: bytes, timeout_ns: int) -> int:
        buffer = self.outgoing
        if buffer is None:
            raise system_error(errno.EBADF)
        deadline = Deadline(timeout_ns) if not buffer.writable else None
        while buffer.writer_open and not buffer.writable:
            if deadline is None or timeout_ns == 0:
                raise would_block()
            deadline.block_on(self, False, True)
        if not buffer.reader_open or not buffer.writer_open:
            raise system_error(errno.EPIPE)
        size = min(len(data), CAPACITY - len(buffer.data))
        buffer.data += data[:size]
        buffer.changed()
        return size

    @entered
    def end_reading(self) -> None:
        self.read_ended = True
        if self.incoming is not None:
            self.incoming.changed()

    @entered
    def half_close(self) -> None:
        if self.outgoing is not None and self.outgoing.writer_open:
            self.outgoing.writer_open = False
            self.outgoing.changed()

    @entered
    def close(self) -> None:
        self.half_close()
        if self.incoming is not None:
            self.incoming.reader_open = False
            self.incoming.changed()


def local_pair(*, is_socket: bool = True) -> tuple[Local, Local]:
    one, other = Buffer(), Buffer()
    return Local(one, other, is_socket=is_socket), Local(other, one, is_socket=is_socket)


class Remote(Description):
    def __init__(self, fd: int) -> None:
        super().__init__()
        self.fd = fd
        self.read_ended = False
        self._promised = False
        """The program was told that it can read, and has not read since. What was there may be gone: the
        primary that looked is dead, and the message has not reached the one that reads. Hardly a program
        copes with that, so it waits for the message, which the remote group still has. In ordered mode
        another thread may have read it, at some replicas sooner than at others; there nothing is promised."""
        self._receiving_count = 0

    def probe(self, reading: bool, writing: bool, asked: Asked) -> Ready:
        readable = reading and self.read_ended
        if reading and not readable:
            asked.reading[self.fd] = None
        if writing:
            asked.writing[self.fd] = None
        return readable, False

    def settle(self, reading: bool, writing: bool, answered: Answered) -> Ready:
        readable = reading and (self.read_ended or self.fd in answered.readable)
        if readable:
            self.promise()
        return readable, writing and self.fd in answered.writable

    def promise(self) -> None:
        """The program is told that it can read."""
        if not self._receiving_count:
            self._promised = not passage.ordered

    def receive(self, limit: int, timeout_ns: int, peek: bool = False) -> bytes:
        if self.read_ended:
            return b""
        blocking = timeout_ns < 0 or self._promised
        if timeout_ns == 0 and not blocking and limit > 0 and counting.nothing(self.fd):
            raise would_block()
        self._receiving_count += 1
        try:
            data = self._receive_talking(limit, blocking, timeout_ns) if not peek else None
            if data is not None:
                return data
            while True:
                if timeout_ns > 0 and not passage.select(Select((self.fd,), timeout_ns)):
                    raise TimeoutError("timed out")
                result = passage.call(Receive(self.fd, limit, blocking, peek))
                if isinstance(result, bytes):
                    return result
                assert isinstance(result, Failure)
                if result != WOULD_BLOCK or timeout_ns <= 0:
                    raise failed(result)
        finally:
            self.end_receiving()

    def _receive_talking(self, limit: int, blocking: bool, timeout_ns: int) -> bytes | None:
        """In a dialogue. None: it goes the usual way."""
        result: Any = None
        if blocking:
            result = counting.receive(self.fd, limit)
        elif timeout_ns == 0:
            result = counting.look(self.fd, limit)
        if result is True:
            raise would_block()
        if result is None or isinstance(result, bytes):
            return result
        return self.received(passage.resume() if result is counting.HANDED else result)

    @staticmethod
    def received(result: object) -> bytes:
        if isinstance(result, bytes):
            return result
        assert isinstance(result, Failure)
        raise failed(result)

    def begin_receiving(self) -> None:
        """A receive that waits in a dialogue, which is taken back (`llft/dialogue/socket.c`)."""
        self._receiving_count += 1

    def end_receiving(self) -> None:
        """It has its result."""
        self._receiving_count -= 1
        self._promised = False

    def resume_receiving(self) -> bytes:
        """The core has the call, and it has begun."""
        try:
            return self.received(passage.resume())
        finally:
            self.end_receiving()

    def resume_sending(self, payload: bytes) -> int:
        result = passage.resume()
        if isinstance(result, Failure):
            raise failed(result)
        return len(payload)

    def send(self, data: bytes, timeout_ns: int) -> int:
        if not data:
            return 0
        payload = data[:SEND_AT_MOST]
        result: Any = counting.send(self.fd, payload, timeout_ns < 0)
        if result is True:
            return len(payload)
        if result is not None:
            result = passage.resume()
        while True:
            if result is None:
                result = passage.call(Send(self.fd, payload, timeout_ns < 0))
            if not isinstance(result, Failure):
                return len(payload)
            if result != WOULD_BLOCK or timeout_ns <= 0:
                raise failed(result)
            if not passage.select(Select((), timeout_ns, (self.fd,))):
                raise TimeoutError("timed out")
            result = None

    def end_reading(self) -> None:
        """A thread that is in receive already goes on when the peer has closed, or sent."""
        self.read_ended = True
        counting.forget_known(self.fd)

    def half_close(self) -> None:
        result = passage.call(HalfClose(self.fd))
        if isinstance(result, Failure):
            raise failed(result)

    def close(self) -> None:
        """A broken connection is closed like any other."""
        counting.forget_known(self.fd)
        passage.call(Close(self.fd))


Stream = Local | Remote
