"""The checkpoint of a program, as it travels in the State message (D-42, D-60).

It names the birth log (length and digest) and says which threads were out. It also names the *base*, the
newest verified state of the member that took it, from which on that member has the log; without one it has it
from birth. A short log comes with it, a long one is fetched. What is not a checkpoint is a PeerError: it came
from another process.
"""

from __future__ import annotations

import json
from typing import NamedTuple
from zlib import compress, crc32, decompressobj
from zlib import error as zlib_error

from llft.errors import PeerError
from llft.identifiers import BirthId, ThreadId
from llft.past.birth_log import BirthLog

CARRIED_LOG_BYTES = 256 * 1024
_QUICK = 1

Fingerprint = dict[str, dict[str, str]]
"""What must be the same at all replicas, by area and name: interpreter, packages, files, options."""


class Base(NamedTuple):
    """A verified state, and what goes with it."""

    source: str
    """"image" or "hooks"."""
    position: int
    digest: int
    """Of the log up to there."""
    size: int
    content: str
    """Of the state's bytes: blake2b, in hexadecimal digits."""
    head_bytes: int = 0
    """Hooks: so much of the log is replayed before the state is restored."""
    head_digest: int = 0


class Checkpoint(NamedTuple):
    taken_by: BirthId
    length: int
    digest: int
    out: list[ThreadId]
    """Threads that had a result and had not called yet."""
    again: list[ThreadId]
    """Threads whose last call the core had put off: they make it once more."""
    fingerprint: Fingerprint
    base: Base | None = None
    log: bytes | None = None
    """Since the base, or from birth. Short ones only."""

    @property
    def log_start(self) -> int:
        return self.base.position if self.base else 0

    def is_of(self, log: bytes, *, start: int = 0, digest: int = 0) -> bool:
        """Whether this is the log from a position on, with the digest of what came before."""
        return start + len(log) == self.length and crc32(log, digest) == self.digest


def pack(checkpoint: Checkpoint, log: BirthLog, *, carried_bytes: int = CARRIED_LOG_BYTES) -> bytes:
    """With the log, if it has not more than so many bytes."""
    packed = json.dumps(checkpoint._replace(log=None)).encode() + b"\n"
    if log.length - checkpoint.log_start <= carried_bytes:
        packed += compress(log.piece(checkpoint.log_start, log.length), _QUICK)
    return packed


def unpack(packed: bytes) -> Checkpoint:
    header, _, carried = packed.partition(b"\n")
    try:
        birth, length, digest, out, again, fingerprint, base, _ = json.loads(header)
        checkpoint = Checkpoint(BirthId(*birth), length, digest, out, again, fingerprint, _base(base))
        log = decompressobj().decompress(carried, CARRIED_LOG_BYTES) if carried else None
    except (ValueError, TypeError, zlib_error):
        raise _unusable("checkpoint_malformed") from None
    before = checkpoint.base.digest if checkpoint.base else 0
    if log is not None and not checkpoint.is_of(log, start=checkpoint.log_start, digest=before):
        raise _unusable("checkpoint_digest_differs")
    return checkpoint._replace(log=log)


def _base(fields: object) -> Base | None:
    if fields is None:
        return None
    if not isinstance(fields, list):
        raise TypeError
    base = Base(*fields)
    numbers = (base.position, base.digest, base.size, base.head_bytes, base.head_digest)
    if not all(type(number) is int and number >= 0 for number in numbers) or type(base.content) is not str:
        raise TypeError
    return base


def _unusable(condition: str) -> PeerError:
    return PeerError(condition, "run the same version of LLFT at all replicas; this one starts anew")
