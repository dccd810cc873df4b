"""Names of hosts: numeric ones and localhost are answered here, all others by the primary.

A lookup may take seconds, and inside the core's step nothing may: so it is made before, natively, and the
step only hands out what was found. Backups then make lookups whose answers nobody uses; but they have what
it takes when they are promoted in that very moment.
"""

from __future__ import annotations

import _socket
import errno
from typing import Any

from llft.interpose import passage
from llft.interpose.asking import ask, asking
from llft.interpose.descriptors import system_error
from llft.wire.preamble import Address

AF_INET, AF_INET6, AF_UNSPEC = _socket.AF_INET, _socket.AF_INET6, _socket.AF_UNSPEC
_native_getaddrinfo = _socket.getaddrinfo
_native_getnameinfo = _socket.getnameinfo
_LOCAL_NAMES = ("localhost", "localhost.localdomain", "ip6-localhost")
_MAPPED = "::ffff:"
_ERRORS: tuple[type[OSError], ...] = (_socket.gaierror, _socket.herror, OSError)


def is_numeric(host: str) -> bool:
    for family in (AF_INET, AF_INET6):
        try:
            _socket.inet_pton(family, host)
        except OSError:
            continue
        return True
    return False


def getaddrinfo(
    host: Any,
    port: Any,
    family: int = 0,
    type: int = 0,  # noqa: A002
    proto: int = 0,
    flags: int = 0,
) -> list[Any]:
    name = _text(host)
    if name is not None and name.lower() in _LOCAL_NAMES:
        name = "::1" if family == AF_INET6 else "127.0.0.1"
    if not passage.current():
        return _native_getaddrinfo(host, port, family, type, proto, flags)
    if (name is None or is_numeric(name)) and not _is_service_name(port):
        flags = (flags | _socket.AI_NUMERICHOST) & ~_socket.AI_ADDRCONFIG if name is not None else flags
        return _native_getaddrinfo(name, port, int(family), int(type), int(proto), int(flags))
    found: list[Any] = _looked_up(
        "getaddrinfo", _native_getaddrinfo, host, port, int(family), int(type), int(proto), int(flags)
    )
    return found


def _looked_up(name: str, native: Any, *arguments: Any) -> Any:
    """The lookup is made now, outside the step; the primary's is the answer."""
    try:
        found: tuple[int, Any] = -1, native(*arguments)
    except OSError as error:  # a plain one too (EAI_SYSTEM): a backup's own failure must stay its own
        found = next(i for i, kind in enumerate(_ERRORS) if isinstance(error, kind)), error.args
    failure, answer = ask(name, lambda: found)
    if failure >= 0:
        raise _ERRORS[failure](*answer)
    return answer


def _looking_up(name: str, native: Any) -> object:
    def lookup(*arguments: Any) -> Any:
        return _looked_up(name, native, *arguments) if passage.current() else native(*arguments)

    lookup.__name__ = name
    return lookup


def gethostbyname(host: str) -> str:
    numeric: str = getaddrinfo(host, 0, AF_INET, _socket.SOCK_STREAM)[0][4][0]
    return numeric


def getnameinfo(address: Any, flags: int) -> Any:
    numeric = _socket.NI_NUMERICHOST | _socket.NI_NUMERICSERV
    if flags & numeric == numeric or not passage.current():
        return _native_getnameinfo(address, flags)
    return _looked_up("getnameinfo", _native_getnameinfo, address, flags)


def numeric_address(family: int, address: Any, *, passive: bool) -> Address:
    """What bind and connect are given, as a numeric host and a port."""
    if not isinstance(address, tuple) or len(address) < 2:
        raise TypeError(f"AF_INET address must be tuple, not {type(address).__name__}")
    host, port = _text(address[0]), address[1]
    if not isinstance(port, int):
        raise TypeError("an integer is required for the port")
    if not 0 <= port <= 65_535:
        raise OverflowError("port must be 0-65535.")
    if not host:
        host = ("::" if family == AF_INET6 else "0.0.0.0") if passive else "127.0.0.1"
    elif host == "<broadcast>":
        raise system_error(errno.EACCES)
    elif not is_numeric(host):
        host = getaddrinfo(host, port, family, _socket.SOCK_STREAM)[0][4][0]
    return Address(_plain(str(host)), port)


def _plain(host: str) -> str:
    """Without a scope, and IPv4 as IPv4."""
    host = host.partition("%")[0].lower()
    if host.startswith(_MAPPED) and "." in host:
        return host[len(_MAPPED) :]
    return host


def _text(host: Any) -> str | None:
    if isinstance(host, (bytes, bytearray)):
        return bytes(host).decode("ascii")
    return None if host is None else str(host)


def _is_service_name(port: Any) -> bool:
    text = _text(port)
    return text is not None and not text.isdigit() and text != ""


def replacements() -> dict[str, dict[str, object]]:
    looked_up = {
        name: _looking_up(name, getattr(_socket, name)) for name in ("gethostbyaddr", "gethostbyname_ex")
    }
    files = (
        "getservbyname",
        "getservbyport",
        "getprotobyname",
        "if_nameindex",
        "if_nametoindex",
        "if_indextoname",
    )
    asked = {name: asking(name, getattr(_socket, name)) for name in files}
    own: dict[str, object] = {
        "getaddrinfo": getaddrinfo,
        "gethostbyname": gethostbyname,
        "getnameinfo": getnameinfo,
    }
    return {"_socket": own | looked_up | asked}
