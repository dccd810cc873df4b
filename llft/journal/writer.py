"""Writes a replica's journal: append-only, bounded in memory, never losing in silence (D-22).

Laws:

1. One process, one journal: a file that exists is refused, because a birth id is never used twice
   and a torn tail must stay the tail.
2. Memory is bounded by `buffer_limit`, and one record. `write` hands the buffer to the operating system when
   the next record would not fit; `flush` does so at once, for whoever tails the file.
3. A file system that refuses (full, read-only, gone) does not stop the replica: records wait in
   the buffer, and those that find no room are counted and dropped. The first record that
   finds room again is preceded by a Gap with the count and the stamp of the first one lost.
4. A file is bounded by `segment_limit`, and one buffer: then the next segment begins, a file of its own
   that says in its header which one it is. If that cannot be created, the last one grows on.
5. What is in the files is a prefix of what was to be written: a short write is continued where it
   ended, so only the end of the last file can be torn.

Not thread-safe: the shell that steps the core owns its journal.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from types import TracebackType
from typing import Protocol

from llft import originals
from llft.errors import MisuseError
from llft.journal.frame import FRAME, MAX_PAYLOAD_BYTES, encode_record, file_header, segment_path
from llft.journal.record import Gap, Record, Stamp

BUFFER_LIMIT = 256 * 1024
SEGMENT_LIMIT = 64 * 1024 * 1024
MIN_BUFFER_LIMIT = 1024
"""Room for a Gap and an ordinary record."""


class Sink(Protocol):
    """The way to the file. Both raise the operating system's error."""

    def write(self, fd: int, data: bytes) -> int:
        """Take bytes; returns how many."""

    def settle(self) -> None:
        """Wait, within a bound, until all that was taken is in the file."""

    def abandon(self) -> None:
        """Forget what is not: the descriptor is about to be closed."""


class _Direct:
    def write(self, fd: int, data: bytes) -> int:
        return originals.write(fd, data)

    def settle(self) -> None:
        pass

    def abandon(self) -> None:
        pass


DIRECT: Sink = _Direct()


class JournalWriter:
    """A journal open for writing. `close` it, or use it as a context manager."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        buffer_limit: int = BUFFER_LIMIT,
        segment_limit: int = SEGMENT_LIMIT,
        sink: Sink = DIRECT,
        place_fd: Callable[[int], int] = lambda fd: fd,
    ) -> None:
        """`place_fd` may move a file's descriptor out of the way of others."""
        if buffer_limit < MIN_BUFFER_LIMIT:
            raise MisuseError(
                "buffer-limit-too-small", f"give at least {MIN_BUFFER_LIMIT}", found=buffer_limit
            )
        self.path = os.fspath(path)
        self.last_error: OSError | None = None
        self.segment = 0
        self._buffer_limit = buffer_limit
        self._sink = sink
        self._segment_limit = segment_limit
        self._segment_bytes = 0
        self._buffer = bytearray()
        self._written_count = 0
        self._dropped_count = 0
        self._lost_count = 0
        self._lost_stamp: Stamp | None = None
        self._place_fd = place_fd
        self._fd = place_fd(_create(self.path))
        self._take(file_header())
        self.flush()

    def write(self, record: Record) -> None:
        """Append a record. It is in the file after the next `flush`, unless a Gap says otherwise."""
        frame = encode_record(record)
        if len(frame) > FRAME.size + MAX_PAYLOAD_BYTES or not self._has_room(len(frame)):
            self._drop(record)
            return
        if self._segment_bytes + len(frame) > self._segment_limit:
            self._begin_segment()
        self._take(frame)
        self._written_count += 1

    def flush(self) -> bool:
        """Hand everything to the operating system. False: it refused, see `last_error`."""
        if self._fd < 0:
            raise MisuseError("journal-closed", "write before close", path=self.path)
        try:
            while self._buffer:
                # A spool takes all of a piece or none of it: no piece is more than it can ever have room for.
                written_bytes = self._sink.write(self._fd, bytes(self._buffer[:BUFFER_LIMIT]))
                del self._buffer[:written_bytes]
        except OSError as error:
            self.last_error = error
            return False
        return True

    def settle(self) -> bool:
        """Flush, and wait within a bound until it is all in the file. False: see `last_error`."""
        if not self.flush():
            return False
        try:
            self._sink.settle()
        except OSError as error:
            self.last_error = error
            return False
        return True

    def close(self) -> None:
        """Settle and close. Raises the operating system's error if records are left behind."""
        if self._fd < 0:
            return
        try:
            complete = self.settle()
            if complete and self._lost_stamp is not None:
                self._append_gap()
                complete = self.settle()
        finally:
            self._sink.abandon()
            originals.close(self._fd)
            self._fd = -1
        if not complete and self.last_error is not None:
            raise self.last_error

    def statistics(self) -> dict[str, int]:
        return {
            "written_count": self._written_count,
            "dropped_count": self._dropped_count,
            "buffered_bytes": len(self._buffer),
        }

    def __enter__(self) -> JournalWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _take(self, data: bytes) -> None:
        self._buffer += data
        self._segment_bytes += len(data)

    def _begin_segment(self) -> None:
        """Nothing of the old segment may wait in the buffer: it would get into the new one."""
        if not self.settle():
            return
        try:
            fd = self._place_fd(_create(segment_path(self.path, self.segment + 1)))
        except (OSError, MisuseError) as error:
            self.last_error = error if isinstance(error, OSError) else OSError(str(error))
            self._segment_bytes = 0  # try again after as many bytes, not with each record
            return
        originals.close(self._fd)
        self._fd, self._segment_bytes = fd, 0
        self.segment += 1
        self._take(file_header(self.segment))

    def _has_room(self, frame_bytes: int) -> bool:
        """Make room for a frame and for the Gap that must precede it; False if that cannot be."""
        if self._fd < 0:
            raise MisuseError("journal-closed", "write before close", path=self.path)
        if self._lost_stamp is None:
            if len(self._buffer) + frame_bytes <= self._buffer_limit:
                return True
            # A record larger than the whole buffer is welcome to an empty one: it leaves with the next flush.
            return self.flush()
        # While records are being lost, none is taken until the file system accepts again: else
        # single small ones would slip in between the large, and every one would need its own Gap.
        if not self.flush():
            return False
        self._append_gap()
        return True

    def _drop(self, record: Record) -> None:
        if self._lost_stamp is None:
            self._lost_stamp = record.stamp
        self._lost_count += 1
        self._dropped_count += 1

    def _append_gap(self) -> None:
        assert self._lost_stamp is not None
        self._take(encode_record(Gap(self._lost_stamp, self._lost_count)))
        self._lost_stamp, self._lost_count = None, 0


def _create(path: str) -> int:
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)
    except FileExistsError:
        raise MisuseError("journal-exists", "move it away, or choose another directory", path=path) from None
