"""One file of a journal: its segment, while it is written."""

from __future__ import annotations

import os

from llft import originals
from llft.errors import MisuseError
from llft.journal.record import Stamp


class Segment:
    """What was written to it."""

    __slots__ = ("count", "first", "number", "size")

    def __init__(self, number: int) -> None:
        self.number = number
        self.count = self.size = 0
        self.first: Stamp | None = None


def create_segment(path: str) -> int:
    """Its descriptor. A file that exists is refused."""
    try:
        return originals.open_fd(
            path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644
        )
    except FileExistsError:
        raise MisuseError("journal-exists", "move it away, or choose another directory", path=path) from None
