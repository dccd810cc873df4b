"""The checkpoint of a program, as it travels in the State message (D-42).

It names the birth log (length and digest) and says which threads were out; a short log comes with it, a long
one is fetched. What is not a checkpoint is a PeerError: it came from another process.
"""

from __future__ import annotations

import json
from typing import NamedTuple
from zlib import compress, crc32, decompressobj
from zlib import error as zlib_error

from llft.errors import PeerError
from llft.identifiers import BirthId, ThreadId
from llft.runtime.birth_log import BirthLog
from llft.runtime.fingerprint import Fingerprint

CARRIED_LOG_BYTES = 256 * 1024
_QUICK = 1


class Checkpoint(NamedTuple):
    taken_by: BirthId
    length: int
    digest: int
    out: list[ThreadId]
    """Threads that had a result and had not called yet."""
    again: list[ThreadId]
    """Threads whose last call the core had put off: they make it once more."""
    fingerprint: Fingerprint
    log: bytes | None = None
    """Short ones only."""

    def is_of(self, log: bytes) -> bool:
        return len(log) == self.length and crc32(log) == self.digest


def pack(checkpoint: Checkpoint, log: BirthLog) -> bytes:
    packed = json.dumps(checkpoint._replace(log=None)).encode() + b"\n"
    if log.length <= CARRIED_LOG_BYTES:
        packed += compress(log.piece(0, log.length), _QUICK)
    return packed


def unpack(packed: bytes) -> Checkpoint:
    header, _, carried = packed.partition(b"\n")
    try:
        birth, *fields = json.loads(header)
        checkpoint = Checkpoint(BirthId(*birth), *fields)
        log = decompressobj().decompress(carried, CARRIED_LOG_BYTES) if carried else None
    except (ValueError, TypeError, zlib_error):
        raise _unusable("checkpoint_malformed") from None
    if log is not None and not checkpoint.is_of(log):
        raise _unusable("checkpoint_digest_differs")
    return checkpoint._replace(log=log)


def _unusable(condition: str) -> PeerError:
    return PeerError(condition, "run the same version of LLFT at all replicas; this one starts anew")
