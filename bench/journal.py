"""What its journal costs a primary: the share of its processor time that goes into it.

    python bench/journal.py [--seconds N]

A group of three under load without a pause. Counted are, for every record that the primary wrote in that
time: what the core takes to make one (a step with its journal on less a step with it off, as in
bench/core_step.py), and what the writer takes to frame it, write it down and hand it on, measured by writing
the very same records once more; and the time of the thread that brings the bytes to the disk (`llft-spool`).
The sum is set against all processor time of the primary.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.core_step import PAYLOAD, Bench, measure
from llft.cli.survey import require_primary, survey
from llft.cli.trial import Trial, TrialOptions
from llft.core import events
from llft.core.determinizer.operations import Receive, Send
from llft.core.effects import WriteRecord
from llft.journal.reader import read_journal
from llft.journal.record import Record
from llft.journal.writer import JournalWriter

TICK = os.sysconf("SC_CLK_TCK")
BAR = 0.03
SPOOL = "llft-spool"
REPEAT = 3
CORE_STEPS = 3000


def cpu_s(stat: Path) -> float:
    fields = stat.read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / TICK


def spool_cpu_s(pid: int) -> float:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(cpu_s(task / "stat") for task in tasks if (task / "comm").read_text().strip() == SPOOL)


def making_s() -> float:
    """Of one record, in the core."""
    with_journal, without = (
        min(
            statistics.median(measure(CORE_STEPS, lane=False, journalling=journalling)) for _ in range(REPEAT)
        )
        for journalling in (True, False)
    )
    bench = Bench(journalling=True)
    steps = (events.MessageReceived(bench.request()), events.OperationInvoked(1, Receive(1, 1024)))
    made = [effect for step in steps for effect in bench.server.step(step, bench.now_ns)]
    made += bench.server.step(events.OperationInvoked(1, Send(1, PAYLOAD)), bench.now_ns)
    return (with_journal - without) / sum(isinstance(one, WriteRecord) for one in made) / 1e9


def write_again(records: list[Record]) -> float:
    """CPU seconds, the least of some times."""
    taken = []
    for _ in range(REPEAT):
        with tempfile.TemporaryDirectory() as directory:
            journal = JournalWriter(Path(directory) / "again.llj")
            begun_s = time.process_time()
            for record in records:
                journal.write(record)
            journal.flush()
            taken.append(time.process_time() - begun_s)
            journal.close()
    return min(taken)


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
    writing_s = write_again(records) + making_s() * len(records)
    share = (writing_s + spool_s) / primary_s
    found = {
        "requests_per_s": round(replies / seconds),
        "records_per_request": round(len(records) / max(replies, 1), 1),
        "primary_cpu_us_per_request": round(primary_s / max(replies, 1) * 1e6, 1),
        "us_per_record": round(writing_s / max(len(records), 1) * 1e6, 2),
        "spool_cpu_s": round(spool_s, 2),
        "share": round(share, 4),
    }
    print(json.dumps(found))
    return 0 if share <= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
