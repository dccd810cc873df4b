"""The Python side of the spool (`spool.c`): what a journal writes through, so that nobody waits for a disk.

One for each process. Without the library a journal writes to its file itself, and waits when the disk does.
"""

from __future__ import annotations

import ctypes
import os

from llft.journal.sink import DIRECT, Sink
from llft.runtime.native.build import build

SETTLE_BOUND_NS = 2_000_000_000


def open_spool(*, alone: bool = False) -> tuple[Sink, str]:
    """A way to the disk, and why it is the direct one if so, for people. `alone`: nobody else writes it down,
    so little is to be lost if this process is killed."""
    path, reason = build(os.environ)
    if not path:
        return DIRECT, f"the journal waits for the disk: {reason}"
    try:
        return Spool(path, alone=alone), ""
    except OSError as error:
        return DIRECT, f"the journal waits for the disk: {error}"


class Spool:
    __slots__ = ("_abandon", "_settle", "_write")

    def __init__(self, path: str, *, alone: bool = False) -> None:
        # PyDLL keeps the interpreter's lock: to get it back would take longer than the call.
        quick, slow = ctypes.PyDLL(path), ctypes.CDLL(path)
        self._write = quick.spool_write
        self._write.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_uint32]
        self._settle = slow.spool_settle
        self._settle.argtypes = [ctypes.c_int64]
        self._abandon = quick.spool_abandon
        failed = quick.spool_start(int(alone))
        if failed:
            raise OSError(failed, os.strerror(failed))

    def write(self, fd: int, data: bytes) -> int:
        failed = self._write(fd, data, len(data))
        if failed:
            raise OSError(failed, os.strerror(failed))
        return len(data)

    def abandon(self) -> None:
        self._abandon()

    def settle(self) -> None:
        failed = self._settle(SETTLE_BOUND_NS)
        if failed:
            raise OSError(failed, os.strerror(failed))
