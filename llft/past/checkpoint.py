"""The checkpoint of a program, as it travels in the State message (D-42, D-60).

It names the birth log (length and digest) and says which threads were out. It also names the *base*, the
newest verified state of the member that took it, from which on that member has the log; without one it has it
from birth. A short log comes with it, a long one is fetched; with an update for semi-passive backups comes
what was added since the one before. What is not a checkpoint is a PeerError: it came from another process.
"""

from __future__ import annotations

import json
from typing import Final, NamedTuple
from zlib import compress, crc32, decompressobj
from zlib import error as zlib_error

from llft.errors import PeerError
from llft.identifiers import BirthId, ThreadId
from llft.past.birth_log import BirthLog

CARRIED_LOG_BYTES: Final = 256 * 1024
_QUICK: Final = 1

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


class Told(NamedTuple):
    """Of a checkpoint: what the log is since, and from where on it is carried (`state.telling`)."""

    base: Base | None = None
    carried_from: int = 0
    carried_digest: int = 0


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
    carried_from: int = 0
    carried_digest: int = 0
    """Of the log up to there."""
    log: bytes | None = None
    """From there on. Short ones only."""

    def is_of(self, log: bytes, *, start: int = 0, digest: int = 0) -> bool:
        """Whether this is the log from a position on, with the digest of what came before."""
        return start + len(log) == self.length and crc32(log, digest) == self.digest


def pack(checkpoint: Checkpoint, log: BirthLog, *, carried_bytes: int = CARRIED_LOG_BYTES) -> bytes:
    """With the log, if it has not more than so many bytes."""
    packed = json.dumps(checkpoint[:-1]).encode() + b"\n"
    if log.length - checkpoint.carried_from <= carried_bytes:
        packed += compress(log.piece(checkpoint.carried_from, log.length), _QUICK)
    return packed


def unpack(packed: bytes) -> Checkpoint:
    header, _, carried = packed.partition(b"\n")
    try:
        birth, length, digest, out, again, fingerprint, base, *since = json.loads(header)
        start, before = _numbers(*since)
        checkpoint = Checkpoint(
            BirthId(*birth), length, digest, out, again, fingerprint, _base(base), start, before
        )
        log = decompressobj().decompress(carried, CARRIED_LOG_BYTES) if carried else None
    except (ValueError, TypeError, zlib_error):
        raise _unusable("checkpoint_malformed") from None
    if log is not None and not checkpoint.is_of(log, start=start, digest=before):
        raise _unusable("checkpoint_digest_differs")
    return checkpoint._replace(log=log)


def _base(fields: object) -> Base | None:
    if fields is None:
        return None
    if not isinstance(fields, list):
        raise TypeError
    base = Base(*fields)
    _numbers(base.position, base.digest, base.size, base.head_bytes, base.head_digest)
    if type(base.content) is not str:
        raise TypeError
    return base


def _numbers(*found: object) -> list[int]:
    numbers = [each for each in found if type(each) is int and each >= 0]
    if len(numbers) < len(found):
        raise TypeError
    return numbers


def _unusable(condition: str) -> PeerError:
    return PeerError(condition, "run the same version of LLFT at all replicas; this one starts anew")
