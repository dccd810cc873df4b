"""Who holds a TCP port that we wanted to listen on, so that an error can name the process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_LISTEN_STATE = "0A"


def port_holder(port: int) -> str:
    """Such as "python3 (pid 4711)"; empty if it cannot be found (another user's process, or nobody)."""
    inodes = set(_listening_inodes(port))
    if not inodes:
        return ""
    for process in Path("/proc").glob("[0-9]*"):
        if any(inode in inodes for inode in _socket_inodes(process)):
            try:
                name = (process / "comm").read_text().strip()
            except OSError:
                continue
            return f"{name} (pid {process.name})"
    return ""


def _listening_inodes(port: int) -> Iterator[str]:
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == _LISTEN_STATE and int(fields[1].rpartition(":")[2], 16) == port:
                yield fields[9]


def _socket_inodes(process: Path) -> Iterator[str]:
    """Of the sockets that the process has open. Processes end while we look, and others' we may not see."""
    try:
        names = os.listdir(process / "fd")
    except OSError:
        return
    for name in names:
        try:
            target = os.readlink(process / "fd" / name)
        except OSError:
            continue
        if target.startswith("socket:["):
            yield target[len("socket:[") : -1]
