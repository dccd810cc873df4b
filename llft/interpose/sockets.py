"""The virtual `_socket.socket`: TCP for the program, the core's connections underneath.

`socket.socket`, makefile, create_connection, asyncio, http and the rest are built on this class and follow
by themselves. It has slots and no __weakref__, like the genuine one, because socket.socket adds its own.
UDP, Unix and raw sockets are refused: what goes on in them cannot be replicated.
"""

from __future__ import annotations

import _socket
import errno
from typing import Any

from llft.interpose import counting, options, passage, resolving
from llft.interpose.descriptors import Description, system_error, table
from llft.interpose.refusing import RefusedError
from llft.interpose.streams import local_pair
from llft.interpose.tcp import TcpSocket
from llft.interpose.transfer import Transfer
from llft.wire.preamble import Address

AF_INET, AF_INET6, AF_UNIX, SOCK_STREAM = (
    _socket.AF_INET,
    _socket.AF_INET6,
    _socket.AF_UNIX,
    _socket.SOCK_STREAM,
)
_KIND = 0xF
"""The part of a socket type that is not SOCK_NONBLOCK or SOCK_CLOEXEC."""

_native_close = _socket.close
_default_timeout_ns = -1


def nanoseconds(timeout: float | None) -> int:
    if timeout is None:
        return -1
    value = int(timeout * 1e9)
    if timeout < 0:
        raise ValueError("Timeout value out of range")
    return value if value or not timeout else 1


class Socket(Transfer):
    __slots__ = ("_description", "_family", "_number", "_proto", "_timeout_ns", "_type")

    def __new__(cls, *arguments: Any, **named: Any) -> Any:
        return object.__new__(cls)

    def __init__(self, family: int = -1, type: int = -1, proto: int = -1, fileno: int | None = None) -> None:  # noqa: A002
        self._number = -1
        self._timeout_ns = _default_timeout_ns
        self._proto = max(proto, 0)
        self._type = SOCK_STREAM
        if fileno is not None:
            self._adopt(int(fileno), int(family))
            return
        self._family = int(AF_INET if family == -1 else family)
        kind = SOCK_STREAM if type == -1 else int(type)
        if self._family not in (AF_INET, AF_INET6) or kind & _KIND != SOCK_STREAM:
            raise _not_tcp(self._family, kind)
        if kind & _socket.SOCK_NONBLOCK:
            self._timeout_ns = 0
        self._description: Description = TcpSocket(self._family)
        self._number = table.add(self._description)

    def _adopt(self, number: int, family: int) -> None:
        if number < 0:
            raise ValueError("negative file descriptor")
        description = table.get(number)
        if description is None:
            raise RefusedError(
                "socket(fileno)", "inherited sockets are not virtual; let the program bind its own"
            )
        self._description = description
        self._number = number
        known = description.family if isinstance(description, TcpSocket) else AF_UNIX
        self._family = known if family == -1 else family

    @property
    def family(self) -> int:
        return self._family

    @property
    def type(self) -> int:
        return self._type

    @property
    def proto(self) -> int:
        return self._proto

    @property
    def timeout(self) -> float | None:
        return self.gettimeout()

    def fileno(self) -> int:
        return self._number

    def gettimeout(self) -> float | None:
        return None if self._timeout_ns < 0 else self._timeout_ns / 1e9

    def settimeout(self, timeout: float | None) -> None:
        self._timeout_ns = nanoseconds(timeout)
        self._description.nonblocking = self._timeout_ns >= 0

    def setblocking(self, flag: bool) -> None:
        self.settimeout(None if flag else 0.0)

    def getblocking(self) -> bool:
        return self._timeout_ns != 0

    def _open(self) -> Description:
        if self._number < 0:
            raise system_error(errno.EBADF)
        return self._description

    def _tcp(self) -> TcpSocket:
        description = self._open()
        if not isinstance(description, TcpSocket):
            raise system_error(errno.EOPNOTSUPP)
        return description

    # -- connections -------------------------------------------------------------------------------

    def bind(self, address: Any) -> None:
        self._tcp().bind(resolving.numeric_address(self._family, address, passive=True))

    def listen(self, backlog: int = 128) -> None:
        self._tcp().listen()

    def _accept(self) -> tuple[int, Any]:
        arrival = self._tcp().accept(self._timeout_ns)
        number = table.add(TcpSocket.arrived(self._family, arrival))
        return number, self._shown(arrival.remote)

    def connect(self, address: Any) -> None:
        error = self._connect(address)
        if error:
            raise system_error(error)

    def connect_ex(self, address: Any) -> int:
        try:
            return self._connect(address)
        except TimeoutError:
            return errno.EAGAIN

    def _connect(self, address: Any) -> int:
        tcp = self._tcp()
        return tcp.connect(resolving.numeric_address(self._family, address, passive=False), self._timeout_ns)

    def _shown(self, address: Address) -> Any:
        if self._family == AF_INET6:
            return (address.host or "::", address.port, 0, 0)
        return (address.host or "0.0.0.0", address.port)

    def getsockname(self) -> Any:
        description = self._open()
        return self._shown(description.local) if isinstance(description, TcpSocket) else ""

    def getpeername(self) -> Any:
        description = self._open()
        if not isinstance(description, TcpSocket):
            return ""
        description.connected()
        return self._shown(description.remote)

    def shutdown(self, how: int) -> None:
        if how not in (_socket.SHUT_RD, _socket.SHUT_WR, _socket.SHUT_RDWR):
            raise system_error(errno.EINVAL)
        description = self._open()
        if isinstance(description, TcpSocket):
            description.shutdown(how)
            return
        if how != _socket.SHUT_WR:
            description.end_reading()  # type: ignore[attr-defined]
        if how != _socket.SHUT_RD:
            description.half_close()  # type: ignore[attr-defined]

    def close(self) -> None:
        number, self._number = self._number, -1
        if number >= 0 and table.get(number) is self._description:
            table.remove(number)

    def detach(self) -> int:
        number, self._number = self._number, -1
        return number

    def __del__(self) -> None:
        if getattr(self, "_number", -1) >= 0 and passage.current():
            self.close()

    # -- options -----------------------------------------------------------------------------------

    def setsockopt(self, level: int, option: int, value: Any, length: int = 0) -> None:
        description = self._open()
        if isinstance(description, TcpSocket):
            description.options[int(level), int(option)] = (
                value if isinstance(value, int) else bytes(value or b"")
            )

    def getsockopt(self, level: int, option: int, length: int = 0) -> int | bytes:
        description = self._open()
        value = options.value_of(description, int(level), int(option))
        if isinstance(value, int) and length:
            return value.to_bytes(4, "little", signed=True)[:length]
        return value

    def ioctl(self, *arguments: Any) -> None:
        raise RefusedError("socket.ioctl", "not on Linux")

    def __repr__(self) -> str:
        kind = f"family={self._family}, type={self._type}, proto={self._proto}"
        return f"<socket object, fd={self._number}, {kind}>"


