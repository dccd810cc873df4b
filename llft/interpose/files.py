"""Files are the replica's own; only the order of directories is not left to the file system.

glob, os.walk, shutil and pathlib follow. Temporary names come of ordered randomness and are alike: give each
replica a working directory and a TMPDIR of its own.
"""

from __future__ import annotations

import posix
from collections.abc import Iterator
from types import TracebackType
from typing import Any

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


def replacements() -> dict[str, dict[str, object]]:
    return {"posix": {"listdir": listdir, "scandir": scandir}}
