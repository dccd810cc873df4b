"""The birth log and states over the service port: a member serves them, a joiner fetches them.

    joiner -> member    LOG <from> <to>\\n, or STATE <from> <to> <position>\\n
    member -> joiner    frames: length u32, data, MAC 16 bytes; the first says OK or NO

The MAC of a frame is under the key of this connection and covers the frame's number: a stream that somebody
altered, cut or put together anew is noticed before anything is replayed. The serving side asks its provider
for some pieces at a time and sends what the socket takes, so that the replica goes on meanwhile.
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
PIECES_AT_ONCE = 8
"""About a millisecond of the serving replica's time. One by one they would cost the joiner, and whoever else
waits for a processor, a change of processes each."""
LONGEST_REQUEST_BYTES = 64
_LENGTH = struct.Struct(">I")
_NUMBER = struct.Struct(">Q")
_AGREED, _REFUSED = b"OK", b"NO"

Provide = Callable[[int, int], bytes | memoryview | None]
"""A piece of the birth log, None if there is not so much of it."""
ProvideState = Callable[[int, int, int], bytes | memoryview | None]
"""A piece of the state that was captured at a position, given last; None if it is not there."""


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

    def __init__(self, session_key: bytes, provide: Provide, provide_state: ProvideState) -> None:
        self._frames = Frames(session_key)
        self._provide = provide
        self._provide_state = provide_state
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
        if not self._line.endswith(b"\n"):
            if len(self._line) >= LONGEST_REQUEST_BYTES:
                raise PeerError("log_request_malformed")
            return
        start, end = self._understand(*self._line.split(b" "))
        if self._provide(start, start) is None or self._provide(end, end) is None:
            end = start
            self._unsent = self._frames.seal(_REFUSED)
        else:
            self._unsent = self._frames.seal(_AGREED)
        self._position, self._end = start, end

    def _understand(self, word: bytes, *numbers: bytes) -> tuple[int, int]:
        try:
            start, end, *position = map(int, numbers)
        except ValueError:
            raise PeerError("log_request_malformed") from None
        if not 0 <= start <= end or (word, len(position)) not in ((b"LOG", 0), (b"STATE", 1)):
            raise PeerError("log_request_malformed")
        if position:
            provide_state = self._provide_state
            self._provide = lambda start, end: provide_state(start, end, position[0])
        return start, end

    def send(self, sock: originals.Socket) -> None:
        """What the socket takes, and some pieces at most. OSError if the joiner is gone, PeerError if the
        provider has it no longer."""
        for _ in range(PIECES_AT_ONCE):
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
            self._prepare()

    def _prepare(self) -> None:
        """The next piece."""
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


def fetch_log(source: LogSource, end: int, *, start: int = 0, timeout_s: float) -> bytes:
    """Of a member's birth log. Blocks, unless nothing comes for `timeout_s`. OSError or PeerError."""
    found = bytearray()
    fetch_log_into(found.extend, source, end, start=start, timeout_s=timeout_s)
    return bytes(found)


def fetch_log_into(
    take: Callable[[bytes], object], source: LogSource, end: int, *, start: int, timeout_s: float
) -> None:
    """The same; `take` gets the pieces in order. While a long log is copied as a whole, nobody runs."""
    _fetch(source, b"LOG %d %d\n" % (start, end), end - start, timeout_s, take)


def fetch_state(
    source: LogSource,
    position: int,
    *,
    start: int,
    end: int,
    timeout_s: float,
    take: Callable[[bytes], object],
) -> None:
    """Of the state that a member captured at a position; `take` gets the pieces in order. Blocks. OSError or
    PeerError; what was taken until then is good, and need not be fetched again."""
    _fetch(source, b"STATE %d %d %d\n" % (start, end, position), end - start, timeout_s, take)


def _fetch(
    source: LogSource, request: bytes, size: int, timeout_s: float, take: Callable[[bytes], object]
) -> None:
    stream = _Stream(int(timeout_s * 1e9))
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
        _take_frames(stream, Frames(handshake.session_key()), request, size, take)
    finally:
        stream.close()


def _take_frames(
    stream: _Stream, frames: Frames, request: bytes, size: int, take: Callable[[bytes], object]
) -> None:
    stream.write(request)
    if _read_frame(stream, frames, most=len(_AGREED)) != _AGREED:
        raise PeerError("log_refused", "the member does not have it; ask another", request=request.decode())
    while size:
        piece = _read_frame(stream, frames, most=min(PIECE_BYTES, size))
        take(piece)
        size -= len(piece)
        stream.begin_waiting()


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

    def __init__(self, patience_ns: int) -> None:
        self._patience_ns = patience_ns
        self._sock = sockets.open_socket(_socket.SOCK_STREAM)
        self.begin_waiting()

    def begin_waiting(self) -> None:
        """The patience is for what comes next: how long all of it takes depends on how much it is."""
        self._deadline_ns = originals.monotonic_ns() + self._patience_ns

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
