"""Writes a replica's journal: append-only, bounded in memory, never losing in silence (D-22).

Laws:

1. One process, one journal: a file that exists is refused, because a birth id is never used twice
   and a torn tail must stay the tail.
2. Memory is bounded by `buffer_limit`, one frame, `FULL` rows and one batch, and `FULL_OF_RECORDS`. The
   buffer goes to the operating system when the next frame would not fit, and by `flush` at once, for whoever
   tails the file.
3. A file system that refuses (full, read-only, gone) does not stop the replica: records wait in
   the buffer, and those that find no room are counted and dropped. The first record that
   finds room again is preceded by a Gap with the count and the stamp of the first one lost. Records of one
   frame are lost together.
4. A file is bounded by `segment_limit`, and one buffer: then the next segment begins, a file of its own
   that says in its header which one it is. If that cannot be created, the last one grows on.
5. What is in the files is a prefix of what was to be written: a short write is continued where it
   ended, so only the end of the last file can be torn.
6. Rows wait in the `strip` until they are packed, many into a frame: by `flush`, or when there are `FULL`.
   Their maker may add to it itself (`journal.packed` says how it is laid out). Records wait among them, each
   in its place, for at a change of the primary clients wait for whoever writes them.
7. Disk is bounded by `limit_bytes`: the oldest segments are removed when a new one begins, which tells so by
   a Gap at its beginning.

Not thread-safe: the shell that steps the core owns its journal.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Final, cast

from llft import originals
from llft.errors import MisuseError
from llft.journal.batch import Batch
from llft.journal.frame import FRAME, MAX_PAYLOAD_BYTES, encode_record, file_header, segment_path
from llft.journal.pack_rows import pack
from llft.journal.packed import Packed, Strip
from llft.journal.record import Gap, Record, Stamp
from llft.journal.segment import Segment, create_segment
from llft.journal.sink import DIRECT, Sink

BUFFER_LIMIT: Final = 256 * 1024
SEGMENT_LIMIT: Final = 64 * 1024 * 1024
SEGMENTS_MIN: Final = 4
"""That a bounded journal has room for: all but one of them are always there."""
MIN_BUFFER_LIMIT: Final = 1024
"""Room for a Gap and an ordinary record."""
FULL: Final = 1024
"""Rows and times: about as much memory as the buffer."""
FULL_OF_RECORDS: Final = 32
"""More than a change of the primary has."""


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
        limit_bytes: int = 0,
    ) -> None:
        """`place_fd` may move a file's descriptor out of the way of others. A `limit_bytes` of 0 is none."""
        if buffer_limit < MIN_BUFFER_LIMIT:
            raise MisuseError(
                "buffer-limit-too-small", f"give at least {MIN_BUFFER_LIMIT}", found=buffer_limit
            )
        self.path = os.fspath(path)
        self.last_error: OSError | None = None
        self._buffer_limit = buffer_limit
        self._sink = sink
        self.strip: Strip = []
        self._among: list[tuple[int, Record]] = []
        """Records that wait, and the length of the strip before each."""
        self._buffer = bytearray()
        self._written_count = self._dropped_count = self._lost_count = 0
        self._lost_stamp: Stamp | None = None
        self._place_fd, self._limit_bytes = place_fd, limit_bytes
        self._segment_limit = min(segment_limit, (limit_bytes // SEGMENTS_MIN) or segment_limit)
        self._here = Segment(0)
        self._earlier: deque[Segment] = deque()
        self._left_fd = -1
        """Of the segment before, until the way to it is empty."""
        self._fd = place_fd(create_segment(self.path))
        self._take(file_header())
        self.flush()

    @property
    def segment(self) -> int:
        return self._here.number

    def write(self, record: Record) -> None:
        """Append a record. It is in the file after the next `flush`, unless a Gap says otherwise."""
        if self._fd < 0:
            raise MisuseError("journal-closed", "write before close", path=self.path)
        self._among.append((len(self.strip), record))
        if len(self._among) >= FULL_OF_RECORDS:
            self._pack()

    def write_batch(self, batch: Batch) -> None:
        """The same for all records of a batch."""
        if self._fd < 0:
            raise MisuseError("journal-closed", "write before close", path=self.path)
        strip = self.strip
        strip.append(batch.who)
        strip.append(batch.time_ns)
        strip.extend(batch.rows)
        if len(strip) >= FULL:
            self._pack()

    def write_frame(self, frame: bytes, count: int, first: Stamp) -> None:
        """The same of records that somebody else has packed, of which the first has this stamp."""
        self._pack()
        self._put(frame, count, first)

    def _pack(self) -> None:
        """All that waits. Behind a record the strip says anew who and when."""
        among, self._among = self._among, []
        rows, done = self.strip[:], 0
        self.strip.clear()
        for place, record in among:
            self._pack_rows(rows[done:place])
            self._append(record)
            done = place
        self._pack_rows(rows[done:] if done else rows)

    def _pack_rows(self, rows: Strip) -> None:
        for piece in pack(rows) if rows else ():
            if type(piece) is tuple:
                frame, count, time_ns, who = cast(Packed, piece)
                self._put(frame, count, Stamp(time_ns, *who))
            else:
                self._append(cast(Record, piece))

    def _append(self, record: Record) -> None:
        self._put(encode_record(record), 1, record.stamp)

    def _put(self, frame: bytes, count: int, stamp: Stamp) -> None:
        """A frame of so many records, of which the first has this stamp."""
        if len(frame) > FRAME.size + MAX_PAYLOAD_BYTES or not self._has_room(len(frame)):
            self._drop(count, stamp)
            return
        if self._here.size + len(frame) > self._segment_limit:
            self._begin_segment()
        self._take(frame)
        self._written_count += count
        self._here.count += count
        if self._here.first is None:
            self._here.first = stamp

    def flush(self) -> bool:
        """Hand everything to the operating system. False: it refused, see `last_error`."""
        if self._fd < 0:
            raise MisuseError("journal-closed", "write before close", path=self.path)
        self._pack()
        return self._hand_on()

    def _hand_on(self) -> bool:
        """The same of what is framed."""
        buffer = self._buffer
        try:
            while buffer:
                # A spool takes all of a piece or none of it: no piece is more than it can ever have room for.
                piece = bytes(buffer if len(buffer) <= BUFFER_LIMIT else buffer[:BUFFER_LIMIT])
                written_bytes = self._sink.write(self._fd, piece)
                del buffer[:written_bytes]
                self._leave()
        except OSError as error:
            self.last_error = error
            return False
        return True

    def _begin_segment(self) -> None:
        """Nothing of the old segment may wait in the buffer: it would get into the new one. If the file
        system refuses, the old one goes on, and it is tried again as much later."""
        if not self._hand_on():
            return
        self._leave()
        number = self._here.number + 1
        try:
            fd = self._place_fd(create_segment(segment_path(self.path, number)))
        except (OSError, MisuseError) as error:
            self.last_error = error if isinstance(error, OSError) else OSError(str(error))
            self._here.size = 0
            return
        self._left_fd, self._fd = self._fd, fd
        self._earlier.append(self._here)
        self._here = Segment(number)
        self._take(file_header(number))
        self._remove_oldest()

    def _remove_oldest(self) -> None:
        """So that what is there, and the new segment, keep within the limit."""
        while self._earlier and self._bytes_kept() + self._segment_limit > self._limit_bytes > 0:
            oldest = self._earlier.popleft()
            with suppress(OSError):  # somebody else has done it
                originals.unlink(segment_path(self.path, oldest.number))
            if oldest.first is not None:
                self._take(encode_record(Gap(oldest.first, oldest.count)))

    def _bytes_kept(self) -> int:
        return sum(segment.size for segment in self._earlier)

    def _take(self, data: bytes) -> None:
        self._buffer += data
        self._here.size += len(data)

    def _leave(self) -> None:
        """A sink takes bytes for another file only when it has none of the last one's."""
        if self._left_fd >= 0:
            originals.close(self._left_fd)
            self._left_fd = -1

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
            self._leave()
            originals.close(self._fd)
            self._fd = -1
        if not complete and self.last_error is not None:
            raise self.last_error

    def statistics(self) -> dict[str, int]:
        self._pack()
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

    def _has_room(self, frame_bytes: int) -> bool:
        """Make room for a frame and for the Gap that must precede it; False if that cannot be."""
        if self._fd < 0:
            raise MisuseError("journal-closed", "write before close", path=self.path)
        if self._lost_stamp is None:
            if len(self._buffer) + frame_bytes <= self._buffer_limit:
                return True
            # A record larger than the whole buffer is welcome to an empty one: it leaves with the next flush.
            return self._hand_on()
        # While records are being lost, none is taken until the file system accepts again: else
        # single small ones would slip in between the large, and every one would need its own Gap.
        if not self._hand_on():
            return False
        self._append_gap()
        return True

    def _drop(self, count: int, first: Stamp) -> None:
        if self._lost_stamp is None:
            self._lost_stamp = first
        self._lost_count += count
        self._dropped_count += count

    def _append_gap(self) -> None:
        assert self._lost_stamp is not None
        self._take(encode_record(Gap(self._lost_stamp, self._lost_count)))
        self._lost_stamp, self._lost_count = None, 0
