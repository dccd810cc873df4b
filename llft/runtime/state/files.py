"""The files that states are in: what is in them, and its digest."""

from __future__ import annotations

from contextlib import suppress
from hashlib import blake2b

from llft import originals
from llft.past.checkpoint import Base

_PIECE_BYTES = 1 << 17
"""Small: others wait for a processor meanwhile (docs/CHECKPOINTS.md, "Beside clients")."""


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


def linked(path: str, base: Base) -> bool:
    """Whether another replica of the same run has this state, so that nothing need be fetched: then it is at
    `path` as well. States are never changed, and whoever has no use for one unlinks its own name of it."""
    directory, _, name = path.rpartition("/")
    ending = f".state-{base.position}"
    for other in sorted(originals.listdir(directory)):
        if other.endswith(ending) and other != name:
            with suppress(OSError):  # it is gone, or there is a piece of it at `path` already
                originals.link(f"{directory}/{other}", path)
                if digest_of(path) == (base.content, base.size):
                    return True
                originals.unlink(path)
    return False
