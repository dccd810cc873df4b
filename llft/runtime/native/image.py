"""The Python side of process images (`image_*.c`): take one, ask whether it is whole, become one.

The library is called with the interpreter's lock held (PyDLL), so that no thread of Python's is half-way into
anything. An image can be taken where addresses are not randomised, on x86-64 with glibc.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
from typing import NamedTuple

from llft.runtime.native.build import build

ADDR_NO_RANDOMIZE = 0x0040000
_ASK = 0xFFFFFFFF
_MEANINGS = {
    "EXDEV": "another processor or kernel than the image's",
    "ESTALE": "a library or program differs from the image's: if it was replaced since, restart the group",
    "ENOENT": "the image, or a library or program that it needs, was removed or replaced",
    "EADDRNOTAVAIL": "addresses are randomised, or it is another interpreter",
    "EBADMSG": "it is no image of this version",
    "ENOTSUP": "memory shared with another process, or another C library",
    "ETIMEDOUT": "a thread cannot be stopped: it blocks signals",
    "EBUSY": "the program has a use of its own for the signal by which threads are stopped",
    "EEXIST": "the addresses that images need are taken",
}
_LASTING = ("EXDEV", "ESTALE", "EADDRNOTAVAIL", "EBADMSG", "ENOTSUP")
"""What another attempt would not help against."""


class Taken(NamedTuple):
    restored: bool
    """This is another process, later, that was restored from the image."""
    pause_ns: int
    child: int
    """The process that writes it."""


class ImageError(Exception):
    """Why there is no image, or none can be restored."""

    def __init__(self, reason: str, *, lasts: bool = False) -> None:
        """`lasts`: it will be no other, here."""
        super().__init__(reason)
        self.lasts = lasts


def randomised() -> bool:
    """Whether the addresses of this process were chosen at random."""
    return not ctypes.CDLL(None).personality(_ASK) & ADDR_NO_RANDOMIZE


def stop_randomising() -> bool:
    """From the next exec on. False: it is not allowed."""
    library = ctypes.CDLL(None)
    persona: int = library.personality(_ASK)
    return bool(library.personality(persona | ADDR_NO_RANDOMIZE) != -1)


def forget_native_threads() -> None:
    """In a restored process: the runtime's native threads are not there, and may be started again."""
    _library().pulse_forget()
    _library().lifeline_forget()
    _library().spool_forget()


def impossible() -> str:
    """Why no process here can have an image; "": it can."""
    system = os.uname()
    has_glibc = "CS_GNU_LIBC_VERSION" in os.confstr_names
    if (system.sysname, system.machine) != ("Linux", "x86_64") or not has_glibc:
        return f"images are for Linux on x86_64 with glibc, not for {system.sysname} on {system.machine}"
    _, reason = build(os.environ)
    return f"what takes images is not compiled: {reason}" if reason else ""


def obstacle() -> str:
    """Why this process can have no image; "": it can."""
    if randomised():
        return impossible() or "its addresses are random: the kernel, or a container's rules, forbid others"
    return impossible()


def take(path: str, skipped: str) -> Taken:
    """`skipped` begins the paths of shared mappings that are left out. Returns twice: here, and in every
    process that is restored from the image."""
    found = (ctypes.c_int64 * 2)()
    result = _library().image_take(os.fsencode(path), os.fsencode(skipped), found)
    if result < 0:
        raise _error(result)
    return Taken(bool(result), found[0], found[1])


def is_written(child: int) -> bool:
    result = _library().image_written(ctypes.c_long(child))
    if result < 0:
        raise _error(result)
    return bool(result)


def restore(path: str, keep_fd: int) -> None:
    """Become it. Descriptors 0, 1, 2 and `keep_fd` stay. Returns only by ImageError."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    raise _error(_library().image_restore(os.fsencode(path), keep_fd))


def _library() -> ctypes.PyDLL:
    global _loaded
    if _loaded is None:
        path, reason = build(os.environ)
        if not path:
            raise ImageError(reason)
        _loaded = ctypes.PyDLL(path)
        for name in ("image_take", "image_written", "image_restore"):
            getattr(_loaded, name).restype = ctypes.c_long
    return _loaded


_loaded: ctypes.PyDLL | None = None


def _error(result: int) -> ImageError:
    name = errno.errorcode.get(-result, str(result))
    return ImageError(_MEANINGS.get(name, os.strerror(-result)), lasts=name in _LASTING)
