"""What its journal costs a primary: the share of its processor time that goes into it.

    python bench/journal.py [--seconds N]

A group of three under load without a pause. Counted are, for every record that the primary wrote in that
time: what the core takes to make its row, lay it into the journal's strip and have it taken from there (a
step with its journal on less a step with it off, as in bench/core_step.py); what the writer takes to pack the
rows, write them down and hand them on, measured by writing the very same records once more, as often as
a primary does (`driver.UNFLUSHED_AT_MOST_NS`); and the time of the thread that brings the bytes to the disk
(`llft-spool`). The sum is set against all processor time of the primary.

Calls that are made in dialogues (D-74) make no rows: C says itself what their frames took (`journal_ns`). So
the price of rows is that of the calls that went through the core, by their share (`calls_of_the_core`).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.core_step import Bench
from llft.cli.survey import STATUS, require_primary, survey
from llft.cli.trial import Trial, TrialOptions
from llft.journal.batch import Row
from llft.journal.frame import FREQUENT
from llft.journal.packed import Strip
from llft.journal.reader import read_journal
from llft.journal.record import Operated, Record, Stamp
from llft.journal.writer import JournalWriter
from llft.runtime.control_client import ask
from llft.runtime.driver import UNFLUSHED_AT_MOST_NS
from llft.runtime.native.spool import open_spool
from llft.wire.order import TEMPLATES

TICK = os.sysconf("SC_CLK_TCK")
BAR = 0.03
SPOOL = "llft-spool"
REPEAT = 3
ROUNDS = 7
CORE_STEPS = 3000
PIECES_PER_PART = 5
_NUMBER = re.compile(r"=(-?\d+)")


def cpu_s(stat: Path) -> float:
    fields = stat.read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / TICK


def spool_cpu_s(pid: int) -> float:
    """By the scheduler's own account: in ticks it would be a few."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    spools = [task for task in tasks if (task / "comm").read_text().strip() == SPOOL]
    return sum(int((task / "schedstat").read_text().split()[0]) for task in spools) / 1e9


class Calls(NamedTuple):
    """Of a primary, until now: in dialogues, through the core, and what the frames of the former took."""

    inside: int
    outside: int
    frames_s: float

    @classmethod
    def now(cls, trial: Trial, name: str) -> Calls:
        told = ask(trial.directory.socket(name), STATUS)["dialogues"]
        inside = told["heard"] + told["said"] + told["selected"]
        return cls(inside, sum(told["outside"].values()), told["journal_ns"] / 1e9)


def making_s() -> float:
    """Of one record, in the core. On and off by turns: a difference of two that were taken minutes apart
    would be one of the machine's moods."""
    more_ns = statistics.median(step_ns(journalling=True) - step_ns(journalling=False) for _ in range(ROUNDS))
    bench, strip = Bench(journalling=True), []
    bench.server.outbox.note_into(strip)
    bench.by_step(bench.request())
    return more_ns / sum(is_row(item) for item in strip) / 1e9


def step_ns(*, journalling: bool) -> float:
    """Of a request, and of forgetting its rows when they have been packed: many at a time."""
    bench, strip = Bench(journalling=journalling), []
    bench.server.outbox.note_into(strip)
    steps, forgetting = [], 0
    for number in range(CORE_STEPS):
        data = bench.request()
        start = time.perf_counter_ns()
        bench.by_step(data)
        steps.append(time.perf_counter_ns() - start)
        if number % 64 == 0:
            start = time.perf_counter_ns()
            strip.clear()
            forgetting += time.perf_counter_ns() - start
            bench.let_backup_catch_up()
    return statistics.median(steps) + forgetting / CORE_STEPS


def is_row(item: Any) -> bool:
    return isinstance(item, tuple) and isinstance(item[0], type)


def row_of(record: Record) -> Row | None:
    """What the core made of it before it was a record; None if it was one at once."""
    if not isinstance(record, Operated):
        return (type(record), *record[1:]) if type(record) in FREQUENT else None
    template = _NUMBER.sub("=%d", record.entry)
    if template not in TEMPLATES.values():
        return Operated, record.order_seq_num, record.entry
    return Operated, record.order_seq_num, template, (0, *map(int, _NUMBER.findall(record.entry)))


