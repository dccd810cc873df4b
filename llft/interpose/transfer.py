"""Bytes on a virtual socket: the many ways in which programs read and write them.

All of them are one receive or one send of the description underneath, with the socket's timeout.
"""

from __future__ import annotations

import _socket
from collections.abc import Iterable
from typing import Any

from llft.interpose.descriptors import Description
from llft.interpose.refusing import RefusedError
from llft.interpose.streams import SEND_AT_MOST

_KNOWN = _socket.MSG_PEEK | _socket.MSG_DONTWAIT | _socket.MSG_WAITALL | _socket.MSG_NOSIGNAL


class Transfer:
    """The part of a socket that moves bytes."""

    __slots__ = ()
    _timeout_ns: int

    def _open(self) -> Description:
        """What the socket stands for; an error if it is closed."""
        raise NotImplementedError

    def recv(self, bufsize: int, flags: int = 0) -> bytes:
        if bufsize < 0:
            raise ValueError("negative buffersize in recv")
        if flags:
            return self._recv_flagged(bufsize, flags)
        return self._open().receive(bufsize, self._timeout_ns)

    def _recv_flagged(self, bufsize: int, flags: int) -> bytes:
        flags = int.__or__(flags, 0)  # an enumeration takes microseconds for each question
        if flags & ~_KNOWN:
            raise RefusedError(
                f"recv flags {flags}", "only MSG_PEEK, MSG_DONTWAIT and MSG_WAITALL are virtual"
            )
        timeout_ns = 0 if flags & _socket.MSG_DONTWAIT else self._timeout_ns
        peek = bool(flags & _socket.MSG_PEEK)
        data = self._open().receive(bufsize, timeout_ns, peek)
        while flags & _socket.MSG_WAITALL and not peek and data and len(data) < bufsize:
            more = self._open().receive(bufsize - len(data), timeout_ns)
            if not more:
                break
            data += more
        return data

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        if nbytes < 0:
            raise ValueError("negative buffersize in recv_into")
        with memoryview(buffer) as plain, plain.cast("B") as view:
            data = self.recv(nbytes or len(view), flags)
            view[: len(data)] = data
            return len(data)

    def recvfrom(self, bufsize: int, flags: int = 0) -> tuple[bytes, Any]:
        return self.recv(bufsize, flags), None

    def recvfrom_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> tuple[int, Any]:
        return self.recv_into(buffer, nbytes, flags), None

    def recvmsg(self, bufsize: int, ancbufsize: int = 0, flags: int = 0) -> tuple[bytes, list[Any], int, Any]:
        return self.recv(bufsize, flags), [], 0, None

    def recvmsg_into(
        self, buffers: Iterable[Any], ancbufsize: int = 0, flags: int = 0
    ) -> tuple[int, list[Any], int, Any]:
        views = [memoryview(buffer).cast("B") for buffer in buffers]
        data = self.recv(sum(len(view) for view in views), flags)
        position = 0
        for view in views:
            part = data[position : position + len(view)]
            view[: len(part)] = part
            position += len(part)
        return len(data), [], 0, None

    def send(self, data: Any, flags: int = 0) -> int:
        timeout_ns = 0 if flags & _socket.MSG_DONTWAIT else self._timeout_ns
        return self._open().send(_bytes(data), timeout_ns)

    def sendall(self, data: Any, flags: int = 0) -> None:
        payload = _bytes(data)
        sent = self._open().send(payload, self._timeout_ns)
        while sent < len(payload):
            sent += self._open().send(payload[sent : sent + SEND_AT_MOST], self._timeout_ns)

    def sendmsg(
        self, buffers: Iterable[Any], ancdata: Iterable[Any] = (), flags: int = 0, address: Any = None
    ) -> int:
        if list(ancdata):
            raise RefusedError(
                "sendmsg with ancillary data", "descriptors cannot be passed to other programs"
            )
        return self.send(b"".join(_bytes(buffer) for buffer in buffers), flags)

    def sendto(self, data: Any, *arguments: Any) -> int:
        return self.send(data)

    def sendmsg_afalg(self, *arguments: Any, **named: Any) -> int:
        raise RefusedError("sendmsg_afalg", "use hashlib")


def _bytes(data: Any) -> bytes:
    if isinstance(data, bytes):
        return data
    with memoryview(data) as view:
        return view.tobytes()
