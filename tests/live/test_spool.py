"""The journal's way to the disk: nobody waits for it, its order stays, and a refusal is heard of."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from llft.identifiers import BirthId, ViewId
from llft.journal.reader import read_journal
from llft.journal.record import Operated, Stamp
from llft.journal.writer import JournalWriter
from llft.runtime.native.build import build
from llft.runtime.native.spool import Spool
from tests.live.native import needs_native

RING_BYTES = 1 << 20
BOUND_S = 5.0
ME = BirthId(1, 1, 1)

pytestmark = needs_native


@pytest.fixture
def spool() -> Iterator[Spool]:
    made = Spool(build(os.environ)[0])
    yield made
    made.abandon()


def test_what_is_taken_is_written_in_its_order(spool: Spool, tmp_path: Path) -> None:
    pieces = [bytes([number % 251]) * (number % 700 + 1) for number in range(6000)]
    fd = os.open(tmp_path / "file", os.O_WRONLY | os.O_CREAT)
    for piece in pieces:
        while True:
            try:
                assert spool.write(fd, piece) == len(piece)
                break
            except BlockingIOError:
                spool.settle()
    spool.settle()
    os.close(fd)
    assert (tmp_path / "file").read_bytes() == b"".join(pieces)


def test_a_disk_that_stalls_holds_nobody_up_and_loses_nothing(spool: Spool) -> None:
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    pieces = [number.to_bytes(4, "big") * 250 for number in range(RING_BYTES // 1000 - 1)]
    given = b"".join(pieces)
    began_s = time.monotonic()
    for piece in pieces:
        spool.write(writing, piece)
    assert time.monotonic() - began_s < BOUND_S, "it waited for the pipe"
    with pytest.raises(BlockingIOError):
        spool.write(writing, bytes(RING_BYTES))
    taken = bytearray()
    deadline_s = time.monotonic() + BOUND_S
    while len(taken) < len(given) and time.monotonic() < deadline_s:
        taken += os.read(reading, 1 << 16)
    assert taken == given
    spool.settle()
    os.close(reading)
    os.close(writing)


def test_a_refusal_is_heard_of_and_another_file_may_follow(spool: Spool, tmp_path: Path) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    spool.write(full, b"refused")
    with pytest.raises(OSError, match="No space left") as caught:
        spool.settle()
    assert caught.value.errno == errno.ENOSPC
    fd = os.open(tmp_path / "file", os.O_WRONLY | os.O_CREAT)
    with pytest.raises(OSError, match="No space left"):
        spool.write(fd, b"too early: the other file's bytes are not out")
    spool.abandon()
    os.close(full)
    spool.write(fd, b"written")
    spool.settle()
    os.close(fd)
    assert (tmp_path / "file").read_bytes() == b"written"


def test_a_journal_through_it_is_whole(spool: Spool, tmp_path: Path) -> None:
    records = [Operated(Stamp(number, 1, ME, ViewId(1, 1, ME)), number, "x" * 50) for number in range(4000)]
    journal = JournalWriter(tmp_path / "some.llj", sink=spool)
    for record in records:
        journal.write(record)
        journal.flush()
    journal.close()
    assert journal.statistics()["dropped_count"] == 0
    assert list(read_journal(tmp_path / "some.llj")) == records
