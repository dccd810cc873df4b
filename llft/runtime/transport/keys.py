"""Who may speak: the keys of a cluster (D-15).

A key file has one key a line, `number:hex`; `#` begins a comment. All keys are accepted, the one with the
highest number is used to send. So a key is replaced without a pause: add the new one to every host's file
and restart the replicas one by one, then take the old one out in the same way.

A key authenticates, and encrypts nothing: who can listen can read. It is the same for all who have it: a
process that has it can speak as any other.

Without a key file there is number 0, which everybody has. It only tells our datagrams from garbage, which
is why the settings allow it on the loopback interface alone.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from hashlib import blake2b
from typing import Final

from llft.errors import MisuseError

PUBLIC_KEY_NUMBER: Final = 0
MAC_BYTES: Final = 16

_SHORTEST_KEY_BYTES: Final = 16
_LONGEST_KEY_BYTES: Final = blake2b.MAX_KEY_SIZE
_LARGEST_FILE_BYTES: Final = 64 * 1024


class KeyRing:
    """Keys by number. An empty ring is the public one."""

    __slots__ = ("_keys", "sending_number")

    def __init__(self, keys: Mapping[int, bytes] | None = None) -> None:
        self._keys = dict(keys or {PUBLIC_KEY_NUMBER: b""})
        self.sending_number = max(self._keys)

    @property
    def is_public(self) -> bool:
        return PUBLIC_KEY_NUMBER in self._keys

    def key(self, number: int) -> bytes | None:
        return self._keys.get(number)

    def numbers(self) -> tuple[int, ...]:
        return tuple(self._keys)


def keyed_hash(key: bytes, purpose: bytes) -> blake2b:
    """The MAC is BLAKE2b-128 under the key; `purpose` keeps datagrams and handshakes apart."""
    return blake2b(digest_size=MAC_BYTES, key=key, person=purpose)


def derived_key(key: bytes, purpose: bytes, size: int) -> bytes:
    """Another key, for another algorithm: of the two nobody can tell that they have anything in common."""
    return blake2b(digest_size=size, key=key, person=purpose).digest()


def load_keys(path: str) -> KeyRing:
    """The keys of a file; raises MisuseError with the line that is wrong."""
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read(_LARGEST_FILE_BYTES + 1)
    except OSError as error:
        raise MisuseError("key_file_unreadable", f"{path}: {error.strerror}", path=path) from error
    if mode & 0o007:
        raise MisuseError("key_file_open_to_all", f"chmod o= {path}", path=path)
    if len(content) > _LARGEST_FILE_BYTES:
        raise MisuseError("key_file_too_large", "it has one key a line, as number:hex", path=path)
    keys: dict[int, bytes] = {}
    for line_number, line in enumerate(content.decode("ascii", "replace").splitlines(), 1):
        text = line.partition("#")[0].strip()
        if text:
            number, key = _parse(text, f"{path}:{line_number}")
            if number in keys:
                raise MisuseError("key_number_twice", f"{path}:{line_number}: take another number")
            keys[number] = key
    if not keys:
        raise MisuseError("key_file_empty", "write a key: echo 1:$(openssl rand -hex 32)", path=path)
    return KeyRing(keys)


def _parse(text: str, where: str) -> tuple[int, bytes]:
    number_text, _, key_text = text.partition(":")
    try:
        number, key = int(number_text), bytes.fromhex(key_text)
    except ValueError:
        raise MisuseError("key_malformed", f"{where}: a line is number:hex, as 1:00ff...") from None
    if not 1 <= number <= 255:
        raise MisuseError("key_number_out_of_range", f"{where}: a key number is 1 to 255")
    if not _SHORTEST_KEY_BYTES <= len(key) <= _LONGEST_KEY_BYTES:
        remedy = f"{where}: a key has {_SHORTEST_KEY_BYTES} to {_LONGEST_KEY_BYTES} bytes"
        raise MisuseError("key_length", remedy)
    return number, key
