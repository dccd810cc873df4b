"""Exactly once: what a group reads from a connection is what the group at the other end wrote.

At every replica of the reader: no byte missing, none twice, none that the surviving branch of the writer did
not write; and at the end everything has been read, unless the connection was reset. Bytes from
or for a pruned branch are no violation if the connection is excused (`excuses`).
"""

from __future__ import annotations

from llft.identifiers import ConnectionId
from llft.journal.record import Delivered
from llft.simulator.checkers.excuses import is_excused
from llft.simulator.checkers.life import NO_LIMIT, Life
from llft.simulator.checkers.streams import Direction, Stream, other_end, surviving_streams
from llft.simulator.checkers.survey import Group, Survey
from llft.simulator.checkers.violation import Violation

PROPERTY = "exactly_once"
NOTHING = Stream(digests={0: 0})


def check(survey: Survey) -> list[Violation]:
    streams = surviving_streams(survey)
    reached: dict[Direction, int] = {}
    found = [
        Violation(PROPERTY, f"Messages of group {sender} on {connection} are missing from its journals.")
        for (connection, sender), stream in streams.items()
        if not stream.complete
    ]
    for group in survey.groups.values():
        agreed: dict[tuple[ConnectionId, int], Delivered] = {}
        for life in group.lives:
            found += _read(survey, group, life, streams, reached, agreed)
    return found + _unread(survey, streams, reached)


def _read(
    survey: Survey,
    group: Group,
    life: Life,
    streams: dict[Direction, Stream],
    reached: dict[Direction, int],
    agreed: dict[tuple[ConnectionId, int], Delivered],
) -> list[Violation]:
    """Follows one replica through its reads; the first fault of each connection is reported."""
    offsets: dict[ConnectionId, int] = {}
    faulty: dict[ConnectionId, str] = {}
    fresh = not life.applied
    for record in life.surviving_delivered():
        connection = record.connection
        sender = other_end(connection, group.group_id)
        stream = streams.get((connection, sender), NOTHING)
        begin = record.stream_offset - record.size
        text = ""
        if begin != offsets.get(connection, 0 if fresh else begin):
            text = f"read from offset {begin} when it had reached {offsets.get(connection, 0)}"
        elif agreed.setdefault((connection, record.stream_offset), record).digest != record.digest:
            first = agreed[connection, record.stream_offset]
            text = (
                f"read bytes with digest {record.digest:#x}, replica {first.stamp.birth_id} {first.digest:#x}"
            )
        elif not _was_written(survey, stream, record, sender) and not is_excused(survey, connection):
            text = f"read bytes with digest {record.digest:#x} of which group {sender} " + _written(
                stream, record
            )
        offsets[connection] = record.stream_offset
        reached[connection, sender] = max(reached.get((connection, sender), 0), record.stream_offset)
        if text and connection not in faulty:
            faulty[connection] = f"{text}, up to offset {record.stream_offset} in view {record.stamp.view}"
    return [
        Violation(PROPERTY, f"{life.name.capitalize()}, on {connection}: {text}.")
        for connection, text in faulty.items()
    ]


def _was_written(survey: Survey, stream: Stream, record: Delivered, sender: int) -> bool:
    """Inside a message, and after the end of the writer's journals, only the replicas of the reader can be
    compared with one another."""
    if record.stream_offset > stream.size:
        end_ns = survey.evidence.journals_end_ns.get(sender, NO_LIMIT)
        return record.stamp.time_ns >= end_ns
    return stream.digests.get(record.stream_offset, record.digest) == record.digest


def _written(stream: Stream, record: Delivered) -> str:
    if record.stream_offset > stream.size:
        return f"wrote {stream.size} only"
    return f"wrote {stream.digests[record.stream_offset]:#x}"


def _unread(
    survey: Survey, streams: dict[Direction, Stream], reached: dict[Direction, int]
) -> list[Violation]:
    """Only of a run that came to rest, and between groups that still exist."""
    if not survey.evidence.quiesced:
        return []
    found = []
    for (connection, sender), stream in streams.items():
        reader = survey.groups.get(other_end(connection, sender))
        read = reached.get((connection, sender), 0)
        if reader is None or reader.primary is None or survey.groups[sender].primary is None:
            continue
        if read < stream.size and not is_excused(survey, connection):
            found.append(
                Violation(
                    PROPERTY,
                    f"Group {reader.group_id} read {read} of the {stream.size} bytes that group {sender} "
                    f"wrote on {connection}, and the connection was not reset.",
                )
            )
    return found
