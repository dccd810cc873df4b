"""What its journal costs a primary: the share of its processor time that goes into it.

    python bench/journal.py [--seconds N]

A group of three under load without a pause. Counted are, for every record that the primary wrote in that
time: what the core takes to make one (a step with its journal on less a step with it off, as in
bench/core_step.py), and what the writer takes to frame it, write it down and hand it on, measured by writing
the very same records once more, in the batches that they came in, and handing them on once for each request,
as a primary does that waits after each; and the time of the thread that brings the bytes to the disk
(`llft-spool`). The sum is set against all processor time of the primary.
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
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.core_step import PAYLOAD, Bench, measure
from llft.cli.survey import require_primary, survey
from llft.cli.trial import Trial, TrialOptions
from llft.core import events
from llft.core.determinizer.operations import Receive, Send
from llft.core.effects import WriteBatch, WriteRecord
from llft.journal.batch import Batch, Row, Who
from llft.journal.frame import FREQUENT
from llft.journal.reader import read_journal
from llft.journal.record import Operated, Record
from llft.journal.writer import JournalWriter
from llft.runtime.native.spool import open_spool
from llft.wire.order import TEMPLATES

TICK = os.sysconf("SC_CLK_TCK")
BAR = 0.03
SPOOL = "llft-spool"
REPEAT = 3
ROUNDS = 7
CORE_STEPS = 3000
PART = 500
"""Records that are written again at a time: a primary has those that it writes in its caches, too."""
_NUMBER = re.compile(r"=(-?\d+)")


def cpu_s(stat: Path) -> float:
    fields = stat.read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / TICK


def spool_cpu_s(pid: int) -> float:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(cpu_s(task / "stat") for task in tasks if (task / "comm").read_text().strip() == SPOOL)


def making_s() -> float:
    """Of one record, in the core. On and off by turns: a difference of two that were taken minutes apart
    would be one of the machine's moods."""
    more_ns = statistics.median(step_ns(journalling=True) - step_ns(journalling=False) for _ in range(ROUNDS))
    bench = Bench(journalling=True)
    steps = (events.MessageReceived(bench.request()), events.OperationInvoked(1, Receive(1, 1024)))
    made = [effect for step in steps for effect in bench.server.step(step, bench.now_ns)]
    made += bench.server.step(events.OperationInvoked(1, Send(1, PAYLOAD)), bench.now_ns)
    record_count = sum(isinstance(one, WriteRecord) for one in made)
    record_count += sum(len(one.rows) for one in made if isinstance(one, WriteBatch))
    return more_ns / record_count / 1e9


def step_ns(*, journalling: bool) -> float:
    return statistics.median(measure(CORE_STEPS, lane=False, journalling=journalling))


def row_of(record: Record) -> Row | None:
    """What the core made of it before it was a record; None if it was one at once."""
    if not isinstance(record, Operated):
        return (type(record), *record[1:]) if type(record) in FREQUENT else None
    template = _NUMBER.sub("=%d", record.entry)
    if template not in TEMPLATES.values():
        return None
    return Operated, record.order_seq_num, template, (0, *map(int, _NUMBER.findall(record.entry)))


def batches_of(records: Iterable[Record]) -> list[Batch | Record]:
    found: list[Batch | Record] = []
    who: Who | None = None
    last: Batch | None = None
    for record in records:
        row, stamp = row_of(record), record.stamp
        if row is None:
            found.append(record)
            last = None
        elif last is not None and last.time_ns == stamp.time_ns and last.who == stamp[1:]:
            last.rows.append(row)
        else:
            who = who if who == stamp[1:] else stamp[1:]
            last = Batch(stamp.time_ns, who, [row])
            found.append(last)
    return found


def write_again(records: list[Record], request_count: int) -> float:
    """CPU seconds of the thread that writes, the least of some times."""
    per_flush = max(1, len(batches_of(records)) // max(request_count, 1))
    parts = [records[start : start + PART] for start in range(0, len(records), PART)]
    taken = []
    for _ in range(REPEAT):
        with tempfile.TemporaryDirectory() as directory:
            journal = JournalWriter(Path(directory) / "again.llj", sink=open_spool()[0])
            taken.append(sum(write_part(journal, batches_of(part), per_flush) for part in parts))
            journal.close()
            assert not journal.statistics()["dropped_count"]
    return min(taken)


def write_part(journal: JournalWriter, pieces: list[Batch | Record], per_flush: int) -> float:
    """Without what is waited for the disk: a primary does not write without a pause."""
    begun_s = time.thread_time()
    for number, piece in enumerate(pieces):
        if isinstance(piece, Batch):
            journal.write_batch(piece)
        else:
            journal.write(piece)
        if number % per_flush == 0:
            journal.flush()
    journal.flush()
    taken_s = time.thread_time() - begun_s
    journal.settle()
    return taken_s


def main() -> int:
    parser = argparse.ArgumentParser(description="What its journal costs a primary.")
    parser.add_argument("--seconds", type=float, default=20.0, help="of load (default: 20)")
    seconds = parser.parse_args().seconds
    trial = Trial(TrialOptions(kills=0, pace_ms=0.01), lambda text: print(f"  {text}", file=sys.stderr))
    with trial:
        primary = require_primary(survey(trial.directory))
        pid, birth = primary["pid"], primary["birth"]
        begun_ns, replies = time.monotonic_ns(), trial.count()["replies"]
        before_s, spool_before_s = cpu_s(Path(f"/proc/{pid}/stat")), spool_cpu_s(pid)
        time.sleep(seconds)
        primary_s = cpu_s(Path(f"/proc/{pid}/stat")) - before_s
        spool_s = spool_cpu_s(pid) - spool_before_s
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
    writing_s = write_again(records, replies) + making_s() * len(records)
    share = (writing_s + spool_s) / primary_s
    found = {
        "requests_per_s": round(replies / seconds),
        "records_per_request": round(len(records) / max(replies, 1), 1),
        "primary_cpu_us_per_request": round(primary_s / max(replies, 1) * 1e6, 1),
        "us_per_record": round(writing_s / max(len(records), 1) * 1e6, 2),
        "spool_us_per_request": round(spool_s / max(replies, 1) * 1e6, 2),
        "journal_us_per_request": round((writing_s + spool_s) / max(replies, 1) * 1e6, 2),
        "share": round(share, 4),
    }
    print(json.dumps(found))
    return 0 if share <= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