counting.speak_for(Socket)


def _not_tcp(family: int, kind: int) -> RefusedError:
    name = f"socket(family={family}, type={kind})"
    number = errno.ESOCKTNOSUPPORT if family in (AF_INET, AF_INET6) else errno.EAFNOSUPPORT
    return RefusedError(
        name, "only TCP is replicated; let the program speak TCP, or give it this by other means", number
    )


def socketpair(family: int = AF_UNIX, type: int = SOCK_STREAM, proto: int = 0) -> tuple[Socket, Socket]:  # noqa: A002
    if int(type) & _KIND != SOCK_STREAM:
        raise RefusedError("socketpair", "only stream pairs are virtual")
    return tuple(_of(description) for description in local_pair())  # type: ignore[return-value]


def _of(description: Description) -> Socket:
    return Socket(int(AF_UNIX), int(SOCK_STREAM), 0, table.add(description))


def dup(number: int) -> int:
    description = table.get(int(number))
    if description is None:
        raise system_error(errno.EBADF)
    return table.add(description)


def close(number: int) -> None:
    if table.get(int(number)) is None:
        _native_close(number)
    else:
        table.remove(int(number))


def getdefaulttimeout() -> float | None:
    return None if _default_timeout_ns < 0 else _default_timeout_ns / 1e9


def setdefaulttimeout(timeout: float | None) -> None:
    global _default_timeout_ns
    _default_timeout_ns = nanoseconds(timeout)


def replacements() -> dict[str, dict[str, object]]:
    return {
        "_socket": {
            "socket": Socket,
            "SocketType": Socket,
            "socketpair": socketpair,
            "dup": dup,
            "close": close,
            "getdefaulttimeout": getdefaulttimeout,
            "setdefaulttimeout": setdefaulttimeout,
        }
    }
