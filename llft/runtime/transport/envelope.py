"""The bytes round every datagram (D-15). Nothing inside is looked at before they are right.

    version u8 | key number u8 | group id u32 | birth id: host u32, pid u32, start u64 | service port u16 |
    sequence u64 | data | MAC 16 bytes

The MAC is over everything before it, and the version says which one it is: a keyed BLAKE2b-128, or AES-GMAC
(`gmac`), which takes a tenth of the time where the processor has instructions for it. Everybody understands
both; which one a process sends is its transport's affair. Without a key (loopback only) it is a CRC in the
same place: whoever could forge one could compute the other.

Sequence numbers count from 1 in three channels, told apart by the two highest bits: what goes to a group and
what goes to one process arrive at different sockets, a pulse (`runtime.native`) is sealed long before it is
sent, and a number in one channel must not push another's out of the replay window. No process seals two
datagrams with one number, and no two processes have one birth id, so that no two headers are the same.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import IntEnum
from hmac import compare_digest
from itertools import count
from typing import Final
from zlib import crc32

from llft.identifiers import BirthId, GroupId
from llft.runtime.transport import gmac
from llft.runtime.transport.keys import MAC_BYTES, KeyRing, derived_key, keyed_hash
from llft.runtime.transport.senders import IDENTITY, Sender, Senders

BIRTH: Final = struct.Struct(">IIQ")
BIRTH_START: Final = 6
BIRTH_END: Final = BIRTH_START + BIRTH.size
_SEQUENCE: Final = struct.Struct(">Q")
_BEGINNING_BYTES: Final = 2
_IDENTITY_END: Final = _BEGINNING_BYTES + IDENTITY.size
HEADER_BYTES: Final = _IDENTITY_END + _SEQUENCE.size
ENVELOPE_BYTES: Final = HEADER_BYTES + MAC_BYTES

_CHANNEL_BIT: Final = 62
_NUMBER_MASK: Final = (1 << _CHANNEL_BIT) - 1
_CRC_PADDING: Final = b"llft, no key"
DATAGRAM_PURPOSE: Final = b"llft-datagram"
_GMAC_PURPOSE: Final = b"llft-gmac"

Mac = Callable[[bytes | memoryview], bytes]


class Channel(IntEnum):
    TO_GROUP = 0
    PULSE = 1
    TO_PROCESS = 2


class Version(IntEnum):
    """Which MAC a datagram has. Without a key it is the first one's."""

    BLAKE2B = 0xF1
    GMAC = 0xF2


_VERSIONS: Final = frozenset(map(int, Version))


def gmac_keys(keys: KeyRing) -> dict[int, bytes]:
    """What `gmac` needs, by the number of the key that it comes from."""
    return {number: _gmac_keys(key) for number in keys.numbers() if (key := keys.key(number))}


def _gmac_keys(key: bytes) -> bytes:
    return derived_key(key, _GMAC_PURPOSE, gmac.BOTH_KEYS_BYTES)


def _mac_under(key: bytes, version: Version) -> Mac:
    if not key:
        return lambda body: crc32(body).to_bytes(4, "big") + _CRC_PADDING
    if version == Version.GMAC:
        return gmac.mac_under(_gmac_keys(key), HEADER_BYTES)
    prepared = keyed_hash(key, DATAGRAM_PURPOSE)

    def mac(body: bytes | memoryview) -> bytes:
        state = prepared.copy()
        state.update(body)
        return state.digest()

    return mac


def _macs(keys: KeyRing) -> dict[bytes, Mac]:
    """By how a datagram begins."""
    found: dict[bytes, Mac] = {}
    for number in keys.numbers():
        key = keys.key(number) or b""
        for version in Version if key else (Version.BLAKE2B,):
            found[bytes((version, number))] = _mac_under(key, version)
    return found


class Sealer:
    """Puts one process's datagrams into envelopes."""

    __slots__ = ("_group_id", "_birth_id", "_beginning", "prefix", "_sequences", "_mac")

    def __init__(
        self,
        keys: KeyRing,
        group_id: GroupId,
        birth_id: BirthId,
        service_port: int = 0,
        version: Version = Version.BLAKE2B,
    ) -> None:
        self._group_id = group_id
        self._birth_id = birth_id
        key = keys.key(keys.sending_number)
        assert key is not None
        version = version if key else Version.BLAKE2B
        self._beginning = bytes((version, keys.sending_number))
        self.set_service_port(service_port)
        self._sequences = tuple(count((channel << _CHANNEL_BIT) + 1) for channel in Channel)
        self._mac = _mac_under(key, version)

    def set_service_port(self, service_port: int) -> None:
        identity = IDENTITY.pack(self._group_id, *self._birth_id, service_port)
        self.prefix = self._beginning + identity

    def seal(self, data: bytes, channel: Channel) -> bytes:
        body = self.prefix + _SEQUENCE.pack(next(self._sequences[channel])) + data
        return body + self._mac(body)


class Opener:
    """Takes datagrams out of their envelopes, or drops them and counts why."""

    __slots__ = ("_own_birth", "_macs", "_mismatch", "senders", "dropped")

    def __init__(self, keys: KeyRing, own_birth_id: BirthId) -> None:
        self._own_birth = BIRTH.pack(*own_birth_id)
        self._macs = _macs(keys)
        self._mismatch = "malformed" if keys.is_public else "wrong_key"
        self.senders = Senders()
        self.dropped = {"malformed": 0, "wrong_key": 0, "own": 0, "replayed": 0}

    def open(self, datagram: bytes) -> tuple[Sender, bytes] | None:
        """Who sent it, and the data; None if it is not to be looked at. The cheap reasons come first."""
        if len(datagram) < ENVELOPE_BYTES or datagram[0] not in _VERSIONS:
            return self._drop("malformed")
        if datagram[BIRTH_START:BIRTH_END] == self._own_birth:
            return self._drop("own")
        mac = self._macs.get(datagram[:_BEGINNING_BYTES])
        if mac is None:
            return self._drop("wrong_key")
        if not compare_digest(mac(memoryview(datagram)[:-MAC_BYTES]), datagram[-MAC_BYTES:]):
            return self._drop(self._mismatch)
        sequence = _SEQUENCE.unpack_from(datagram, _IDENTITY_END)[0]
        channel = sequence >> _CHANNEL_BIT
        if channel >= len(Channel):
            return self._drop("malformed")
        identity = datagram[_BEGINNING_BYTES:_IDENTITY_END]
        sender = self.senders.find(identity) or self.senders.add(identity)
        if not sender.windows[channel].accept(sequence & _NUMBER_MASK):
            return self._drop("replayed")
        return sender, datagram[HEADER_BYTES:-MAC_BYTES]

    def _drop(self, reason: str) -> tuple[Sender, bytes] | None:
        self.dropped[reason] += 1
        return None
