"""What a partition excuses: the deeds of a pruned branch, if nobody is left silently wrong (D-07, D-11).

A connection has two ends, and each surviving branch knows it as open, closed or reset, or not at
all. What was lost on it is excused

    told       if one end was reset, and the other was too, had closed before, or never knew of it;
    finished   if it was opened to a branch that was pruned, and closed by the end that is left
               before anybody could tell; or if both groups were split, and each surviving branch
               closed it with the other's pruned one: only with a partition, and only if a branch was pruned.

Requests follow their connections. Ids are deterministic in the client's program, so two branches
of a client group may ask under one id; the stray asking is excused with the connection it took.
"""

from __future__ import annotations

from typing import Any

from llft.identifiers import ConnectionId
from llft.simulator.checkers.survey import CLOSED, OPEN, RESET, Group, Survey

UNKNOWN = "unknown"
"""No record of the connection on the group's surviving branch."""
GONE = "gone"
"""The group died out: there is nobody left who could be wrong."""


def was_partitioned(survey: Survey) -> bool:
    return any(fault.kind == "Partition" for fault in survey.evidence.faults)


def was_told(survey: Survey, connection: ConnectionId) -> bool:
    """While a run has not come to rest, the news of a reset may be under way."""
    fates = _fates(survey, connection)
    return RESET in fates and (OPEN not in fates or not survey.evidence.quiesced)


def was_finished(survey: Survey, connection: ConnectionId) -> bool:
    ends = (connection.client_group_id, connection.server_group_id)
    fates = _fates(survey, connection)
    if fates == [CLOSED, CLOSED] and was_partitioned(survey):
        return all(survey.groups[end].has_strayed_on(connection) for end in ends)
    if sorted(fates) not in ([CLOSED, UNKNOWN], [GONE, UNKNOWN]) or not was_partitioned(survey):
        return False
    return survey.groups[ends[fates.index(UNKNOWN)]].has_pruned


def is_excused(survey: Survey, connection: ConnectionId) -> bool:
    return was_told(survey, connection) or was_finished(survey, connection)


def finished_connections(survey: Survey) -> list[ConnectionId]:
    known = {connection: None for group in survey.groups.values() for connection in group.fates}
    return [connection for connection in known if was_finished(survey, connection)]


def branch_asked(survey: Survey, *, client_id: int, server_id: int) -> bool:
    """Whether a pruned branch of the client wrote to the server, over a connection which the server's
    surviving branch knew and which is excused."""
    client, server = survey.groups.get(client_id), survey.groups.get(server_id)
    if client is None or server is None or not client.has_pruned or not was_partitioned(survey):
        return False
    return any(
        (connection.client_group_id, connection.server_group_id) == (client_id, server_id)
        and connection in server.fates
        and is_excused(survey, connection)
        for connection in sorted(client.strayed)
    )


def connection_of(group: Group, program: Any, request_id: int) -> ConnectionId | None:
    """The connection on which the surviving branch sent a request; descriptors are never used twice."""
    fd = program.descriptors.get(request_id)
    for life in group.lives:
        for record in life.surviving_sent():
            if record.fd == fd and record.connection.client_group_id == group.group_id:
                return record.connection
    return None


def _fates(survey: Survey, connection: ConnectionId) -> list[str]:
    """Of the client's end and of the server's. Journals of a live run do not tell who is left: then what the
    surviving branch knew of the connection counts."""
    fates = []
    is_told = not survey.evidence.journals_end_ns
    for group_id in (connection.client_group_id, connection.server_group_id):
        group = survey.groups.get(group_id)
        fate = UNKNOWN if group is None else group.fates.get(connection, UNKNOWN)
        is_gone = is_told and (group is None or not group.living)
        fates.append(GONE if is_gone and fate != RESET else fate)
    return fates
