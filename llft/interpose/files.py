"""Files are the replica's own (of a data directory by `runtime.own_directory`); only the order of directories
is not left to the file system.

glob, os.walk, shutil and pathlib follow. Names of temporary files come of ordered randomness and are alike;
on one host they would collide: each replica has a directory of its own for them. Its path is alike, too, by
a link that every process has for itself, because programs show such paths.
"""

from __future__ import annotations

import fcntl
import os
import posix
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from llft.errors import InvariantError

_TEMPORARY_FD = 890
"""Above the program's own files, below the placeholders of virtual descriptors."""
TEMPORARY = f"/proc/self/fd/{_TEMPORARY_FD}"
"""The program's TMPDIR."""

_native_listdir = posix.listdir
_native_scandir = posix.scandir


def listdir(path: Any = None) -> list[Any]:
    return sorted(_native_listdir(path))


class scandir:  # noqa: N801 (it has the name of what it replaces)
    """All entries at once, by name."""

    def __init__(self, path: Any = None) -> None:
        with _native_scandir(path) as entries:
            self._entries: Iterator[Any] = iter(sorted(entries, key=lambda entry: entry.name))

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(self._entries)

    def close(self) -> None:
        self._entries = iter(())

    def __enter__(self) -> scandir:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def own_temporary_directory(path: str) -> None:
    """TMPDIR is this directory, from now on, and it is empty: what a former life of the replica left there
    under the same names would be in the way of the program that is run again from its birth."""
    os.makedirs(path, mode=0o700, exist_ok=True)
    for directory, directories, names in os.walk(path, topdown=False):
        for name in names:
            posix.unlink(os.path.join(directory, name))
        for name in directories:
            below = os.path.join(directory, name)
            posix.unlink(below) if os.path.islink(below) else posix.rmdir(below)
    opened = posix.open(path, posix.O_RDONLY | posix.O_DIRECTORY | posix.O_CLOEXEC)
    number = fcntl.fcntl(opened, fcntl.F_DUPFD_CLOEXEC, _TEMPORARY_FD)
    posix.close(opened)
    if number != _TEMPORARY_FD:
        raise InvariantError("descriptor_taken", number=_TEMPORARY_FD, got=number)
    os.environ["TMPDIR"] = TEMPORARY


def replacements() -> dict[str, dict[str, object]]:
    return {"posix": {"listdir": listdir, "scandir": scandir}}
