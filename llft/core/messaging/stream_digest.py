"""What exactly was received: a digest, so that two groups agree on contents and not only on counts.

After a partition two branches of a group may have sent as many messages, and different ones. So when views
are agreed upon (lines 30-41) each side says how far it has delivered and the running digest of all that (the
one of D-09: the sender has it for every message that it generated). If they differ, the connection is
reset: nobody is left silently wrong.

The digest of what is still here is computed when it is asked for; only what is forgotten is added up before.
Of large messages somebody may know the checksum: then they need not be looked at again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from llft.core.messaging.kept import ReceivedMessage
from llft.wire.checksum import crc32, joined

UNKNOWN_DIGEST: Final = 1 << 32
"""No digest: nobody can be contradicted by it."""


class StreamDigest:
    """Of the messages up to `position`, none of which need be here any more."""

    __slots__ = ("_known", "position", "value")

    def __init__(self) -> None:
        self._known: dict[int, int] = {}
        """Checksums of messages that are not forgotten, by position."""
        self.position = 0
        self.value = 0

    def set(self, position: int, value: int) -> None:
        self._known.clear()
        self.position = position
        self.value = value

    def know(self, position: int, checksum: int) -> None:
        """Of the payload of a message that will be forgotten."""
        self._known[position] = checksum

    def forget(self, message: ReceivedMessage) -> None:
        """A message leaves: add it up. One that does not follow makes the digest unknown, for good."""
        checksum = self._known.pop(message.position, -1)
        if message.position > self.position:
            self.value = _after(self.position, self.value, message, checksum)
            self.position = message.position

    def forget_many(self, first: int, last: int, size: int, checksum: int) -> None:
        """Messages without flags leave together: the checksum is of their payloads in one piece."""
        follows = self.value != UNKNOWN_DIGEST and first == self.position + 1
        self.value = joined(self.value, checksum, size) if follows else UNKNOWN_DIGEST
        self.position = last

    def up_to(self, position: int, here: Iterable[ReceivedMessage]) -> int:
        """Of all messages up to `position`, with those that are still here."""
        reached, value = self.position, self.value
        for message in here:
            if reached < message.position <= position:
                value = _after(reached, value, message, self._known.get(message.position, -1))
                reached = message.position
        return value if reached == position else UNKNOWN_DIGEST


def _after(position: int, value: int, message: ReceivedMessage, checksum: int) -> int:
    if value == UNKNOWN_DIGEST or message.position != position + 1:
        return UNKNOWN_DIGEST
    before = value ^ message.flags
    if checksum >= 0:
        return joined(before, checksum, len(message.payload))
    return crc32(message.payload, before)
