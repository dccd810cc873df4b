"""All virtual connections of one replica, by identity and by file descriptor.

Connections that are over must not come to life again when a late Request arrives, so each client
group's finished connection numbers are remembered: as a floor and the few numbers above it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import Final

from llft.core.messaging.connection import Connection
from llft.identifiers import ConnectionId, GroupId, Role, ViewId

_REMEMBERED_MAX: Final = 4096
_NOTHING: Final[Iterator[Connection]] = iter(())
"""It has ended, for whoever asks: to make one takes longer."""


class FinishedConnections:
    """Which connSeqNums of each pair of groups are over. Bounded by the open connections."""

    __slots__ = ("above", "floor")

    def __init__(self) -> None:
        self.floor: dict[tuple[GroupId, GroupId], int] = {}
        self.above: dict[tuple[GroupId, GroupId], list[int]] = {}

    def add(self, connection_id: ConnectionId) -> None:
        pair = (connection_id.client_group_id, connection_id.server_group_id)
        above = self.above.setdefault(pair, [])
        if connection_id.conn_seq_num not in above:
            above.append(connection_id.conn_seq_num)
            above.sort()
        floor = self.floor.get(pair, 0)
        if len(above) > _REMEMBERED_MAX:
            floor = above[0]  # numbers below that were never used with this group, or given up
        while above and above[0] <= floor + 1:
            floor = max(floor, above.pop(0))
        self.floor[pair] = floor

    def __contains__(self, connection_id: ConnectionId) -> bool:
        pair = (connection_id.client_group_id, connection_id.server_group_id)
        number = connection_id.conn_seq_num
        return number <= self.floor.get(pair, 0) or number in self.above.get(pair, ())

    def export(self) -> list[tuple[GroupId, GroupId, int, tuple[int, ...]]]:
        return [
            (pair[0], pair[1], floor, tuple(self.above.get(pair, ()))) for pair, floor in self.floor.items()
        ]

    def load(self, exported: Iterable[tuple[GroupId, GroupId, int, tuple[int, ...]]]) -> None:
        for client, server, floor, above in exported:
            self.floor[(client, server)] = floor
            self.above[(client, server)] = list(above)


class ConnectionTable:
    __slots__ = ("by_fd", "by_id", "created_count", "finished", "group_id")

    def __init__(self, group_id: GroupId) -> None:
        self.group_id = group_id
        self.by_id: dict[ConnectionId, Connection] = {}
        self.by_fd: dict[int, Connection] = {}
        self.finished = FinishedConnections()
        self.created_count = 0

    def __iter__(self) -> Iterator[Connection]:
        return iter(list(self.by_id.values())) if self.by_id else _NOTHING

    def __len__(self) -> int:
        return len(self.by_id)

    def create(self, connection_id: ConnectionId, view: ViewId) -> Connection:
        role = Role.CLIENT if connection_id.client_group_id == self.group_id else Role.SERVER
        connection = Connection(connection_id, role, view=view)
        self.created_count += 1
        connection.number = self.created_count
        self.by_id[connection_id] = connection
        return connection

    def created_after(self, number: int) -> list[Connection]:
        """Those that the table got to know after the one of this number, in that order."""
        newest_first = takewhile(lambda c: c.number > number, reversed(self.by_id.values()))
        return list(newest_first)[::-1]

    def bind(self, connection: Connection, fd: int) -> None:
        connection.fd = fd
        self.by_fd[fd] = connection

    def forget(self, connection: Connection) -> None:
        self.by_id.pop(connection.connection_id, None)
        if self.by_fd.get(connection.fd) is connection:
            del self.by_fd[connection.fd]
        self.finished.add(connection.connection_id)

    def is_connected_with(self, group_id: GroupId) -> bool:
        """Whether a new primary of that group may have to ask us for its order information. On a connection
        that was reset it learns that, and no more: no watermark will come on it either."""
        return any(c.remote_group_id == group_id and not c.reset_reason for c in self.by_id.values())

    def on_one_end(self, client: GroupId, server: GroupId, number: int, role: Role) -> ConnectionId:
        """Identity of the connection that a header names; `role` is the sender's."""
        if role == Role.CLIENT:
            return ConnectionId(client, server, number)
        return ConnectionId(server, client, number)
