"""What the driver knows of a transport.

A transport may lose, duplicate by its sender's will, and reorder; it never blocks, never alters bytes, and
never delivers what nobody who has the key has sent. One thread at a time may send, and one may receive;
they may be two.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from llft.identifiers import BirthId, GroupId

Address = tuple[str, int]


class Peer(NamedTuple):
    """A process of one's own group that was heard."""

    birth_id: BirthId
    ip: str
    service_port: int


class Transport(Protocol):
    service_port: int
    """Told to everybody in the envelope; to be set before anything is sent."""

    @property
    def payload_limit(self) -> int:
        """The largest datagram of the core that travels in one piece: `Limits.datagram_bytes`."""

    @property
    def warnings(self) -> list[str]:
        """What is not as it should be, for people."""

    def multicast(self, group_id: GroupId, data: bytes) -> None:
        """To all members of a group but oneself."""

    def transmit(self, birth_id: BirthId, data: bytes) -> None:
        """To one process that was heard before."""

    def route(self, to: GroupId | BirthId) -> Sequence[Address]:
        """Where `multicast` or `transmit` would send now; empty if nowhere."""

    def seal_pulse(self, data: bytes) -> bytes:
        """In an envelope with a number of its own, to be sent later or never (`runtime.native`)."""

    @property
    def sending_fileno(self) -> int:
        """The socket that everything leaves by."""

    def receive(self) -> list[bytes]:
        """A batch; empty if there is nothing. Bounded, so there may be more."""

    def filenos(self) -> tuple[int, ...]:
        """Readable when `receive` may have something. They stay the same until `close`."""

    def urgent_filenos(self) -> tuple[int, ...]:
        """Those of them that hear what is meant for this process alone, and nothing else: somebody waits for
        an answer. None where everything comes in by one."""

    def peers(self) -> Iterable[Peer]:
        """Processes of one's own group heard from lately."""

    def statistics(self) -> dict[str, int]: ...

    def close(self) -> None: ...
    def abandon(self) -> None:
        """In a process restored from an image: its sockets are another process's."""
