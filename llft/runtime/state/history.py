"""A replica's history on disk (D-64). `llft.past.history` says what is in it.

replica-<n>/history     the history
replica-<n>/state-<p>   the state, if there is one
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from llft import originals
from llft.errors import PeerError
from llft.past.birth_log import BirthLog
from llft.past.checkpoint import Base
from llft.past.history import Heading, Past, frames, furthest, opening, read, state_name
from llft.runtime.poller import raise_fd
from llft.runtime.state.files import digest_of

FILE = "history"


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
            _write_all(fd, opening(heading, log))
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
        for end, frame in frames(log, self._written, view):
            _write_all(self._fd, frame)
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
        past = read(str(directory), file.read())
    if past.base is not None:
        _check_state(past, past.base)
    return past


def _check_state(past: Past, base: Base) -> None:
    if digest_of(past.state_path) != (base.content, base.size):
        raise PeerError("state_digest_differs", "use another replica's", directory=past.directory)


def longest(root: Path) -> tuple[Past | None, list[str]]:
    """Of the histories below a directory the one that goes furthest, and what is wrong with others."""
    found, complaints = [], []
    for directory in sorted(root.glob("replica-*")):
        try:
            found.append(read_history(directory))
        except (OSError, PeerError) as error:
            complaints.append(f"{directory.name}: {error}")
    return furthest(found), complaints
