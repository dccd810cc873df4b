"""How soon the watch tells of a divergence, while journals grow by 100,000 records a second.

    python bench/watch.py [--rate N] [--seconds N]

Groups of three replicas write journals, on schedule, from frames that were made before. In some of them a
replica performs another operation than its peers, now and then; from the moment that its frame is in the
file to the moment that `llft watch` prints the alarm, with the order number that was planted, time is taken.
The first divergence is there before the load is: its alarm says that the stream has started.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

from llft.identifiers import BirthId, ConnectionId, ViewId
from llft.journal.frame import file_header
from llft.journal.pack_rows import pack
from llft.journal.packed import Packed, Strip
from llft.journal.record import ClockRead, Delivered, Operated, Sent
from llft.wire.order import MUTEX, READ, SEND, TEMPLATES, TIME

GROUPS, REPLICAS = 8, 3
SLICE_S = 0.1
RECORDS_PER_CYCLE = 7
OPERATIONS = 4
FIRST_PLANT_S, PLANT_EVERY_S = 6.0, 3.0
STARTED_GROUP = 99
BAR_S = 3.0
PATIENCE_S = 120.0


@dataclass
class Plant:
    """The divergence of one group: which number, and when it was in the file."""

    group: int
    cycle: int
    written_s: float = 0.0
    told_s: float = 0.0
    told_number: int = 0

    @property
    def number(self) -> int:
        return 2 + self.cycle * OPERATIONS + 3


@dataclass
class Journals:
    directory: Path
    files: dict[tuple[int, int], IO[bytes]] = field(default_factory=dict)

    def append(self, group: int, replica: int, data: bytes) -> None:
        key = (group, replica)
        if key not in self.files:
            path = self.directory / f"group-{group}" / f"replica-{replica}.llj"
            path.parent.mkdir(exist_ok=True)
            self.files[key] = path.open("wb", buffering=0)
            data = file_header() + data
        self.files[key].write(data)

    def close(self) -> None:
        for file in self.files.values():
            file.close()


def frames(group: int, replica: int, cycles: range, wrong_cycle: int = -1) -> bytes:
    """What a replica writes in these cycles: it receives, reads the clock, sends, and takes a mutex."""
    who = group, BirthId(replica, replica, replica), ViewId(1, 1, BirthId(1, 1, 1))
    connection = ConnectionId(1000, group, 1)
    strip: Strip = [who]
    for cycle in cycles:
        number, now = 2 + cycle * OPERATIONS, 1_000_000_000 + cycle * 1000
        result = int(cycle != wrong_cycle)
        strip += (
            now,
            (Operated, number, TEMPLATES[READ], (READ, cycle, 1, 3, 100)),
            (Delivered, connection, 3, 100, cycle * 100 + 100, cycle),
            (Operated, number + 1, TEMPLATES[TIME], (TIME, cycle, 1, 0, now)),
            (ClockRead, 0, now, number + 1),
            (Operated, number + 2, TEMPLATES[SEND], (SEND, cycle, 1, 3, cycle)),
            (Sent, connection, 3, cycle + 1, cycle, 100, cycle, number + 2),
            (Operated, number + 3, TEMPLATES[MUTEX], (MUTEX, cycle, 1, 1, cycle, result)),
        )
    return b"".join(cast(Packed, piece)[0] for piece in pack(strip))


def cycles_of(rate: float) -> int:
    """Of one replica in one slice."""
    return max(1, round(rate * SLICE_S / (GROUPS * REPLICAS * RECORDS_PER_CYCLE)))


def make_slices(rate: float, seconds: float) -> tuple[list[dict[tuple[int, int], bytes]], list[Plant]]:
    cycles = cycles_of(rate)
    count = round(seconds / SLICE_S)
    starts = range(round(FIRST_PLANT_S / SLICE_S), count - 1, round(PLANT_EVERY_S / SLICE_S))
    plants = [Plant(group, at * cycles + cycles // 2) for group, at in enumerate(starts[:GROUPS], 1)]
    wrong = {plant.group: plant.cycle for plant in plants}
    slices = []
    for index in range(count):
        span = range(index * cycles, (index + 1) * cycles)
        made = {}
        for group in range(1, GROUPS + 1):
            for replica in range(1, REPLICAS + 1):
                made[group, replica] = frames(
                    group, replica, span, wrong.get(group, -1) if replica == 2 else -1
                )
        slices.append(made)
    return slices, plants


def listen(output: IO[str], plants: list[Plant], started: threading.Event) -> None:
    for line in output:
        alarm: dict[str, Any] = json.loads(line)
        for plant in plants:
            if plant.group == alarm["group_id"] and not plant.told_s:
                plant.told_s, plant.told_number = time.monotonic(), alarm["order_seq_num"]
        if alarm["group_id"] == STARTED_GROUP:
            started.set()


def load(journals: Journals, slices: list[dict[tuple[int, int], bytes]], by_slice: dict[int, Plant]) -> float:
    """Returns how long it took."""
    begun_s = time.monotonic()
    for index, made in enumerate(slices):
        time.sleep(max(0.0, begun_s + index * SLICE_S - time.monotonic()))
        for (group, replica), data in made.items():
            journals.append(group, replica, data)
        if index in by_slice:
            by_slice[index].written_s = time.monotonic()
    return time.monotonic() - begun_s


def main() -> int:
    parser = argparse.ArgumentParser(description="How soon the watch tells of a divergence.")
    parser.add_argument("--rate", type=float, default=100_000, help="records a second, all journals together")
    parser.add_argument("--seconds", type=float, default=24)
    arguments = parser.parse_args()
    slices, plants = make_slices(arguments.rate, arguments.seconds)
    cycles = cycles_of(arguments.rate)
    with tempfile.TemporaryDirectory() as directory:
        journals = Journals(Path(directory))
        for replica in (1, 2):
            journals.append(STARTED_GROUP, replica, frames(STARTED_GROUP, replica, range(9), replica * 4 - 4))
        command = [sys.executable, "-m", "llft.cli.main", "watch", directory, "--json"]
        watch = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert watch.stdout is not None
        started = threading.Event()
        listener = threading.Thread(target=listen, args=(watch.stdout, plants, started), daemon=True)
        listener.start()
        try:
            assert started.wait(PATIENCE_S), "the watch did not start"
            took_s = load(journals, slices, {plant.cycle // cycles: plant for plant in plants})
            deadline_s = time.monotonic() + PATIENCE_S
            while not all(plant.told_s for plant in plants) and time.monotonic() < deadline_s:
                time.sleep(SLICE_S)
        finally:
            watch.send_signal(signal.SIGINT)
            watch.wait()
            journals.close()
    records = len(slices) * GROUPS * REPLICAS * RECORDS_PER_CYCLE * cycles
    delays_s = [plant.told_s - plant.written_s if plant.told_s else float("inf") for plant in plants]
    found = {
        "records": records,
        "records_per_s": round(records / took_s),
        "delays_s": [round(delay_s, 2) for delay_s in delays_s],
        "exact": all(plant.told_number == plant.number for plant in plants),
    }
    print(json.dumps(found))
    return 0 if found["exact"] and max(delays_s) <= BAR_S else 1


if __name__ == "__main__":
    sys.exit(main())
