"""What a semi-passive backup holds of the program, which it does not run: a state, and the log since.

The log is the primary's birth log (docs/CHECKPOINTS.md, "Semi-passive replication"). It begins with the base,
or at birth; where the backup was restored from an image, with that. All of it under the driver's lock.
"""

from __future__ import annotations

from zlib import crc32

from llft.past.birth_log import BirthLog
from llft.past.checkpoint import Base, Checkpoint


class Stored:
    def __init__(self, log: BirthLog, base: Base | None = None, path: str = "") -> None:
        """`path` is the file of the state by hooks that `base` names."""
        self.log = log
        self.base = base
        self.path = path

    def follow(self, wanted: Checkpoint) -> bool:
        """Go on to this checkpoint, with what it carries. False: something between is missing, or what was
        held beyond is of a history that nobody continued."""
        if wanted.log is not None and self._leads_to(wanted.carried_from, wanted.carried_digest):
            self.log.go_on_from(wanted.carried_from, wanted.log)
            return True
        return self.has(wanted)

    def has(self, wanted: Checkpoint) -> bool:
        return self._leads_to(wanted.length, wanted.digest)

    def _leads_to(self, position: int, digest: int) -> bool:
        log = self.log
        return log.start <= position <= log.length and log.digest_at(position) == digest

    def can_begin_with(self, base: Base) -> bool:
        """Whether the log leads through that state."""
        return self.log.start < base.position and self._leads_to(base.position, base.digest)

    def head(self, base: Base) -> bytes | None:
        """The beginning of the log that goes with a state; None: it is not here."""
        size = base.head_bytes
        found = self.log.piece(0, size) if self.log.has(0, size) else None
        return found if found is not None and crc32(found) == base.head_digest else None

    def begin_with(self, base: Base, head: bytes, path: str) -> None:
        """What came before this state is needed no more."""
        data = self.log.piece(base.position, self.log.length)
        self.log = BirthLog(data, start=base.position, digest=base.digest, head=head)
        self.base, self.path = base, path
