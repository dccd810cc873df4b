"""The birth log over the service port: a member serves it, a joiner fetches it.

    joiner -> member    LOG <from> <to>\\n
    member -> joiner    frames: length u32, data, MAC 16 bytes; the first says OK or NO

The MAC of a frame is under the key of this connection and covers the frame's number: a stream that somebody
altered, cut or put together anew is noticed before anything is replayed. The serving side asks its provider
for one piece at a time and sends what the socket takes, so that the replica goes on meanwhile.
"""

from __future__ import annotations

import _socket
import select
import struct
from collections.abc import Callable
from hmac import compare_digest
from typing import NamedTuple

from llft import originals
from llft.errors import PeerError
from llft.identifiers import NO_BIRTH, BirthId, GroupId
from llft.runtime.handshake import NONCE_BYTES, ClientHandshake, Purpose
from llft.runtime.transport import sockets
from llft.runtime.transport.keys import MAC_BYTES, KeyRing, keyed_hash

PIECE_BYTES = 64 * 1024
LONGEST_REQUEST_BYTES = 64
_LENGTH = struct.Struct(">I")
_NUMBER = struct.Struct(">Q")
_AGREED, _REFUSED = b"OK", b"NO"

Provide = Callable[[int, int], bytes | memoryview | None]


class Frames:
    """The MACs of one connection's frames, in their order."""

    def __init__(self, session_key: bytes) -> None:
        self._prepared = keyed_hash(session_key, b"llft-birth-log")
        self._number = 0

    def seal(self, data: bytes | memoryview) -> bytes:
        return _LENGTH.pack(len(data)) + bytes(data) + self.mac(data)

    def mac(self, data: bytes | memoryview) -> bytes:
        state = self._prepared.copy()
        state.update(_NUMBER.pack(self._number))
        state.update(data)
        self._number += 1
        return state.digest()


class LogRequest:
    """The serving side of one request."""

    def __init__(self, session_key: bytes, provide: Provide) -> None:
        self._frames = Frames(session_key)
        self._provide = provide
        self._line = b""
        self._position = 0
        self._end = 0
        self._unsent = b""
        self.finished = False

    def sending(self) -> bool:
        return bool(self._unsent)

    def feed(self, data: bytes) -> None:
        """A piece of the request's line; raises PeerError if it is none."""
        self._line += data
        words = self._line.split(b" ")
        if not self._line.endswith(b"\n"):
            if len(self._line) >= LONGEST_REQUEST_BYTES:
                raise PeerError("log_request_malformed")
            return
        try:
            word, start, end = words[0], int(words[1]), int(words[2])
        except (IndexError, ValueError):
            raise PeerError("log_request_malformed") from None
        if word != b"LOG" or len(words) != 3 or not 0 <= start <= end:
            raise PeerError("log_request_malformed")
        if self._provide(end, end) is None:  # an empty piece, if the log goes so far
            end = start
            self._unsent = self._frames.seal(_REFUSED)
        else:
            self._unsent = self._frames.seal(_AGREED)
        self._position, self._end = start, end

    def send(self, sock: originals.Socket) -> None:
        """One piece at most. OSError if the joiner is gone, PeerError if the provider has it no longer."""
        try:
            sent = sock.send(self._unsent, sockets.QUIETLY)
        except BlockingIOError:
            return
        self._unsent = self._unsent[sent:]
        if self._unsent:
            return
        if self._position == self._end:
            self.finished = True
            return
        end = min(self._position + PIECE_BYTES, self._end)
        piece = self._provide(self._position, end)
        if piece is None or len(piece) != end - self._position:
            raise PeerError("log_gone", start=self._position, end=end)
        self._position = end
        self._unsent = self._frames.seal(piece)


class LogSource(NamedTuple):
    """A member that has the birth log."""

    ip: str
    port: int
    birth_id: BirthId
    group_id: GroupId
    keys: KeyRing


def fetch_log(source: LogSource, length: int, *, timeout_s: float) -> bytes:
    """The first `length` bytes of a member's birth log. Blocks. OSError or PeerError."""
    stream = _Stream(originals.monotonic_ns() + int(timeout_s * 1e9))
    try:
        stream.connect(source)
        handshake = ClientHandshake(
            source.keys,
            source.group_id,
            NO_BIRTH,
            originals.urandom(NONCE_BYTES),
            server_birth_id=source.birth_id,
            purpose=Purpose.BIRTH_LOG,
        )
        stream.write(handshake.hello)
        while not handshake.established:
            stream.write(handshake.feed(stream.read(handshake.wanted)))
        return _fetch(stream, Frames(handshake.session_key()), length)
    finally:
        stream.close()


def _fetch(stream: _Stream, frames: Frames, length: int) -> bytes:
    stream.write(b"LOG 0 %d\n" % length)
    if _read_frame(stream, frames, most=len(_AGREED)) != _AGREED:
        raise PeerError("log_refused", "the member does not have so much of it; ask another", length=length)
    found = bytearray()
    while len(found) < length:
        found += _read_frame(stream, frames, most=min(PIECE_BYTES, length - len(found)))
    return bytes(found)


def _read_frame(stream: _Stream, frames: Frames, *, most: int) -> bytes:
    size = _LENGTH.unpack(stream.read(_LENGTH.size))[0]
    if not 0 < size <= most:
        raise PeerError("log_frame_malformed", "fetch it again", size=size)
    data = stream.read(size)
    if not compare_digest(frames.mac(data), stream.read(MAC_BYTES)):
        raise PeerError("log_frame_altered", "fetch it again")
    return data


class _Stream:
    """A connection that blocks, up to an instant. `settimeout` would do as much at five times the cost."""

    def __init__(self, deadline_ns: int) -> None:
        self._deadline_ns = deadline_ns
        self._sock = sockets.open_socket(_socket.SOCK_STREAM)

    def connect(self, source: LogSource) -> None:
        try:
            self._sock.connect((source.ip, source.port))
        except BlockingIOError:
            self._wait(select.POLLOUT)
            error = self._sock.getsockopt(_socket.SOL_SOCKET, _socket.SO_ERROR)
            if error:
                raise OSError(error, "the member cannot be reached") from None

    def write(self, data: bytes) -> None:
        while data:
            try:
                data = data[self._sock.send(data, sockets.QUIETLY) :]
            except BlockingIOError:
                self._wait(select.POLLOUT)

    def read(self, size: int) -> bytes:
        """Exactly so many."""
        found = b""
        while len(found) < size:
            try:
                piece = self._sock.recv(size - len(found))
            except BlockingIOError:
                self._wait(select.POLLIN)
                continue
            if not piece:
                raise PeerError("log_cut_short", "the member is gone; fetch it from another")
            found += piece
        return found

    def _wait(self, event: int) -> None:
        left_ms = (self._deadline_ns - originals.monotonic_ns()) / 1e6
        poll = originals.poll()
        poll.register(self._sock.fileno(), event)
        if left_ms <= 0 or not poll.poll(left_ms):
            raise PeerError("log_fetch_timeout", "the member is too slow, or its host is gone")

    def close(self) -> None:
        self._sock.close()
