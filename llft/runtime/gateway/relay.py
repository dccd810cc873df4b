"""What happens on one connection between the group and the outside.

Two virtual threads serve it: *upstream* reads the real connection and writes the virtual one, *downstream*
the other way round. Each has at most one operation outstanding, and that is all the back-pressure there is:

    a slow group      the window of the virtual connection is shut, Send waits, nothing is read from TCP
    a slow client     the stream's unsent bytes pass a bound, no Receive is made, and the group's window shuts

Laws:

1. What was read from TCP is sent once, in order; what was received from the group is written once, in order.
2. An end of the stream on one side is a half-close on the other; both ended: both are closed.
3. A reset of the virtual connection resets the real one; a broken real one closes the virtual one. `end`
   does it once, whoever calls; an operation that still waits then fails, and its thread ends.
   The end of the stream (FIN) is told only of a stream that has ended: whoever reads it takes what came
   before for all there is, and more may be held back (law 4).
4. Nothing is told to a client that the group has not committed (D-10): the core holds it back in Receive.
5. A client that keeps its side open after the group's end, and says nothing, is not waited for for ever: a
   system forgets such connections, too (`forget_if_silent`).
"""

from __future__ import annotations

import errno
import socket
from collections import Counter
from collections.abc import Generator
from typing import Any, Final, Protocol

from llft.core.determinizer.operations import Close, Connect, Failure, HalfClose, Receive, Send
from llft.errors import PeerError
from llft.identifiers import GroupId
from llft.instant import MS
from llft.runtime.gateway.loop import Loop
from llft.runtime.gateway.shell import Shell, Steps
from llft.runtime.gateway.stream import Stream
from llft.wire.preamble import PREAMBLE_BYTES, Address, Answer, Inbound, Outbound, pack, unpack

RECEIVE_BYTES: Final = 64 * 1024
UNSENT_BYTES_MAX: Final = 256 * 1024
CONNECT_BOUND_NS: Final = 30_000 * MS

CLOSED: Final = "closed"
STOPPED: Final = "gateway stopped"
REFUSED: Final = "group not there"
ABANDONED: Final = "left half-open"


class Counts:
    """What all connections did."""

    def __init__(self) -> None:
        self.accepted = 0
        self.connected = 0
        self.bytes_in = 0
        """From the outside to groups."""
        self.bytes_out = 0
        self.ends: Counter[str] = Counter()
        """Why connections ended."""


class Surroundings(Protocol):
    """What a relay needs of the gateway."""

    loop: Loop
    shell: Shell
    counts: Counts
    read_bytes: int
    half_open: dict[int, Relay]
    """Those whose group has ended its stream, by number."""

    def talks(self, relay: Relay) -> None:
        """Something was passed on there."""

    def noted(self, text: str) -> None:
        """Something for the log."""

    def ended(self, relay: Relay) -> None:
        """It is over."""


