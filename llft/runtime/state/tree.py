"""A directory tree as bytes, and bytes as a directory tree: files, directories and symbolic links, with their
permissions. Times and owners are not carried.

    entry    kind u8, mode u16, length of the path u16, size u64; the path; the content

Entries are in the order of their paths, so a directory comes before what is in it. A tree is put back *in
place*: a file that is there keeps its inode, so that whoever has it open sees what was put back.
"""

from __future__ import annotations

import posix
import stat
from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from llft import originals
from llft.errors import PeerError, UnsupportedOperationError

_ENTRY = Struct("<BHHQ")
_DIRECTORY, _FILE, _LINK = range(3)
_PIECE_BYTES = 1 << 20
_lstat, _readlink, _symlink, _rmdir = posix.lstat, posix.readlink, posix.symlink, posix.rmdir
_chmod, _ftruncate = posix.chmod, posix.ftruncate


class Entry(NamedTuple):
    kind: int
    mode: int
    path: bytes
    """Below the tree's top."""
    content: bytes


def pack(top: str) -> bytes:
    """OSError; UnsupportedOperationError: there is something that is neither file, directory nor link."""
    packed = bytearray()
    for path in _below(top.encode(), b""):
        entry = _read(top.encode(), path)
        packed += _ENTRY.pack(entry.kind, entry.mode, len(path), len(entry.content)) + path + entry.content
    return bytes(packed)


def put_back(top: str, packed: bytes) -> None:
    """Exactly what was packed is there afterwards. PeerError: it is no tree."""
    entries = {entry.path: entry for entry in _entries(packed)}
    for path in entries:
        parent, slash, _ = path.rpartition(b"/")
        if slash and (parent not in entries or entries[parent].kind != _DIRECTORY):
            raise PeerError("tree_malformed", "fetch it again")  # through a link it would lead elsewhere
    root = top.encode()
    for path in reversed(list(_below(root, b""))):
        wanted = entries.get(path)
        if wanted is None or wanted.kind != _kind(_lstat(root + b"/" + path).st_mode):
            _remove(root + b"/" + path)
    for entry in entries.values():
        _write(root + b"/" + entry.path, entry)


def _below(root: bytes, path: bytes) -> Iterator[bytes]:
    for name in sorted(originals.listdir(root + b"/" + path if path else root)):
        found = path + b"/" + name if path else name
        yield found
        if stat.S_ISDIR(_lstat(root + b"/" + found).st_mode):
            yield from _below(root, found)


def _kind(mode: int) -> int:
    if stat.S_ISDIR(mode):
        return _DIRECTORY
    if stat.S_ISREG(mode):
        return _FILE
    return _LINK if stat.S_ISLNK(mode) else -1


def _read(root: bytes, path: bytes) -> Entry:
    whole = root + b"/" + path
    mode = _lstat(whole).st_mode
    kind = _kind(mode)
    if kind < 0:
        raise UnsupportedOperationError(
            "not_a_file", "keep sockets, pipes and devices out of the data directory", path=whole.decode()
        )
    content = b""
    if kind == _LINK:
        content = _readlink(whole)
    elif kind == _FILE:
        with open(whole, "rb", buffering=0) as file:
            content = file.read()
    return Entry(kind, stat.S_IMODE(mode), path, content)


def _entries(packed: bytes) -> Iterator[Entry]:
    position = 0
    while position < len(packed):
        if position + _ENTRY.size > len(packed):
            raise PeerError("tree_truncated", "fetch it again")
        kind, mode, path_size, size = _ENTRY.unpack_from(packed, position)
        begin = position + _ENTRY.size
        position = begin + path_size + size
        path = packed[begin : begin + path_size]
        below = path and not path.startswith(b"/") and b".." not in path.split(b"/")
        if position > len(packed) or not below or kind not in (_DIRECTORY, _FILE, _LINK):
            raise PeerError("tree_malformed", "fetch it again")
        yield Entry(kind, mode, path, packed[begin + path_size : position])


def _remove(path: bytes) -> None:
    if stat.S_ISDIR(_lstat(path).st_mode):
        _rmdir(path)
    else:
        originals.unlink(path)


def _write(path: bytes, entry: Entry) -> None:
    if entry.kind == _LINK:
        if _is_there(path):
            originals.unlink(path)
        _symlink(entry.content, path)
        return
    if entry.kind == _DIRECTORY:
        if not _is_there(path):
            originals.mkdir(path)
    else:
        _fill(path, entry.content)
    _chmod(path, entry.mode)


def _fill(path: bytes, content: bytes) -> None:
    fd = originals.open_fd(path, posix.O_WRONLY | posix.O_CREAT | posix.O_CLOEXEC, 0o600)
    try:
        for start in range(0, len(content), _PIECE_BYTES):
            piece = content[start : start + _PIECE_BYTES]
            while piece:
                piece = piece[originals.write(fd, piece) :]
        _ftruncate(fd, len(content))
    finally:
        originals.close(fd)


def _is_there(path: bytes) -> bool:
    try:
        _lstat(path)
    except FileNotFoundError:
        return False
    return True
