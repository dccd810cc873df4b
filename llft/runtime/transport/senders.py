"""Processes that were heard, by what their envelopes say of them.

A sender exists from its first authentic datagram on. Their number is bounded; the one silent for the
longest time goes first. What is forgotten with it is its replay window, so the bound is far above the
number of processes that a process talks with.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from llft.identifiers import BirthId, GroupId
from llft.instant import SECOND
from llft.runtime.transport.interface import Address
from llft.runtime.transport.replay import ReplayWindow

IDENTITY: Final = struct.Struct(">IIIQH")
"""Group id, birth id (host, pid, start), service port: 22 bytes that stay the same for a process's life."""

MOST_SENDERS: Final = 512
SILENCE_NS: Final = 60 * SECOND
"""After so long a silence nothing is sent to an address that was learned."""

NOWHERE: Address = ("", 0)


class Sender:
    __slots__ = ("group_id", "birth_id", "service_port", "windows", "address", "numbered_address", "heard_ns")

    def __init__(self, identity: bytes) -> None:
        self.group_id, host_id, pid, start_ns, self.service_port = IDENTITY.unpack(identity)
        self.birth_id = BirthId(host_id, pid, start_ns)
        self.windows = (ReplayWindow(), ReplayWindow(), ReplayWindow())
        self.address = NOWHERE
        self.numbered_address = -1
        """The same as one number, where that is how it comes (`compiled_udp`); -1: not so yet."""
        self.heard_ns = 0


class Senders:
    """The table of them. Reading threads see a sender or do not; they never see half of one."""

    __slots__ = ("_by_identity", "_by_birth", "evicted")

    def __init__(self) -> None:
        self._by_identity: dict[bytes, Sender] = {}
        self._by_birth: dict[BirthId, Sender] = {}
        self.evicted = 0

    def find(self, identity: bytes) -> Sender | None:
        return self._by_identity.get(identity)

    def of_birth(self, birth_id: BirthId) -> Sender | None:
        return self._by_birth.get(birth_id)

    def add(self, identity: bytes) -> Sender:
        if len(self._by_identity) >= MOST_SENDERS:
            self._evict()
        sender = Sender(identity)
        self._by_identity[identity] = sender
        self._by_birth[sender.birth_id] = sender
        return sender

    def _evict(self) -> None:
        identity, sender = min(self._by_identity.items(), key=lambda item: item[1].heard_ns)
        del self._by_identity[identity]
        if self._by_birth.get(sender.birth_id) is sender:
            del self._by_birth[sender.birth_id]
        self.evicted += 1

    def of_group(self, group_id: GroupId, now_ns: int) -> Iterator[Sender]:
        """Those of a group that were heard lately. The copy lets another thread add some meanwhile."""
        for sender in tuple(self._by_identity.values()):
            if sender.group_id == group_id and now_ns - sender.heard_ns <= SILENCE_NS:
                yield sender

    def __len__(self) -> int:
        return len(self._by_identity)
