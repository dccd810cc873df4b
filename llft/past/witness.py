"""What a program called since a point of its life, as one number.

A captured state counts only if a process restored from it makes the same calls over the same log, with the
same arguments and the same bytes written: each side has a witness, and the two must agree. Only while a
state is being verified; the way of a call is too hot for it otherwise.
"""

from __future__ import annotations

from struct import Struct

from llft.core.determinizer.operations import Operation, Send
from llft.identifiers import ThreadId
from llft.wire.checksum import crc32

_CALL = Struct("<IBI")


class Witness:
    def __init__(self) -> None:
        self.digest = 0
        self.count = 0

    def called(self, thread: ThreadId, kind: int, detail: int) -> None:
        self.digest = crc32(_CALL.pack(thread, kind, detail), self.digest)
        self.count += 1


def detail(operation: Operation) -> int:
    """Of all that it asks for. Functions (of an Obtain) have no form that processes share."""
    if isinstance(operation, Send):
        return crc32(operation.payload, operation.fd)
    plain = tuple(field for field in operation if not callable(field))
    return crc32(repr(plain).encode())
