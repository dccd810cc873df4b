"""Who is who: groups, processes, primary views, connections.

Plain tuples, because they are compared and hashed on every message.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

GroupId = int
ThreadId = int


class Role(IntEnum):
    """Which end of a virtual connection a group is: it sends Requests or Replies."""

    CLIENT = 0
    SERVER = 1


class BirthId(NamedTuple):
    """A process's birth certificate (paper, backup change, line 5). Never used twice."""

    host_id: int
    pid: int
    start_ns: int

    def __str__(self) -> str:
        return f"{self.host_id}.{self.pid}.{self.start_ns}"


NO_BIRTH = BirthId(0, 0, 0)


class ViewId(NamedTuple):
    """A primary view, named by its primary.

    Competing primaries of one group are compared with `supersedes` (D-06): higher
    precedence, then higher primary view number; between two that agree in both, the
    older process wins, because it is the one that cannot have missed the group when
    it declared itself the first member.
    """

    precedence: int
    primary_view_num: int
    birth_id: BirthId

    def supersedes(self, other: ViewId) -> bool:
        if self[0] != other[0]:
            return self[0] > other[0]
        if self[1] != other[1]:
            return self[1] > other[1]
        if self[2] == other[2]:
            return False
        mine, theirs = self[2], other[2]
        return (mine.start_ns, mine.host_id, mine.pid) < (
            theirs.start_ns,
            theirs.host_id,
            theirs.pid,
        )

    def __str__(self) -> str:
        return f"v{self.primary_view_num}/p{self.precedence}"


NO_VIEW = ViewId(0, 0, NO_BIRTH)


class ConnectionId(NamedTuple):
    """A virtual connection: two groups and the client group's connSeqNum."""

    client_group_id: GroupId
    server_group_id: GroupId
    conn_seq_num: int

    def __str__(self) -> str:
        return f"{self.client_group_id}>{self.server_group_id}#{self.conn_seq_num}"


class Member(NamedTuple):
    """One entry of a group membership; the list is in order of precedence, so that
    the rank of a member is its index plus one."""

    birth_id: BirthId
    precedence: int
