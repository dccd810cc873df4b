"""Which descriptors something has happened to, so that not all who wait have to be tried.

At a primary everything that may let a blocked call go on is noted here: a datagram came on the connection, it
was closed or broken, its view was settled. It may be noted too often, never too seldom. Descriptor 0 is the
listener, and the descriptor of a connection that was not accepted yet: so both are one note.

At a gateway, or in a durable group, a commit of the remote group (D-10) may let go whoever waits for one of
its connections. These are noted when they are held back, with the commit at that time; if it is another one,
they are touched.
"""

from __future__ import annotations

from collections.abc import Mapping

from llft.core.messaging.reflection import HeldOrder
from llft.identifiers import GroupId


class Touched:
    __slots__ = ("_everything", "_fds", "_uncommitted", "active")

    def __init__(self) -> None:
        self.active = False
        """Only a primary asks, and when it becomes one it tries everybody."""
        self._fds: dict[int, None] = {}
        self._everything = False
        self._uncommitted: dict[GroupId, tuple[int, dict[int, None]]] = {}

    def note(self, fd: int) -> None:
        if self.active:
            self._fds[fd] = None

    def note_everything(self) -> None:
        self._everything = True

    def await_commit(self, group_id: GroupId, committed: int, fd: int) -> None:
        known = self._uncommitted.get(group_id)
        if known is None:
            self._uncommitted[group_id] = (committed, {fd: None})
        elif known[0] == committed:
            known[1][fd] = None
        else:
            self._fds.update(known[1])
            self._uncommitted[group_id] = (committed, {fd: None})

    def so_far(self) -> list[int] | None:
        """Which descriptors were touched since they were drained; None: any may be, or somebody waits for a
        commit."""
        return None if self._everything or self._uncommitted else list(self._fds)

    def held_back(self) -> list[int]:
        """Descriptors of those who wait for a commit."""
        return [fd for _, fds in self._uncommitted.values() for fd in fds]

    def is_quiet(self) -> bool:
        """Nothing was touched since they were drained; somebody may wait for a commit."""
        return not self._everything and not self._fds

    def drain(self, held: Mapping[GroupId, HeldOrder]) -> list[int] | None:
        """The descriptors touched since the last time; None: any of them may be."""
        for group_id, (committed, fds) in list(self._uncommitted.items()):
            if held[group_id].committed != committed:
                del self._uncommitted[group_id]
                self._fds.update(fds)
        if self._everything:
            self._everything = False
            self._fds.clear()
            return None
        if not self._fds:
            return []
        touched = list(self._fds)
        self._fds.clear()
        return touched
