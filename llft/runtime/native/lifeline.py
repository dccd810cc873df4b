"""The Python side of the lifeline (`lifeline.c`): hold one's own, watch those of the peers on this host.

A line is a file in the run directory, named after its holder's birth. Replicas of one `llft run` share that
directory; those that do not (another host, another run) are watched by TCP alone, as all are
(`runtime.liveness`): the lifeline only brings the same news sooner.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
from contextlib import suppress

from llft import originals
from llft.identifiers import BirthId
from llft.runtime.native.build import build
from llft.runtime.poller import raise_fd

_TOKEN = struct.Struct("=Q")
_MOST_AT_ONCE = 64


class Lifeline:
    """One process's. `fileno` is readable when somebody has died."""

    def __init__(self, directory: str, birth_id: BirthId) -> None:
        self._directory = directory
        self._path = self._path_of(birth_id)
        self._host_id = birth_id.host_id
        self._watched: dict[int, BirthId] = {}
        self._count = 0
        self._library, self.missing = _load()
        if self._library is not None:
            failed = self._library.lifeline_hold(os.fsencode(self._path))
            self.missing = os.strerror(failed) if failed else ""
        read_end, write_end = originals.pipe()
        self._told, self._tell = (_quiet(raise_fd(end)) for end in (read_end, write_end))

    def fileno(self) -> int:
        return self._told

    def watch(self, birth_id: BirthId) -> bool:
        """False: there is no line of that process here; maybe there will be."""
        if self._library is None or birth_id.host_id != self._host_id:
            return False
        path = os.fsencode(self._path_of(birth_id))
        self._count += 1
        if self._library.lifeline_watch(path, ctypes.c_uint64(self._count), self._tell):
            return False
        self._watched[self._count] = birth_id
        return True

    def take_dead(self) -> list[BirthId]:
        """Those whose kernel has told. Their files are nobody's any more."""
        try:
            told = originals.read(self._told, _MOST_AT_ONCE * _TOKEN.size)
        except BlockingIOError:
            return []
        dead = [self._watched.pop(token) for (token,) in _TOKEN.iter_unpack(told)]
        for birth_id in dead:
            _unlink(self._path_of(birth_id))
        return dead

    def close(self) -> None:
        """This life ends: its file goes. The line itself is let go by the kernel."""
        _unlink(self._path)

    def _path_of(self, birth_id: BirthId) -> str:
        return f"{self._directory}/life-{birth_id.pid}-{birth_id.start_ns}"


def _load() -> tuple[ctypes.CDLL | None, str]:
    path, reason = build(os.environ)
    if not path:
        return None, reason
    try:
        return ctypes.CDLL(path), ""
    except OSError as error:
        return None, str(error)


def _quiet(fd: int) -> int:
    originals.fcntl(fd, fcntl.F_SETFL, originals.fcntl(fd, fcntl.F_GETFL) | os.O_NONBLOCK)
    return fd


def _unlink(path: str) -> None:
    with suppress(FileNotFoundError):
        originals.unlink(path)
