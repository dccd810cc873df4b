"""A replica's history on disk (D-64): its newest verified state, and the log that follows it.

    replica-<n>/history     a line of JSON (Heading), the head's bytes, then frames
    replica-<n>/state-<p>   the state, if there is one

    frame    length u32, digest u32 of the whole log up to its end, view u32, bytes of the log

The digest runs from birth: a frame that has the right one proves all frames before it. A frame that is cut
short, or has another digest, and what follows it, is not of the history: the process was killed there.

A primary that died may have performed what nobody else knows of, and its group went on without that, in
a later view. So a history is not compared by its length alone: a later generation (the group was restarted)
comes before a later view, and that before a longer log.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from struct import Struct
from typing import Any, NamedTuple
from zlib import crc32

from llft import originals
from llft.errors import PeerError
from llft.runtime.birth_log import BirthLog
from llft.runtime.checkpoint import Base
from llft.runtime.fingerprint import Fingerprint
from llft.runtime.poller import raise_fd

VERSION = 1
FILE = "history"
_FRAME = Struct("<III")
_PIECE_BYTES = 1 << 20


class Heading(NamedTuple):
    version: int
    fingerprint: Fingerprint
    base: list[Any] | None
    """The fields of a Base."""
    start: int
    digest: int
    """Of the log before `start`."""
    head_bytes: int
    clock: list[list[int]]
    """The group clock, as in a determinizer's snapshot."""
    generation: int = 0
    """How often the group was restarted."""


class Past(NamedTuple):
    """What a history says."""

    directory: str
    heading: Heading
    base: Base | None
    head: bytes
    log: bytes
    """From the heading's start on."""
    view: int
    """The number of the primary view in which the end of it was written."""

    @property
    def rank(self) -> tuple[int, int, int]:
        return self.heading.generation, self.view, self.end

    @property
    def end(self) -> int:
        return self.heading.start + len(self.log)

    @property
    def state_path(self) -> str:
        return f"{self.directory}/{state_name(self.base)}" if self.base is not None else ""


def state_name(base: Base) -> str:
    return f"state-{base.position}"


class History:
    """Open for writing. What `flush` is done with survives this process; with `sync` its host, too."""

    def __init__(self, directory: str, *, sync: bool) -> None:
        self._directory = directory
        self._flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | (os.O_DSYNC if sync else 0)
        self._fd = -1
        self._written = 0
        self.base: Base | None = None

    @property
    def begun(self) -> bool:
        return self._fd >= 0

    def begin(self, heading: Heading, base: Base | None, state: str, log: BirthLog, view: int) -> None:
        """The history of this replica from its newest state on, in the place of what was there."""
        for directory in (self._directory.rpartition("/")[0], self._directory):
            with suppress(FileExistsError):
                originals.mkdir(directory, 0o700)
        if base is not None:
            with suppress(FileExistsError):
                originals.link(state, f"{self._directory}/{state_name(base)}")
        fresh = f"{self._directory}/{FILE}.new"
        former = self._fd, self._written, self.base
        fd = raise_fd(originals.open_fd(fresh, self._flags, 0o600))
        try:
            _write_all(fd, json.dumps(heading).encode() + b"\n" + log.piece(0, heading.head_bytes))
            self._fd, self._written, self.base = fd, heading.start, base
            self.flush(log, view)
            originals.rename(fresh, f"{self._directory}/{FILE}")
        except OSError:  # then what was there goes on: it is the history, and this is not
            self._fd, self._written, self.base = former
            originals.close(fd)
            raise
        if former[0] >= 0:
            originals.close(former[0])
        self._remove_states(base)

    def flush(self, log: BirthLog, view: int) -> None:
        """`view` is the number of the present primary view. OSError: the disk refuses."""
        while self._written < log.length:
            end = min(log.length, self._written + _PIECE_BYTES)
            piece = log.piece(self._written, end)
            digest = log.digest if end == log.length else crc32(log.piece(log.start, end), log.digest_before)
            _write_all(self._fd, _FRAME.pack(len(piece), digest, view) + piece)
            self._written = end

    def close(self) -> None:
        if self._fd >= 0:
            originals.close(self._fd)
            self._fd = -1

    def _remove_states(self, base: Base | None) -> None:
        kept = state_name(base) if base is not None else ""
        for name in originals.listdir(self._directory):
            if name.startswith("state-") and name != kept:
                with suppress(FileNotFoundError):
                    originals.unlink(f"{self._directory}/{name}")


def _write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[originals.write(fd, data) :]


# -- reading ------------------------------------------------------------------------------------------------


def read_history(directory: str | Path) -> Past:
    """PeerError, or OSError: there is none that can be used."""
    with open(f"{directory}/{FILE}", "rb") as file:
        line, _, rest = file.read().partition(b"\n")
    try:
        heading = Heading(*json.loads(line))
        base = Base(*heading.base) if heading.base is not None else None
    except (ValueError, TypeError):
        raise PeerError("history_malformed", "use another replica's", directory=str(directory)) from None
    if heading.version != VERSION:
        raise PeerError("history_version_unknown", "use the version of LLFT that wrote it")
    head, frames = rest[: heading.head_bytes], rest[heading.head_bytes :]
    sound = list(_sound(frames, heading.digest))
    log, view = b"".join(piece for piece, _ in sound), sound[-1][1] if sound else 0
    past = Past(str(directory), heading, base, head, log, view)
    if base is not None:
        _check_state(past, base)
    return past


def _sound(frames: bytes, digest: int) -> Iterator[tuple[bytes, int]]:
    """Pieces, and their views."""
    position = 0
    while position + _FRAME.size <= len(frames):
        size, expected, view = _FRAME.unpack_from(frames, position)
        position += _FRAME.size
        piece = frames[position : position + size]
        digest = crc32(piece, digest)
        if len(piece) < size or digest != expected:
            return
        yield piece, view
        position += size


def _check_state(past: Past, base: Base) -> None:
    from llft.runtime.state.scratch_life import digest_of

    if digest_of(past.state_path) != (base.content, base.size):
        raise PeerError("state_digest_differs", "use another replica's", directory=past.directory)
    if crc32(past.head) != base.head_digest:
        raise PeerError("history_head_differs", "use another replica's", directory=past.directory)


def longest(root: Path) -> tuple[Past | None, list[str]]:
    """Of the histories below a directory the one that goes furthest, and what is wrong with others."""
    found, complaints = [], []
    for directory in sorted(root.glob("replica-*")):
        try:
            found.append(read_history(directory))
        except (OSError, PeerError) as error:
            complaints.append(f"{directory.name}: {error}")
    return max(found, key=lambda past: past.rank, default=None), complaints
