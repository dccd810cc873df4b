"""What its journal costs a primary that hears and answers in dialogues (D-74): where a request costs least.

    python bench/journal_in_dialogues.py [--seconds N] [--size BYTES]

A group of three that echoes what a client group sends, both on one core and the backups on another, one
request under way. Counted are: what C takes to make the frames of dialogues (it says so itself, in its
`journal_ns`); the digest of all that was read, which is made for the journal alone; what the writer takes for
these frames, and for all that the core made beside them (as in bench/journal.py); and the time of the thread
that brings the bytes to the disk. The sum is set against all processor time of the primary.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.journal import BAR, REPEAT, cpu_s, making_s, spool_cpu_s, write_again
from llft.cli.measure.comparison import Manner
from llft.cli.measure.network import network
from llft.cli.measure.placement import ONE_CORE
from llft.cli.measure.running import ReplicatedProgram
from llft.cli.measure.side import Side, Workload
from llft.cli.measure.sides import group_side
from llft.cli.survey import STATUS, require_primary, survey
from llft.journal.frame import FRAME, HEADER
from llft.journal.packed import START
from llft.journal.reader import parse_record
from llft.journal.record import ClockRead, Delivered, Operated, Record, Sent
from llft.journal.unpack_rows import unpack
from llft.journal.writer import JournalWriter
from llft.runtime.control_client import ask
from llft.runtime.driver import UNFLUSHED_AT_MOST_NS
from llft.runtime.native.spool import open_spool
from llft.wire.checksum import crc32

OF_DIALOGUES = (Operated, Delivered, Sent, ClockRead)
DIGESTS, ROUNDS = 2_000, 25


class Frame(NamedTuple):
    data: bytes
    records: list[Record]

    @property
    def is_of_dialogue(self) -> bool:
        return any(isinstance(record, OF_DIALOGUES) for record in self.records)


class Seen(NamedTuple):
    """Of a primary: what it has done until now."""

    at_ns: int
    cpu_s: float
    spool_s: float
    frames_s: float
    heard: int

    @classmethod
    def now(cls, server: ReplicatedProgram, name: str, pid: int) -> Seen:
        told = ask(server.run.directory.socket(name), STATUS)["dialogues"]
        used_s, spool_s = cpu_s(Path(f"/proc/{pid}/stat")), spool_cpu_s(pid)
        return cls(time.monotonic_ns(), used_s, spool_s, told["journal_ns"] / 1e9, told["heard"])


def frames_of(path: Path) -> Iterator[Frame]:
    data, at = path.read_bytes(), HEADER.size
    while at + FRAME.size <= len(data):
        end = at + FRAME.size + FRAME.unpack_from(data, at)[0]
        payload = data[at + FRAME.size : end]
        yield Frame(data[at:end], unpack(payload) if payload.startswith(START) else [parse_record(payload)])
        at = end


def writing_frames_s(frames: list[Frame]) -> float:
    """Of these, handed on as often as a primary does: the least of some times."""
    taken_ns = []
    for _ in range(REPEAT):
        with tempfile.TemporaryDirectory() as directory:
            journal = JournalWriter(Path(directory) / "again.llj", sink=open_spool()[0])
            taken_ns.append(sum(write_each(journal, frames)))
            journal.close()
            assert not journal.statistics()["dropped_count"]
    return min(taken_ns) / 1e9


def write_each(journal: JournalWriter, frames: list[Frame]) -> Iterator[int]:
    flushed_ns = 0
    for data, records in frames:
        stamp, begun_ns = records[0].stamp, time.perf_counter_ns()
        journal.write_frame(data, len(records), stamp)
        if stamp.time_ns - flushed_ns >= UNFLUSHED_AT_MOST_NS:
            flushed_ns = stamp.time_ns
            journal.flush()
        yield time.perf_counter_ns() - begun_ns
        journal.settle()  # a primary does not write without a pause


def digest_s(size: int) -> float:
    """Of a message of this size: the least of some times. Calling it from Python is not counted."""
    return (min(digests_s(bytes(size))) - min(digests_s(b""))) / DIGESTS


def digests_s(data: bytes) -> Iterator[float]:
    for _ in range(ROUNDS):
        begun_s = time.perf_counter()
        for _ in range(DIGESTS):
            crc32(data)
        yield time.perf_counter() - begun_s


def measure(side: Side, server: ReplicatedProgram, seconds: float, size: int) -> dict[str, float]:
    side.place(ONE_CORE, backups="other")
    workload = Workload({"size": size})
    count = side.requests_in(workload, min(seconds, 1.0))
    primary = require_primary(survey(server.run.directory))
    before = Seen.now(server, primary["name"], primary["pid"])
    while time.monotonic_ns() < before.at_ns + seconds * 1e9:
        side.control.order(do="batches", requests=count, batch=count, request=workload.request)
    after = Seen.now(server, primary["name"], primary["pid"])
    frames = [
        frame
        for path in server.run.directory.journal.glob(f"{primary['name']}*.llj")
        for frame in frames_of(path)
        if before.at_ns <= frame.records[0].stamp.time_ns < after.at_ns
    ]
    return costs(before, after, frames, size)


def costs(before: Seen, after: Seen, frames: list[Frame], size: int) -> dict[str, float]:
    others = [record for frame in frames if not frame.is_of_dialogue for record in frame.records]
    made = [frame for frame in frames if frame.is_of_dialogue]
    requests = after.heard - before.heard
    seconds = {
        "frames": after.frames_s - before.frames_s,
        "digests": digest_s(size) * requests,
        "writer": writing_frames_s(made),
        "of_the_core": (write_again(others)[0] + making_s() * len(others)) if others else 0.0,
        "spool": after.spool_s - before.spool_s,
    }
    primary_s = after.cpu_s - before.cpu_s
    found = {f"{name}_us_per_request": round(one * 1e6 / requests, 3) for name, one in seconds.items()}
    return {
        "requests_per_s": round(requests / (after.at_ns - before.at_ns) * 1e9),
        "primary_cpu_us_per_request": round(primary_s / requests * 1e6, 2),
        "requests_per_frame": round(requests / max(len(made), 1), 1),
        "bytes_per_request": round(sum(len(frame.data) for frame in frames) / requests, 1),
        **found,
        "share": round(sum(seconds.values()) / primary_s, 4),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="What its journal costs a primary in dialogues.")
    parser.add_argument("--seconds", type=float, default=8.0, help="of load (default: 8)")
    parser.add_argument("--size", type=int, default=1024, help="of a request and its reply (default: 1024)")
    arguments = parser.parse_args()
    with network("loopback", configured=False, authenticated=False) as loopback:
        manner = Manner(1, 1.0, (ONE_CORE,), "other", "compiled", None, loopback, print)
        with group_side(manner, replicas=3, client_replicas=1) as side:
            assert isinstance(side.server, ReplicatedProgram)
            found = measure(side, side.server, arguments.seconds, arguments.size)
    print(json.dumps(found))
    return 0 if found["share"] <= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
