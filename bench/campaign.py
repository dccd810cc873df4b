"""Seeds per second of a campaign on Spark, against two plain processes on the same seeds.

    python bench/campaign.py [--seeds A:B]

Of the campaign both are told: simulating and judging, and with what there is to do behind it: settling
doubts, and summing up, which takes seconds in a new session, however many seeds there were. Starting Spark is
not counted; the first import of a worker is. The plain processes run before and behind it, and the faster of
the two counts: other work on the machine makes neither look better than it is. Where other
work takes the processors, CPU seconds tell more: those of all processes (Java, Python workers and this one).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.processes import cpu_s
from llft.cli.seed_work import replay_command, run_seed
from llft.cli.simulate import seed_range
from llft.pipeline.campaign.job import run_campaign
from llft.pipeline.campaign.outcome import Cell
from llft.pipeline.campaign.plan import Campaign, Directory
from llft.pipeline.campaign.summary import Summary, summarise
from llft.pipeline.session import spark_session

BATCH_SIZE = 16


class Taken(NamedTuple):
    seconds: float
    cpu_s: float


def plain(seeds: range) -> Taken:
    llft = [sys.executable, "-m", "llft.cli.main"]
    arguments = ["simulate", "--seeds", f"{seeds.start}:{seeds.stop}", "--jobs", "2", "--json"]
    cpu_before = cpu_s()
    done = subprocess.run([*llft, *arguments], check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return Taken(found["seconds"], cpu_s() - cpu_before)


def on_spark(seeds: range) -> tuple[Taken, float, Summary]:
    """The seconds of all of it, of simulating alone, and what was found."""
    campaign = Campaign((Cell("default"),), seeds.start, seeds.stop, BATCH_SIZE)
    with (
        tempfile.TemporaryDirectory() as output,
        spark_session(master="local[2,4]") as spark,
    ):
        directory = Directory(Path(output))
        begun_s, cpu_before = time.monotonic(), cpu_s()
        timing = run_campaign(spark, run_seed, campaign, directory, tell=lambda done: None)
        summary = summarise(spark, campaign, directory, replay_command)
        taken = Taken(time.monotonic() - begun_s, cpu_s() - cpu_before)
        return taken, timing.simulating_s, summary


def main() -> int:
    parser = argparse.ArgumentParser(description="A campaign against two plain processes.")
    parser.add_argument(
        "--seeds", type=seed_range, default=range(1000), metavar="A:B", help="default: 0:1000"
    )
    seeds: range = parser.parse_args().seeds
    before = plain(seeds)
    spark, simulating_s, summary = on_spark(seeds)
    behind = plain(seeds)
    fastest_s, least_cpu_s = min(before.seconds, behind.seconds), min(before.cpu_s, behind.cpu_s)
    rates = [len(seeds) / one for one in (before.seconds, behind.seconds, simulating_s, spark.seconds)]
    print(f"two plain processes: {rates[0]:.2f} seeds/s before, {rates[1]:.2f} behind")
    print(f"campaign, simulating and judging: {rates[2]:.2f} seeds/s, {fastest_s / simulating_s:.1%}")
    print(f"campaign, summed up: {rates[3]:.2f} seeds/s, {fastest_s / spark.seconds:.1%}")
    print(
        f"CPU seconds: {before.cpu_s:.1f} before, {behind.cpu_s:.1f} behind, campaign {spark.cpu_s:.1f}: "
        f"{least_cpu_s / spark.cpu_s:.1%}"
    )
    print(f"{summary.violation_count} violations, {summary.disagreement_count} disagreements")
    return 1 if summary.violation_count or summary.disagreement_count else 0


if __name__ == "__main__":
    sys.exit(main())
