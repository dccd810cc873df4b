"""The files that states are in: what is in them, and its digest."""

from __future__ import annotations

from hashlib import blake2b

_PIECE_BYTES = 1 << 20


def contents(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def digest_of(path: str) -> tuple[str, int]:
    """Of a file, and its size."""
    digest, size = blake2b(digest_size=16), 0
    with open(path, "rb", buffering=0) as file:
        while piece := file.read(_PIECE_BYTES):
            digest.update(piece)
            size += len(piece)
    return digest.hexdigest(), size
