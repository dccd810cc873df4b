"""What a group wrote on its connections, merged from the journals of its replicas.

A direction of a connection is named by the connection and the group that writes. The messages of the
surviving branch are told apart by the order number of their SEND entry, which all replicas share.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from zlib import crc32

from llft.identifiers import ConnectionId
from llft.journal.record import Sent
from llft.simulator.checkers.survey import Survey

Direction = tuple[ConnectionId, int]
"""The connection, and the group id of the sender."""


@dataclass(slots=True)
class Stream:
    """One direction, as its sender wrote it."""

    messages: dict[int, Sent] = field(default_factory=dict)
    """By order number."""
    digests: dict[int, int] = field(default_factory=dict)
    """The running digest of the bytes alone, at each offset where a message ends."""
    size: int = 0
    complete: bool = True
    """Every message from the first position on is known."""

    def measure(self) -> None:
        """Sets offsets and digests. D-09's digest also takes in the flags of each message; the
        reader's does not. CRC-32 is linear, so the difference can be carried along: an empty message
        shows its flags, and zeros of the message's size show what became of the difference."""
        ordered = [self.messages[number] for number in sorted(self.messages)]
        offset = difference = digest = 0
        self.digests = {0: 0}
        for message in ordered:
            if message.size:
                zeros = bytes(message.size)
                difference = crc32(zeros, difference) ^ crc32(zeros)
            else:
                difference ^= message.digest ^ digest
            digest = message.digest
            offset += message.size
            self.digests[offset] = digest ^ difference
        self.size = offset
        positions = [message.position for message in ordered]
        self.complete = positions == list(range(1, len(positions) + 1))


def surviving_streams(survey: Survey) -> dict[Direction, Stream]:
    streams: dict[Direction, Stream] = {}
    for group, life in survey.lives():
        for record in life.surviving_sent():
            stream = streams.setdefault((record.connection, group.group_id), Stream())
            stream.messages.setdefault(record.order_seq_num, record)
    for stream in streams.values():
        stream.measure()
    return streams


def other_end(connection: ConnectionId, group_id: int) -> int:
    if group_id == connection.client_group_id:
        return connection.server_group_id
    return connection.client_group_id
