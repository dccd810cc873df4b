"""The program's own open files at a capture, and the same ones opened again in a restored process.

Only regular files that are read, and /dev/null. Everything else below the runtime's descriptors is state that
an image does not carry, and an obstacle to it.
"""

from __future__ import annotations

import posix
import stat
from typing import NamedTuple

from llft import originals
from llft.past.source import NotCapturedError
from llft.runtime.poller import FIRST_FD

_readlink, _fstat, _lseek = posix.readlink, posix.fstat, posix.lseek
_open, _dup2, _getcwd = posix.open, posix.dup2, posix.getcwd
_F_GETFL, _F_GETFD = 3, 1
_STANDARD = 3
_NOWHERE = "/dev/null"
_START, _CURRENT = 0, 1
"""Of lseek."""


class OpenFile(NamedTuple):
    fd: int
    path: str
    flags: int
    offset: int
    inheritable: bool


def open_files() -> list[OpenFile]:
    """NotCapturedError: one of them cannot be opened again."""
    numbers = sorted(int(name) for name in originals.listdir("/proc/self/fd"))
    found = []
    for fd in numbers:
        if _STANDARD <= fd < FIRST_FD:
            try:
                found.append(_describe(fd))
            except FileNotFoundError:
                continue  # the descriptor by which the directory was read
    return found


def _describe(fd: int) -> OpenFile:
    path = _readlink(f"/proc/self/fd/{fd}")
    regular = stat.S_ISREG(_fstat(fd).st_mode) and path.startswith("/") and not path.endswith(" (deleted)")
    if not regular and path != _NOWHERE:
        raise NotCapturedError(f"descriptor {fd} is {path}, which an image does not carry")
    flags = originals.fcntl(fd, _F_GETFL)
    if flags & (posix.O_WRONLY | posix.O_RDWR) and path != _NOWHERE:
        raise NotCapturedError(f"it has {path} open for writing")
    inheritable = not originals.fcntl(fd, _F_GETFD) & 1
    return OpenFile(fd, path, flags, _lseek(fd, 0, _CURRENT), inheritable)


def open_again(files: list[OpenFile]) -> None:
    for file in files:
        low = _open(file.path, file.flags | posix.O_CLOEXEC)
        _lseek(low, file.offset, _START)
        if low != file.fd:
            _dup2(low, file.fd, file.inheritable)
            originals.close(low)


def working_directory() -> str:
    return _getcwd()
