"""Pipes, and the system's calls on numbers of descriptors.

A pipe is a buffer inside the program. The calls below look whether a number is virtual, and are the genuine
ones for all others. `open` on a virtual number (os.fdopen) makes a file object on these calls.
"""

from __future__ import annotations

import _io
import errno
import fcntl
import posix
from collections.abc import Callable, Sequence
from typing import Any

from llft.interpose.descriptors import Description, system_error, table
from llft.interpose.monitor import entered
from llft.interpose.refusing import RefusedError
from llft.interpose.streams import Buffer, Local

_natives: dict[str, Callable[..., Any]] = {
    name: getattr(posix, name) for name in dir(posix) if name[0] != "_"
}
_native_read, _native_write, _native_close = posix.read, posix.write, posix.close
_native_open = _io.open
_native_fcntl, _native_ioctl = fcntl.fcntl, fcntl.ioctl
_FIONBIO = 0x5421


def pipe() -> tuple[int, int]:
    return pipe2(0)


def pipe2(flags: int, /) -> tuple[int, int]:
    buffer = Buffer()
    ends = (Local(buffer, None, is_socket=False), Local(None, buffer, is_socket=False))
    for end in ends:
        end.nonblocking = bool(flags & posix.O_NONBLOCK)
    return table.add(ends[0]), table.add(ends[1])


def _timeout_ns(description: Description) -> int:
    return 0 if description.nonblocking else -1


def read(fd: int, length: int, /) -> bytes:
    description = table.get(fd)
    if description is None:
        return _native_read(fd, length)
    return description.receive(length, _timeout_ns(description))


def write(fd: int, data: Any, /) -> int:
    description = table.get(fd)
    if description is None:
        return _native_write(fd, data)
    payload = bytes(data)
    sent = description.send(payload, _timeout_ns(description))
    while sent < len(payload) and not description.nonblocking:
        sent += description.send(payload[sent:], -1)
    return sent


def readv(fd: int, buffers: Sequence[Any], /) -> int:
    description = table.get(fd)
    if description is None:
        return int(_natives["readv"](fd, buffers))
    data = description.receive(
        sum(len(memoryview(buffer).cast("B")) for buffer in buffers), _timeout_ns(description)
    )
    position = 0
    for buffer in buffers:
        view = memoryview(buffer).cast("B")
        part = data[position : position + len(view)]
        view[: len(part)] = part
        position += len(part)
    return len(data)


def writev(fd: int, buffers: Sequence[Any], /) -> int:
    if table.get(fd) is None:
        return int(_natives["writev"](fd, buffers))
    return write(fd, b"".join(bytes(buffer) for buffer in buffers))


def close(fd: int) -> None:
    if table.get(fd) is None:
        _native_close(fd)
    else:
        table.remove(fd)


@entered
def closerange(fd_low: int, fd_high: int, /) -> None:
    for number in [number for number in table.descriptions if fd_low <= number < fd_high]:
        table.remove(number)


def dup(fd: int, /) -> int:
    description = table.get(fd)
    return int(_natives["dup"](fd)) if description is None else table.add(description)


def dup2(fd: int, fd2: int, inheritable: bool = True) -> int:
    if table.get(fd) is not None or table.get(fd2) is not None:
        raise RefusedError("os.dup2", "a virtual descriptor cannot get a number of its own choice")
    return int(_natives["dup2"](fd, fd2, inheritable))


def set_blocking(fd: int, blocking: bool, /) -> None:
    description = table.get(fd)
    if description is None:
        _natives["set_blocking"](fd, blocking)
    else:
        description.nonblocking = not blocking


def get_blocking(fd: int, /) -> bool:
    description = table.get(fd)
    return bool(_natives["get_blocking"](fd)) if description is None else not description.nonblocking


def sendfile(out_fd: int, in_fd: int, offset: Any, count: int, *arguments: Any) -> int:
    """Programs and libraries go on with read and send when it is not there."""
    if table.get(out_fd) is not None:
        raise system_error(errno.ENOTSOCK)
    return int(_natives["sendfile"](out_fd, in_fd, offset, count, *arguments))


def control(fd: Any, cmd: int, arg: Any = 0, /) -> Any:
    """fcntl: what concerns the description is ours; the rest, the placeholder's."""
    number = fd if isinstance(fd, int) else fd.fileno()
    description = table.get(number)
    if description is None:
        return _native_fcntl(fd, cmd, arg)
    if cmd == fcntl.F_GETFL:
        return posix.O_RDWR | (posix.O_NONBLOCK if description.nonblocking else 0)
    if cmd == fcntl.F_SETFL:
        description.nonblocking = bool(arg & posix.O_NONBLOCK)
        return 0
    if cmd in (fcntl.F_DUPFD, fcntl.F_DUPFD_CLOEXEC):
        return table.add(description)
    return _native_fcntl(number, cmd, arg)


def ioctl(fd: Any, request: int, arg: Any = 0, mutate_flag: bool = True, /) -> Any:
    number = fd if isinstance(fd, int) else fd.fileno()
    description = table.get(number)
    if description is None:
        return _native_ioctl(fd, request, arg, mutate_flag)
    if request == _FIONBIO:
        raise RefusedError("ioctl FIONBIO", "use setblocking")
    return _native_ioctl(number, request, arg, mutate_flag)


class VirtualFile(_io._RawIOBase):
    """A raw file on a virtual descriptor."""

    def __init__(self, number: int, mode: str, closefd: bool) -> None:
        self._number = number
        self._closefd = closefd
        self.mode = mode
        self.name = number

    def fileno(self) -> int:
        return self._number

    def readable(self) -> bool:
        return "r" in self.mode or "+" in self.mode

    def writable(self) -> bool:
        return "r" not in self.mode or "+" in self.mode

    def readinto(self, buffer: Any) -> int:
        data = read(self._number, len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def write(self, data: Any) -> int:
        return write(self._number, data)

    def close(self) -> None:
        if not self.closed:
            super().close()
            if self._closefd:
                close(self._number)


def open_file(
    file: Any,
    mode: str = "r",
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    closefd: bool = True,
    opener: Any = None,
) -> Any:
    if not isinstance(file, int) or table.get(file) is None:
        return _native_open(file, mode, buffering, encoding, errors, newline, closefd, opener)
    raw = VirtualFile(file, mode, closefd)
    if buffering == 0:
        return raw
    if raw.readable() and raw.writable():
        raise system_error(errno.ESPIPE)
    kind = _io.BufferedReader if raw.readable() else _io.BufferedWriter
    buffered = kind(raw)
    return buffered if "b" in mode else _io.TextIOWrapper(buffered, encoding, errors, newline, buffering == 1)


def replacements() -> dict[str, dict[str, object]]:
    calls = (
        pipe,
        pipe2,
        read,
        write,
        readv,
        writev,
        close,
        closerange,
        dup,
        dup2,
        set_blocking,
        get_blocking,
        sendfile,
    )
    return {
        "posix": {function.__name__: function for function in calls},
        "fcntl": {"fcntl": control, "ioctl": ioctl},
        "_io": {"open": open_file},
        "builtins": {"open": open_file},
    }
