"""Options of virtual sockets: what is set is remembered, what is asked has a plausible answer."""

from __future__ import annotations

import _socket

from llft.interpose.descriptors import Description
from llft.interpose.tcp import TcpSocket


def value_of(description: Description, level: int, option: int) -> int | bytes:
    if level == _socket.SOL_SOCKET:
        if option == _socket.SO_ERROR:
            return description.take_error() if isinstance(description, TcpSocket) else 0
        if option == _socket.SO_TYPE:
            return int(_socket.SOCK_STREAM)
        if option == _socket.SO_DOMAIN:
            return int(description.family if isinstance(description, TcpSocket) else _socket.AF_UNIX)
        if option == _socket.SO_ACCEPTCONN:
            return int(isinstance(description, TcpSocket) and description.listener is not None)
        if option in (_socket.SO_SNDBUF, _socket.SO_RCVBUF):
            return 262_144
    if isinstance(description, TcpSocket):
        return description.options.get((level, option), 0)
    return 0
