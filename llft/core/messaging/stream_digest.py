"""What exactly was received: a digest, so that two groups agree on contents and not only on counts.

After a partition two branches of a group may have sent as many messages, and different ones. So when views
are agreed upon (lines 30-41) each side says how far it has delivered and the running digest of all that (the
one of D-09: the sender has it for every message that it generated). If they differ, the connection is
reset: nobody is left silently wrong.

The digest of what is still here is computed when it is asked for; only what is forgotten is added up before.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol
from zlib import crc32

from llft.core.messaging.kept import SentMessage

UNKNOWN_DIGEST = 1 << 32
"""No digest: nobody can be contradicted by it."""


class Message(Protocol):
    @property
    def position(self) -> int: ...
    @property
    def flags(self) -> int: ...
    @property
    def payload(self) -> bytes: ...


class Sender(Protocol):
    """The sending side of a connection."""

    collected_digest: int

    @property
    def collected_up_to(self) -> int: ...
    def find_sent(self, position: int) -> SentMessage | None: ...


def has_sent_other(sender: Sender, position: int, digest: int) -> bool:
    """Whether who received so much, with this digest, got it from another branch of our group."""
    if digest == UNKNOWN_DIGEST:
        return False
    message = sender.find_sent(position)
    if message is not None:
        return message.digest != digest
    return position == sender.collected_up_to and sender.collected_digest != digest


class StreamDigest:
    """Of the messages up to `position`, none of which need be here any more."""

    __slots__ = ("known", "position", "value")

    def __init__(self) -> None:
        self.position = 0
        self.value = 0
        self.known = True

    def forget(self, message: Message) -> None:
        """A message leaves: add it up. One that does not follow makes the digest unknown."""
        if message.position <= self.position:
            return
        if message.position != self.position + 1:
            self.known = False
        self.position = message.position
        self.value = crc32(message.payload, self.value ^ message.flags)

    def set(self, position: int, value: int) -> None:
        self.position = position
        self.value = value
        self.known = value != UNKNOWN_DIGEST

    def up_to(self, position: int, here: Iterable[Message]) -> int:
        """Of all messages up to `position`, with those that are still here."""
        reached, value = self.position, self.value
        if not self.known or reached > position:
            return UNKNOWN_DIGEST
        for message in here:
            if reached < message.position <= position:
                if message.position != reached + 1:
                    return UNKNOWN_DIGEST
                reached += 1
                value = crc32(message.payload, value ^ message.flags)
        return value if reached == position else UNKNOWN_DIGEST
