"""A replica's history (D-64): its newest verified state, and the log that follows it; here as bytes.

    a line of JSON (Heading), the head's bytes, then frames

    frame    length u32, digest u32 of the whole log up to its end, view u32, bytes of the log

The digest runs from birth: a frame that has the right one proves all frames before it. A frame that is cut
short, or has another digest, and what follows it, is not of the history: the process was killed there.

A primary that died may have performed what nobody else knows of, and its group went on without that, in
a later view. So a history is not compared by its length alone: a later generation (the group was restarted)
comes before a later view, and that before a longer log.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Any, Final, NamedTuple, Protocol

from llft.errors import PeerError
from llft.identifiers import ViewId
from llft.past.birth_log import BirthLog
from llft.past.checkpoint import Base, Fingerprint
from llft.wire.checksum import crc32

VERSION: Final = 1
_FRAME: Final = Struct("<III")
_PIECE_BYTES: Final = 1 << 20


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


class Performer(Protocol):
    """What of a core is asked here."""

    performed_view: ViewId


def view_number(core: Performer) -> int:
    """Of the view in which it performs. A view that it has merely adopted is not meant: until the replica has
    passed its beginning, a primary of the view before may be ahead, and its history the better one."""
    return core.performed_view.primary_view_num


def state_name(base: Base) -> str:
    return f"state-{base.position}"


def opening(heading: Heading, log: BirthLog) -> bytes:
    """How a history begins."""
    return json.dumps(heading).encode() + b"\n" + log.piece(0, heading.head_bytes)


def frames(log: BirthLog, written: int, view: int) -> Iterator[tuple[int, bytes]]:
    """What has come to the log since a position: frames, and where each ends. `view` is the number of the
    primary view in which it was performed."""
    while written < log.length:
        end = min(log.length, written + _PIECE_BYTES)
        piece = log.piece(written, end)
        digest = log.digest if end == log.length else crc32(log.piece(log.start, end), log.digest_before)
        yield end, _FRAME.pack(len(piece), digest, view) + piece
        written = end


def read(directory: str, data: bytes) -> Past:
    """PeerError: it is none that can be used. The state is not looked at."""
    line, _, rest = data.partition(b"\n")
    try:
        heading = Heading(*json.loads(line))
        base = Base(*heading.base) if heading.base is not None else None
    except (ValueError, TypeError):
        raise PeerError("history_malformed", "use another replica's", directory=directory) from None
    if heading.version != VERSION:
        raise PeerError("history_version_unknown", "use the version of LLFT that wrote it")
    head = rest[: heading.head_bytes]
    if base is not None and crc32(head) != base.head_digest:
        raise PeerError("history_head_differs", "use another replica's", directory=directory)
    sound = list(_sound(rest[heading.head_bytes :], heading.digest))
    log, view = b"".join(piece for piece, _ in sound), sound[-1][1] if sound else 0
    return Past(directory, heading, base, head, log, view)


def _sound(data: bytes, digest: int) -> Iterator[tuple[bytes, int]]:
    """Pieces, and their views."""
    position = 0
    while position + _FRAME.size <= len(data):
        size, expected, view = _FRAME.unpack_from(data, position)
        position += _FRAME.size
        piece = data[position : position + size]
        digest = crc32(piece, digest)
        if len(piece) < size or digest != expected:
            return
        yield piece, view
        position += size


def furthest(found: Iterable[Past]) -> Past | None:
    """The one that a group goes on from."""
    return max(found, key=lambda past: past.rank, default=None)