def pieces_of(records: Iterable[Record]) -> Iterator[Strip | Record]:
    """What is between two times that a primary hands its journal on: strips, and other records."""
    strip: Strip = []
    stamp: Stamp | None = None
    begun_ns = 0
    for record in records:
        if record.stamp.time_ns - begun_ns >= UNFLUSHED_AT_MOST_NS:
            begun_ns = record.stamp.time_ns
            yield strip
            strip = []
        row = row_of(record)
        if row is None:
            yield strip
            yield record
            strip = []
            continue
        if record.stamp != stamp or not strip:
            stamp = record.stamp
            strip += (stamp[1:], stamp.time_ns)
        strip.append(row)
    yield strip


def write_again(records: list[Record]) -> tuple[float, int]:
    """Seconds of the thread that writes, and how many bytes that were. Rows are made just before they are
    written: a primary has them in its caches, too. Of each part the least of some times counts: in the others
    it was interrupted. (The clock of a thread's processor time takes longer than a part does.)"""
    taken, size = [], 0
    for _ in range(REPEAT):
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "again.llj"
            journal = JournalWriter(path, sink=open_spool()[0])
            taken.append([write_part(journal, part) for part in parts_of(records)])
            journal.close()
            size = path.stat().st_size
            assert not journal.statistics()["dropped_count"]
    return sum(map(min, zip(*taken, strict=True))) / 1e9, size


def parts_of(records: list[Record]) -> Iterator[list[Strip | Record]]:
    """As much as the spool's thread writes at once."""
    pieces = pieces_of(records)
    while part := list(islice(pieces, PIECES_PER_PART)):
        yield part


def write_part(journal: JournalWriter, part: list[Strip | Record]) -> int:
    """In nanoseconds. What is waited for the disk is before it: a primary does not write without a pause."""
    journal.settle()
    taken_ns = 0
    for piece in part:
        if isinstance(piece, list):
            journal.strip.extend(piece)  # the core does that, row by row
        begun_ns = time.perf_counter_ns()
        if not isinstance(piece, list):
            journal.write(piece)
        journal.flush()
        taken_ns += time.perf_counter_ns() - begun_ns
    return taken_ns


def main() -> int:
    parser = argparse.ArgumentParser(description="What its journal costs a primary.")
    parser.add_argument("--seconds", type=float, default=20.0, help="of load (default: 20)")
    seconds = parser.parse_args().seconds
    trial = Trial(TrialOptions(kills=0, pace_ms=0.01), lambda text: print(f"  {text}", file=sys.stderr))
    with trial:
        primary = require_primary(survey(trial.directory))
        pid, birth = primary["pid"], primary["birth"]
        begun_ns, replies = time.monotonic_ns(), trial.count()["replies"]
        before = Calls.now(trial, primary["name"])
        before_s, spool_before_s = cpu_s(Path(f"/proc/{pid}/stat")), spool_cpu_s(pid)
        time.sleep(seconds)
        primary_s = cpu_s(Path(f"/proc/{pid}/stat")) - before_s
        spool_s = spool_cpu_s(pid) - spool_before_s
        inside, outside, frames_s = (
            now - then for now, then in zip(Calls.now(trial, primary["name"]), before, strict=True)
        )
        ended_ns, replies = time.monotonic_ns(), trial.count()["replies"] - replies
        trial.stop()
    every = (
        record for path in trial.directory.journal.glob("replica-*.llj") for record in read_journal(path)
    )
    records = [
        record
        for record in every
        if str(record.stamp.birth_id) == birth and begun_ns <= record.stamp.time_ns < ended_ns
    ]
    trial.forget()
    packing_s, size = write_again(records)
    making = making_s()
    of_the_core = outside / max(inside + outside, 1)
    writing_s = (packing_s + making * len(records)) * of_the_core + frames_s
    share = (writing_s + spool_s) / primary_s
    found = {
        "requests_per_s": round(replies / seconds),
        "records_per_request": round(len(records) / max(replies, 1), 1),
        "primary_cpu_us_per_request": round(primary_s / max(replies, 1) * 1e6, 1),
        "making_ns_per_record": round(making * 1e9),
        "writing_ns_per_record": round(packing_s / max(len(records), 1) * 1e9),
        "bytes_per_record": round(size / max(len(records), 1), 1),
        "calls_of_the_core": round(of_the_core, 3),
        "frames_us_per_request": round(frames_s / max(replies, 1) * 1e6, 3),
        "spool_us_per_request": round(spool_s / max(replies, 1) * 1e6, 2),
        "journal_us_per_request": round((writing_s + spool_s) / max(replies, 1) * 1e6, 2),
        "share": round(share, 4),
    }
    print(json.dumps(found))
    return 0 if share <= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
