"""How our sockets are made: never blocking (but for `be_patient`), closed on exec, and with descriptor
numbers far above the program's, which are to be alike at all replicas. Constants come from `_socket`: those
nobody patches.
"""

from __future__ import annotations

import _socket
import errno
import fcntl
import select
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from llft import originals
from llft.errors import MisuseError
from llft.runtime.poller import FIRST_FD
from llft.runtime.transport.interface import Address

RECEIVE_BUFFER_BYTES: Final = 32 * 1024 * 1024
"""A lazy receiver sleeps while datagrams pile up, and a small one takes 768 bytes of kernel memory."""
SO_RCVBUFFORCE: Final = 33
PATIENCE: Final = struct.Struct("@ll")
PATIENCE_US: Final = 1000
"""As short as the kernel's ticks allow: up to four milliseconds, where it has 250 of them in a second."""
QUIETLY: Final = _socket.MSG_NOSIGNAL
"""For TCP: the program may have given SIGPIPE back its deadly default."""


def open_socket(kind: int) -> originals.Socket:
    low = originals.Socket(_socket.AF_INET, kind)
    try:
        fd = _raise(low.detach())
    except OSError as error:
        remedy = f"allow more than {FIRST_FD + 100} descriptors: ulimit -n"
        raise MisuseError("too_few_descriptors", remedy, errno=error.errno) from error
    return adopt(fd, kind)


def _raise(low: int) -> int:
    """Moves a descriptor up. Not with the module's `fcntl`, which is the program's by the time we accept."""
    try:
        return originals.fcntl(low, fcntl.F_DUPFD_CLOEXEC, FIRST_FD)
    finally:
        originals.close(low)


def adopt(fd: int, kind: int) -> originals.Socket:
    sock = originals.Socket(_socket.AF_INET, kind, 0, fd)
    sock.setblocking(False)
    return sock


def be_patient(sock: originals.Socket) -> None:
    """Whoever does not say that it will not wait waits for a moment: C that hears, in a dialogue
    (`llft/dialogue/waiting.c`). All others say so."""
    sock.setblocking(True)
    sock.setsockopt(_socket.SOL_SOCKET, _socket.SO_RCVTIMEO, PATIENCE.pack(0, PATIENCE_US))


@contextmanager
def sharing_address(sock: _socket.socket, other: _socket.socket) -> Iterator[None]:
    """The other one may be bound where the first one is. Before and after nobody else may: that one does not
    share, whatever those do that were bound with it."""
    other.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
    sock.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
    try:
        yield
    finally:
        sock.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 0)


def accept(listener: originals.Socket) -> originals.Socket:
    """BlockingIOError if nobody waits, OSError if there is no room for one."""
    return adopt(_raise(originals.accept(listener)[0]), _socket.SOCK_STREAM)


def open_epoll() -> select.epoll:
    low = originals.epoll()
    with low:
        return originals.epoll.fromfd(originals.fcntl(low.fileno(), fcntl.F_DUPFD_CLOEXEC, FIRST_FD))


def bind(sock: originals.Socket, address: Address) -> None:
    try:
        sock.bind(address)
    except OSError as error:
        sock.close()
        raise MisuseError(
            "cannot_bind",
            "is the interface an address of this host, and the port free?",
            address=f"{address[0]}:{address[1]}",
            reason=str(error.strerror),
        ) from error


def bind_first(sock: originals.Socket, ip: str, ports: Sequence[int]) -> None:
    """The first port that is free; the last one must be."""
    for port in ports[:-1]:
        try:
            sock.bind((ip, port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                break
        else:
            return
    bind(sock, (ip, ports[-1]))


def grow_receive_buffer(sock: originals.Socket) -> str:
    """Ask for a large buffer, as root beyond the limit; returns a warning if less was granted."""
    try:
        sock.setsockopt(_socket.SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER_BYTES)
    except PermissionError:
        sock.setsockopt(_socket.SOL_SOCKET, _socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
    # The kernel doubles what is asked for, to pay for its own books, and reports the double.
    granted = sock.getsockopt(_socket.SOL_SOCKET, _socket.SO_RCVBUF) // 2
    if granted >= RECEIVE_BUFFER_BYTES:
        return ""
    return (
        f"receive buffer: {granted} bytes granted, {RECEIVE_BUFFER_BYTES} wanted; bursts will be lost "
        f"and sent again. As root: sysctl net.core.rmem_max={RECEIVE_BUFFER_BYTES}"
    )


def resolve(host: str, port: int) -> Address | None:
    """The IPv4 address of a host's name; None if nobody knows it now. May take seconds: at the start only."""
    try:
        found = originals.getaddrinfo(host, port, _socket.AF_INET, _socket.SOCK_DGRAM)
    except OSError:
        return None
    ip, found_port = found[0][4][:2]
    return str(ip), int(found_port)


def is_loopback(ip: str) -> bool:
    return ip.startswith("127.")
