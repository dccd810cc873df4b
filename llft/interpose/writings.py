"""Whether the program has written to the file system: then its state is not in its memory alone.

A program restored from an image would not find what it had written: the image does not carry files
(docs/CHECKPOINTS.md). The interpreter tells of every file that is opened and of every change of a directory
(PEP 578). What it compiles of imported modules does not count, for it is made anew where it is missing; its
directory is made by us (`ticking`), for one above it is not to be told from one of the program's. Extensions
that write files past the interpreter are found by their open descriptors, at the capture. Of its own
temporary directory the capture sees itself whether anything is in it: what was there for a moment does not
count (`tempfile` tries the directory so).
"""

from __future__ import annotations

import posix
import sys
from typing import Any

from llft.interpose import passage
from llft.interpose.files import TEMPORARY

_WRITING = posix.O_WRONLY | posix.O_RDWR | posix.O_CREAT | posix.O_TRUNC | posix.O_APPEND
_CHANGES = frozenset(
    ("os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink", "os.truncate")
)
_OF_TWO_PATHS = frozenset(("os.link", "os.rename", "os.symlink"))
_NOWHERE = ("/dev/null", "/dev/stdout", "/dev/stderr")

ours = ""
"""Paths that begin so are the runtime's: a thread of the program may be serving the network."""
first = ""
"""The first thing that it wrote, in words."""


def begin() -> None:
    sys.addaudithook(_noticed)


def _noticed(event: str, arguments: tuple[Any, ...]) -> None:
    global first
    if first or event not in _ACCOUNTS or not passage.current():
        return
    paths = arguments[: 2 if event in _OF_TWO_PATHS else 1]
    if all(_is_elsewhere(_text(path)) for path in paths):
        return
    what = _ACCOUNTS[event](arguments)
    if what:
        first = what


def _is_elsewhere(name: str) -> bool:
    """The runtime's, or in the temporary directory, or a compiled module."""
    if (ours and name.startswith(ours)) or _is_compiled(name):
        return True
    return name == TEMPORARY or (name.startswith(f"{TEMPORARY}/") and "/../" not in f"{name}/")


def _is_compiled(name: str) -> bool:
    """Where the import system keeps what it has compiled."""
    if "/../" in name:
        return False
    prefix = sys.pycache_prefix
    return "__pycache__" in name.split("/") if prefix is None else name.startswith(f"{prefix}/")


def _opened(arguments: tuple[Any, ...]) -> str:
    path, _, flags = arguments
    if not isinstance(flags, int) or not flags & _WRITING or isinstance(path, int):
        return ""
    name = _text(path)
    return "" if name in _NOWHERE else f"it writes {name}"


def _database(arguments: tuple[Any, ...]) -> str:
    name = _text(arguments[0])
    return "" if name in (":memory:", "") else f"it has a database in {name}"


def _changed(arguments: tuple[Any, ...]) -> str:
    return f"it changes files: {_text(arguments[0])}"


def _text(path: object) -> str:
    return path.decode("utf-8", "replace") if isinstance(path, bytes) else str(path)


_ACCOUNTS = {"open": _opened, "sqlite3.connect": _database, **dict.fromkeys(_CHANGES, _changed)}
