"""The data directory: one path, and behind it, for every replica, its own files.

A replica has a mount namespace of its own, in which its copy lies over the path. So the program, its C
libraries and whatever it starts see one and the same path everywhere, and no call has to be replaced. When
the program begins, the copy is what the directory was when the group was founded (the *seed*): a program that
goes through its past writes its files again. Not earlier: if the whole group is dead, the copies of former
lives are all that is left of it.
"""

from __future__ import annotations

import ctypes
import os
from hashlib import blake2b
from typing import Any, NamedTuple

from llft.errors import MisuseError
from llft.runtime.state.tree import put_back

DATA = "data"
"""Of a specification."""
_CLONE_NEWNS, _CLONE_NEWUSER = 0x00020000, 0x10000000
_MS_BIND, _MS_REC, _MS_PRIVATE = 4096, 16384, 1 << 18
_LIBC = ctypes.CDLL(None, use_errno=True)


class Data(NamedTuple):
    path: str
    """As the program knows it."""
    copy: str
    seed: str
    """A file, which `tree` packed."""


def seed_digest(specification: dict[str, Any]) -> str:
    """All replicas must begin with the same files."""
    if DATA not in specification:
        return ""
    with open(Data(*specification[DATA]).seed, "rb") as file:
        return blake2b(file.read(), digest_size=8).hexdigest()


def own(data: Data) -> None:
    """From now on the path is the copy, to this process and those that it starts. Only while this process has
    a single thread."""
    os.makedirs(data.copy, mode=0o700, exist_ok=True)
    if not os.path.samefile(data.path, data.copy):
        _lay_over(data)


def begin_with_seed(data: Data) -> None:
    with open(data.seed, "rb") as file:
        put_back(data.copy, file.read())


def _lay_over(data: Data) -> None:
    directory = os.getcwd()
    try:
        _unshare()
        _call("mount", b"none", b"/", None, _MS_REC | _MS_PRIVATE, None)
        _call("mount", data.copy.encode(), data.path.encode(), None, _MS_BIND, None)
    except OSError as error:
        remedy = "a data directory needs a mount namespace: run as root, or allow user namespaces"
        raise MisuseError("data_directory_not_own", remedy, path=data.path, why=str(error)) from None
    os.chdir(directory)  # it may be below the path


def _unshare() -> None:
    user, group = os.getuid(), os.getgid()
    try:
        _call("unshare", _CLONE_NEWNS)
    except PermissionError:
        _call("unshare", _CLONE_NEWUSER | _CLONE_NEWNS)
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)


def _call(name: str, *arguments: object) -> None:
    if getattr(_LIBC, name)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
