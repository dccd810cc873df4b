"""One real TCP connection: non-blocking, edge-triggered, with a bounded buffer of what it could not send yet.

Edges make back-pressure free of system calls: whoever does not want to read does not, and nothing is
registered anew. The stream remembers that it may read or write until the kernel says that it would block. A
read that gives less than was asked for has emptied the kernel's buffer; the next bytes make a new edge. Only
the end of the stream makes none if it came before that read; so once the peer has ended, reading goes on
until it is seen.

Keep-alive probes find clients that died without a word, and retransmission finds those that die with data
under way. TCP_USER_TIMEOUT is not set, because it also cuts off a client that is alive and has stopped
reading.
"""

from __future__ import annotations

import errno
import select
import socket
import struct
from collections.abc import Callable
from typing import Final

from llft.runtime.gateway.loop import Loop
from llft.runtime.gateway.shell import Gate, Shell
from llft.wire.preamble import Address

_MASK: Final = select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP | select.EPOLLET
_READABLE: Final = select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLHUP
_ENDED: Final = select.EPOLLRDHUP | select.EPOLLHUP
_WRITABLE: Final = select.EPOLLOUT | select.EPOLLHUP
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)
_END_ON_CLOSE: Final = struct.pack("ii", 0, 0)
_GONE: Final = (errno.EPIPE, errno.ENOTCONN, errno.ECONNRESET)
"""Which of them a reset shows as depends on the call that notices it first."""
_KEEP_ALIVE_IDLE_S, _KEEP_ALIVE_INTERVAL_S, _KEEP_ALIVE_COUNT = 60, 10, 6


class Stream:
    __slots__ = (
        "_ended",
        "_finishing",
        "_loop",
        "_may_read",
        "_may_write",
        "_on_broken",
        "_socket",
        "_unsent",
        "closed",
        "connecting",
        "drained",
        "error",
        "readable",
    )

    def __init__(
        self,
        connection: socket.socket,
        loop: Loop,
        shell: Shell,
        *,
        on_broken: Callable[[str], None],
        connecting: bool = False,
    ) -> None:
        self._socket = connection
        self._loop = loop
        self._on_broken = on_broken
        self._may_read = self._may_write = not connecting
        self._ended = self._finishing = self.closed = False
        self._unsent = bytearray()
        self.connecting = connecting
        self.error = 0
        """How a connect ended: an errno, 0 if it succeeded."""
        self.readable = Gate(shell)
        """Opened when there may be something to read; and when the connect has ended."""
        self.drained = Gate(shell)
        """Opened when the unsent bytes have become fewer."""
        _configure(connection)
        loop.register(connection.fileno(), _MASK, self._on_event)

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def is_quiet(self) -> bool:
        """Open both ways, nothing unsent, and nothing to be read before the next edge."""
        is_open = not (self.closed or self.connecting or self._ended or self._finishing)
        return is_open and self._may_write and not self._may_read and not self._unsent

    @property
    def unsent_bytes(self) -> int:
        return len(self._unsent)

    @property
    def finished(self) -> bool:
        """All that there was to send has left, and the end with it."""
        return self._finishing and not self._unsent

    def local_address(self) -> Address:
        return address_of(self._socket.getsockname())

    # -- reading and writing -----------------------------------------------------------------

    def read(self, limit: int) -> bytes | None:
        """Up to `limit` bytes; b"" at the end; None: nothing yet, so wait at `readable`."""
        if not self._may_read:
            return None
        try:
            data = self._socket.recv(limit)
        except (BlockingIOError, InterruptedError):
            self._may_read = False
            return None
        except OSError as error:
            self._break(error.errno)
            return None
        if len(data) < limit and not self._ended:
            self._may_read = False
        if not data:
            self._may_read = False
        return data

    def write(self, data: bytes) -> None:
        """Send, or keep what the kernel does not take."""
        if self._unsent:
            self._unsent += data
            return
        sent = self._send(data) if self._may_write else 0
        if sent < len(data):
            self._may_write = False
            self._unsent += memoryview(data)[sent:]

    def go_on(self, *, may_read: bool, unsent: bytes, error: int) -> None:
        """Somebody else has read and written for a while. `unsent`: what the kernel did not take."""
        if unsent:
            self._may_write = False
            self._unsent += unsent
        if error:
            self._break(error)
        elif may_read:
            self._may_read = True
            self.readable.open()

    def finish(self) -> None:
        """After the unsent bytes the peer reads the end of the stream."""
        self._finishing = True
        if not self._unsent:
            self._shut_down()

    def _send(self, data: bytes | bytearray) -> int:
        if self.closed:
            return len(data)
        try:
            return self._socket.send(data)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as error:
            self._break(error.errno)
            return len(data)

    def _flush(self) -> None:
        unsent = self._unsent
        while unsent and self._may_write:
            size = len(unsent)
            sent = self._send(unsent)
            del unsent[:sent]
            self._may_write = sent == size
        if self._finishing and not unsent:
            self._shut_down()
        self.drained.open()

    def _shut_down(self) -> None:
        if self.closed:
            return
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError as error:
            self._break(error.errno)

    # -- events ------------------------------------------------------------------------------

    def _on_event(self, mask: int) -> None:
        if self.connecting:
            self.end_connect(self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
            if self.error:
                return
        if mask & select.EPOLLERR:
            self._break(self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
            return
        if mask & _ENDED:
            self._ended = True
        if mask & _READABLE:
            self._may_read = True
            self.readable.open()
        if mask & _WRITABLE and not self._may_write:
            self._may_write = True
            self._flush()

    def end_connect(self, error: int) -> None:
        if self.connecting:
            self.connecting = False
            self.error = error
            self.readable.open()

    def _break(self, error: int | None) -> None:
        """The connection is gone: whoever owns the stream is told, once."""
        if not self.closed:
            gone = error in _GONE
            self._on_broken("ECONNRESET" if gone else errno.errorcode.get(error or 0, "EIO"))

    # -- the end -----------------------------------------------------------------------------

    def close(self, *, reset: bool) -> None:
        """For good. With `reset` the peer is told that something was lost (RST), else it reads the end."""
        if self.closed:
            return
        self.closed = True
        self.connecting = self._may_read = False
        self._loop.unregister(self._socket.fileno())
        if not reset:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _END_ON_CLOSE)
        self._socket.close()
        self._unsent.clear()
        self.readable.open()
        self.drained.open()


def address_of(name: tuple[str, int] | tuple[str, int, int, int]) -> Address:
    """A socket's name as the preamble has it: plain hexadecimal groups, no zone."""
    host = name[0].partition("%")[0]
    if ":" in host and "." in host:  # an IPv4 client of a listener for both
        groups = struct.unpack("!8H", socket.inet_pton(socket.AF_INET6, host))
        host = ":".join(f"{group:x}" for group in groups)
    return Address(host, name[1])


def _configure(connection: socket.socket) -> None:
    connection.setblocking(False)
    # From the beginning: a gateway that is killed has the system close its sockets, and a stream that is cut
    # off must not look complete.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEP_ALIVE_IDLE_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _KEEP_ALIVE_INTERVAL_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _KEEP_ALIVE_COUNT)