class Relay:
    __slots__ = ("_around", "_ended_ways", "_fd", "_is_silent", "name", "number", "over", "stream")

    def __init__(self, around: Surroundings, name: str, number: int) -> None:
        self._around = around
        self.name = name
        self.number = number
        self.stream: Stream | None = None
        self.over = ""
        """Why it has ended, once it has."""
        self._fd = 0
        self._ended_ways = 0
        self._is_silent = False

    # -- the two ways in ---------------------------------------------------------------------

    def accepted(self, connection: socket.socket, source: Address, group_id: GroupId) -> Steps:
        """An outside client connected."""
        around = self._around
        around.counts.accepted += 1
        stream = Stream(connection, around.loop, around.shell, on_broken=self._on_broken)
        self.stream = stream
        preamble = pack(Inbound(stream.local_address(), source))
        return self._serve_client(stream, preamble, group_id)

    def _serve_client(self, stream: Stream, preamble: bytes, group_id: GroupId) -> Steps:
        fd = yield Connect(group_id)
        if isinstance(fd, Failure):
            self.end(REFUSED if fd.name == "ECONNREFUSED" else f"connect: {fd.name}")
            return
        self._fd = fd
        if self.over:
            yield Close(fd)
            return
        sent = yield Send(fd, preamble)
        if isinstance(sent, Failure):
            self.end(f"group: {sent.name}")
            return
        self._around.shell.begin(self._downstream(stream))
        yield from self._upstream(stream)

    def requested(self, fd: int) -> Steps:
        """A group wants to connect to the outside."""
        self._fd = fd
        destination = yield from self._receive_request()
        if destination is None:
            return
        self.name = f"{self.name} to {destination.host}:{destination.port}"
        error = self._connect(destination)
        stream = self.stream
        if stream is not None:
            alarm = self._around.loop.alarm(CONNECT_BOUND_NS, lambda: stream.end_connect(errno.ETIMEDOUT))
            while stream.connecting:
                yield stream.readable
            alarm.cancel()
            if self.over:  # broken since, before this thread had its turn: both sides are closed
                return
            error = stream.error
        local = stream.local_address() if stream is not None and not error else Address("", 0)
        sent = yield Send(fd, pack(Answer(error, local)))
        if error or isinstance(sent, Failure):
            self.end(f"connect: {errno.errorcode.get(error, error)}" if error else f"group: {sent.name}")
            return
        assert stream is not None
        self._around.counts.connected += 1
        self._around.shell.begin(self._downstream(stream))
        yield from self._upstream(stream)

    def _receive_request(self) -> Generator[Receive, Any, Address | None]:
        data = b""
        while len(data) < PREAMBLE_BYTES:
            part = yield Receive(self._fd, PREAMBLE_BYTES - len(data))
            if isinstance(part, Failure) or not part:
                self.end("gone before its request")
                return None
            data += part
        try:
            request = unpack(data)
            if not isinstance(request, Outbound):
                raise PeerError("preamble_not_outbound", "only groups that connect outwards come here")
        except PeerError as error:
            self._around.noted(f"{self.name}: {error}")
            self.end("malformed request")
            return None
        return request.destination

    def _connect(self, destination: Address) -> int:
        """Begin to connect; an errno if it fails at once."""
        family = socket.AF_INET6 if ":" in destination.host else socket.AF_INET
        try:
            connection = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:
            return error.errno or errno.EIO
        connection.setblocking(False)
        error_number = connection.connect_ex((destination.host, destination.port))
        if error_number not in (0, errno.EINPROGRESS):
            connection.close()
            return error_number
        around = self._around
        self.stream = Stream(
            connection, around.loop, around.shell, on_broken=self._on_broken, connecting=True
        )
        return 0

    # -- bytes both ways ---------------------------------------------------------------------

    def _upstream(self, stream: Stream) -> Steps:
        fd, counts, limit = self._fd, self._around.counts, self._around.read_bytes
        while not stream.closed:
            data = stream.read(limit)
            if data is None:
                if not stream.closed:
                    yield stream.readable
                continue
            self._is_silent = False
            result = yield (Send(fd, data) if data else HalfClose(fd))
            if isinstance(result, Failure):
                self.end(f"group: {result.name}")
            elif not data:
                self._end_way()
                return
            else:
                counts.bytes_in += len(data)
                self._around.talks(self)

    def _downstream(self, stream: Stream) -> Steps:
        fd, counts = self._fd, self._around.counts
        while not stream.closed:
            data = yield Receive(fd, RECEIVE_BYTES)
            if isinstance(data, Failure):
                self.end(f"group: {data.name}")
                return
            if not data:
                stream.finish()
                while stream.unsent_bytes:
                    yield stream.drained
                if not self.over:
                    self._around.half_open[self.number] = self
                self._end_way()
                return
            stream.write(data)
            counts.bytes_out += len(data)
            self._around.talks(self)
            while stream.unsent_bytes > UNSENT_BYTES_MAX:
                yield stream.drained

    # -- the same, by somebody else (`relaying`) ----------------------------------------------

    @property
    def virtual_fileno(self) -> int:
        return self._fd

    def quiet_stream(self) -> Stream | None:
        """Its stream, if that waits for the client to say more, and for nothing else."""
        stream = self.stream
        if stream is None or self.over or not stream.readable.waiting or not stream.is_quiet:
            return None
        return stream

    def passed_on(self, bytes_in: int, bytes_out: int, may_read: bool, unsent: bytes, error: int) -> None:
        stream, counts = self.stream, self._around.counts
        counts.bytes_in += bytes_in
        counts.bytes_out += bytes_out
        if bytes_in:
            self._is_silent = False
        if stream is not None and (may_read or unsent or error):
            stream.go_on(may_read=may_read, unsent=unsent, error=error)

    # -- the end -----------------------------------------------------------------------------

    def _end_way(self) -> None:
        self._ended_ways += 1
        if self._ended_ways == 2:
            self.end(CLOSED)

    def _on_broken(self, reason: str) -> None:
        self.end(f"client: {reason}")

    def forget_if_silent(self) -> None:
        """Of one that is half-open; called from time to time. The client is heard, or has one more chance."""
        if self._is_silent:
            self.end(ABANDONED)
        self._is_silent = True

    def end(self, reason: str) -> None:
        """Close both sides, once. The client is told if something was lost, or may have been."""
        if self.over:
            return
        self.over = reason
        if self.stream is not None:
            orderly = reason == CLOSED or (reason == STOPPED and self.stream.finished)
            self.stream.close(reset=not orderly)
        if self._fd:
            self._around.shell.begin(_close(self._fd))
        self._around.counts.ends[reason] += 1
        self._around.ended(self)


def _close(fd: int) -> Steps:
    """In a thread of its own: those of the connection may be waiting in an operation."""
    yield Close(fd)


def name_of(source: Address) -> str:
    return f"[{source.host}]:{source.port}" if ":" in source.host else f"{source.host}:{source.port}"
