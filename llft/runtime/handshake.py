"""How two processes convince each other on the service port: bytes in, bytes out, no socket.

    client -> server    HELLO      magic, key number, purpose, group id, birth id, nonce
    server -> client    CHALLENGE  group id, birth id, nonce, MAC of the server
    client -> server    PROOF      MAC of the client
    server -> client    CONFIRM    MAC of the server

Each MAC is under the cluster's key and covers all bytes before it, so both nonces; each has its own label,
so that none can be sent back. The client asks for one birth id and goes no further with another.

CONFIRM is there for the certificates (D-23): a client that took its own PROOF for the end would take a
server's refusal for its death.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from hmac import compare_digest

from llft.errors import PeerError
from llft.identifiers import NO_BIRTH, BirthId, GroupId
from llft.runtime.transport.keys import MAC_BYTES, KeyRing, keyed_hash

MAGIC = b"LLS1"
NONCE_BYTES = 16
_HELLO = struct.Struct(">4sBBIIIQ16s")
_CHALLENGE = struct.Struct(">IIIQ16s")
CHALLENGE_BYTES = _CHALLENGE.size + MAC_BYTES


class Purpose(IntEnum):
    LIVENESS = 1
    BIRTH_LOG = 2


class Handshake:
    """What both sides have. `feed` takes exactly the bytes that were asked for, in pieces, and answers."""

    def __init__(self, keys: KeyRing, group_id: GroupId, birth_id: BirthId, nonce: bytes) -> None:
        assert len(nonce) == NONCE_BYTES
        self._keys = keys
        self._key = b""
        self._group_id = group_id
        self._nonce = nonce
        self._said = b""
        self._buffer = b""
        self._whole = 0
        self.birth_id = birth_id
        self.peer_birth_id = NO_BIRTH
        self.purpose = Purpose.LIVENESS
        self.established = False
        self.proved = False
        """The other side may take it for established: from now on it is left with a farewell."""

    @property
    def wanted(self) -> int:
        """So many bytes come next. Never read more: what follows belongs to the purpose."""
        return self._whole - len(self._buffer)

    def feed(self, data: bytes) -> bytes:
        """The answer, once the message is whole; raises PeerError for a stranger."""
        assert len(data) <= self.wanted
        self._buffer += data
        if self.wanted:
            return b""
        message, self._buffer = self._buffer, b""
        return self._on_message(message)

    def _on_message(self, message: bytes) -> bytes:
        raise NotImplementedError

    def session_key(self) -> bytes:
        """Of this connection alone."""
        return self._mac(b"session")

    def _mac(self, label: bytes) -> bytes:
        state = keyed_hash(self._key, b"llft-service")
        state.update(label + b"\0" + self._said)
        return state.digest()

    def _check(self, label: bytes, mac: bytes) -> None:
        if not compare_digest(self._mac(label), mac):
            raise PeerError("handshake_wrong_key", "have both hosts the same key file?")
        self._said += mac

    def _say(self, label: bytes) -> bytes:
        mac = self._mac(label)
        self._said += mac
        return mac


class ClientHandshake(Handshake):
    def __init__(
        self,
        keys: KeyRing,
        group_id: GroupId,
        birth_id: BirthId,
        nonce: bytes,
        *,
        server_birth_id: BirthId,
        purpose: Purpose,
    ) -> None:
        super().__init__(keys, group_id, birth_id, nonce)
        self.peer_birth_id = server_birth_id
        self.purpose = purpose
        self._key = keys.key(keys.sending_number) or b""
        self.hello = _HELLO.pack(MAGIC, keys.sending_number, purpose, group_id, *birth_id, nonce)
        self._said = self.hello
        self._whole = CHALLENGE_BYTES

    def _on_message(self, message: bytes) -> bytes:
        if self.proved:
            self._check(b"confirm", message)
            self.established = True
            self._whole = 0
            return b""
        group_id, host_id, pid, start_ns, _ = _CHALLENGE.unpack_from(message)
        if (group_id, (host_id, pid, start_ns)) != (self._group_id, self.peer_birth_id):
            raise PeerError("handshake_other_process", "the process that was asked for is not there any more")
        self._said += message[: _CHALLENGE.size]
        self._check(b"challenge", message[_CHALLENGE.size :])
        self.proved = True
        self._whole = MAC_BYTES
        return self._say(b"proof")


class ServerHandshake(Handshake):
    def __init__(self, keys: KeyRing, group_id: GroupId, birth_id: BirthId, nonce: bytes) -> None:
        super().__init__(keys, group_id, birth_id, nonce)
        self._whole = _HELLO.size

    def _on_message(self, message: bytes) -> bytes:
        if self._said:
            self._check(b"proof", message)
            self.established = self.proved = True
            self._whole = 0
            return self._say(b"confirm")
        self._take_hello(message)
        challenge = _CHALLENGE.pack(self._group_id, *self.birth_id, self._nonce)
        self._said = message + challenge
        self._whole = MAC_BYTES
        return challenge + self._say(b"challenge")

    def _take_hello(self, message: bytes) -> None:
        magic, key_number, purpose, group_id, host_id, pid, start_ns, _ = _HELLO.unpack(message)
        if magic != MAGIC or purpose not in tuple(Purpose):
            raise PeerError("handshake_malformed", "do both hosts run the same version of LLFT?")
        key = self._keys.key(key_number)
        if key is None:
            raise PeerError("handshake_wrong_key", "have both hosts the same key file?", number=key_number)
        self._key = key
        self.purpose = Purpose(purpose)
        self.peer_birth_id = BirthId(host_id, pid, start_ns)
        if group_id != self._group_id or self.peer_birth_id == self.birth_id:
            raise PeerError(
                "handshake_other_group", "only members of a group keep connections", group_id=group_id
            )
