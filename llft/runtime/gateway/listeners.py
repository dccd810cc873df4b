"""The addresses on which outside clients are accepted: those that the program itself asked for.

With all replicas on one machine the gateway listens on the very port the program wanted (D-19), so clients
notice nothing. A machine that is out of descriptors stops accepting for a moment and goes on: the clients
wait in the kernel's backlog.
"""

from __future__ import annotations

import errno
import select
import socket
from collections.abc import Callable
from typing import Final

from llft.errors import MisuseError
from llft.instant import MS
from llft.runtime.gateway.loop import Loop
from llft.runtime.gateway.stream import address_of
from llft.wire.preamble import Address

BACKLOG: Final = 1024
_ACCEPTED_AT_ONCE: Final = 64
_PAUSE_NS: Final = 100 * MS
_EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_ANYWHERE: Final = {"": "0.0.0.0", "localhost": "127.0.0.1"}

OnClient = Callable[[socket.socket, Address], None]


class Listeners:
    def __init__(self, loop: Loop, on_client: OnClient, noted: Callable[[str], None]) -> None:
        self._loop = loop
        self._on_client = on_client
        self._noted = noted
        self._open: dict[Address, socket.socket] = {}

    @property
    def addresses(self) -> list[Address]:
        return list(self._open)

    def listen(self, host: str, port: int) -> Address:
        """Accept clients there; again and again is the same as once. Port 0 is any free one."""
        wanted = _address(host, port)
        if wanted in self._open:
            return wanted
        listener = self._bind(wanted)
        address = Address(wanted.host, listener.getsockname()[1])
        self._open[address] = listener
        self._watch(listener)
        self._noted(f"listening on {host or '*'} port {address.port}")
        return address

    def unlisten(self, host: str, port: int) -> None:
        """No more clients there; the connections that are open stay."""
        listener = self._open.pop(_address(host, port), None)
        if listener is not None:
            self._loop.unregister(listener.fileno())
            listener.close()
            self._noted(f"not listening on {host or '*'} port {port} any more")

    def close(self) -> None:
        for address in self.addresses:
            self.unlisten(*address)

    def _bind(self, wanted: Address) -> socket.socket:
        six = ":" in wanted.host
        listener = socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_STREAM)
        try:
            listener.setblocking(False)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if six:
                taken = any(":" not in host and port == wanted.port for host, port in self._open)
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, taken)
            listener.bind((wanted.host, wanted.port))
            listener.listen(BACKLOG)
        except OSError as error:
            listener.close()
            raise _cannot_listen(wanted, error) from error
        return listener

    def _watch(self, listener: socket.socket) -> None:
        if listener.fileno() >= 0:
            self._loop.register(listener.fileno(), select.EPOLLIN, lambda mask: self._accept(listener))

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                connection, name = listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    continue  # this one is gone already: accept(2) says to go on with the next
                self._noted(f"cannot accept a client: {error.strerror}; raise the limit of open files")
                self._loop.unregister(listener.fileno())
                self._loop.alarm(_PAUSE_NS, lambda: self._watch(listener))
                return
            self._on_client(connection, address_of(name))


def _address(host: str, port: int) -> Address:
    host = _ANYWHERE.get(host, host)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        packed = socket.inet_pton(family, host)
    except (OSError, ValueError) as error:
        raise MisuseError("address_not_numeric", "give a numeric host", host=host, port=port) from error
    if not isinstance(port, int) or not 0 <= port <= 65_535:
        raise MisuseError("port_out_of_range", "give a port from 0 to 65535", host=host, port=port)
    return Address(socket.inet_ntop(family, packed), port)


def _cannot_listen(wanted: Address, error: OSError) -> MisuseError:
    if error.errno == errno.EADDRINUSE:
        remedy = "another process holds this port: end it, or let the program use another port"
        return MisuseError("address_in_use", remedy, host=wanted.host, port=wanted.port)
    remedy = "let the program listen on an address of this machine, on a port it may use"
    return MisuseError("cannot_listen", remedy, host=wanted.host, port=wanted.port, error=error.strerror)
