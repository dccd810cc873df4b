"""`llft campaign`: simulation campaigns on Spark, judged by the simulator's checkers and by the audit.

Exit status: 0 if every property held in every seed and both judges agree, 1 if not, 2 for bad usage. A
campaign that was interrupted goes on where it stopped if it is started again. With `--json` the last line of
standard output is one object: `seeds`, `violations`, `disagreements`, `seconds`, and more.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from llft.cli import reference_lane
from llft.cli.arguments import add_json, add_spark, positive
from llft.cli.progress import ProgressBar
from llft.cli.simulate import seed_range
from llft.errors import MisuseError

if TYPE_CHECKING:
    from llft.pipeline.campaign.job import Timing
    from llft.pipeline.campaign.outcome import Cell
    from llft.pipeline.campaign.summary import Summary

BATCH_SIZE = 16
"""Seeds of one task: some seconds of work, and a hundred thousand rows of journal."""
SHOWN = 10
RETRIES = 8
"""Of a task. A local master has none unless it is told."""

EXAMPLES = """\
examples:
  llft campaign --seeds 0:20000                                    every in-model fault
  llft campaign --seeds 0:2000 --profiles crash,loss --replicas 2,3
  llft campaign --seeds 0:500 --profiles lost-client,lost-client-level1      what output commit is for
  llft campaign --seeds 0:100000 --master spark://host:7077 --output /shared/campaign
"""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "campaign",
        help="thousands of simulated runs on Spark, judged by checkers and audit",
        description="Run seeds of the deterministic simulator on Spark executors, keep their journals as "
        "Parquet, "
        "have the audit judge them, and sum up. Start it again to go on where it stopped.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seeds", type=seed_range, default=range(100), metavar="A:B", help="default: 0:100")
    parser.add_argument(
        "--profiles", default="default", metavar="NAMES", help='by commas (default: "default")'
    )
    parser.add_argument("--replicas", metavar="NUMBERS", help="by commas (default: drawn from the seed)")
    parser.add_argument("--plant", metavar="NAME", help="plant this bug (llft simulate --plant list)")
    parser.add_argument(
        "--output", type=Path, default=Path("llft-campaign"), metavar="DIR", help="default: llft-campaign"
    )
    parser.add_argument("--batch", type=positive, default=BATCH_SIZE, metavar="N", help="seeds of one task")
    parser.add_argument(
        "--keep-journals", action="store_true", help="also of batches in which nothing was found"
    )
    add_spark(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Perform the verb; returns the exit status."""
    cells = _cells(arguments)
    from llft.pipeline.session import spark_session

    started_s = time.monotonic()
    local = f"local[*,{RETRIES}]"
    with spark_session(master=arguments.master, memory=arguments.memory, local=local) as spark:
        from llft.cli.seed_work import replay_command, run_seed
        from llft.pipeline.campaign.job import run_campaign
        from llft.pipeline.campaign.page import write_page
        from llft.pipeline.campaign.plan import Campaign, Directory
        from llft.pipeline.campaign.summary import summarise

        seeds: range = arguments.seeds
        campaign = Campaign(cells, seeds.start, seeds.stop, arguments.batch)
        directory = Directory(arguments.output.resolve())
        bar = _Bar(campaign.seed_count)
        timing = run_campaign(
            spark, run_seed, campaign, directory, tell=bar.tell, keep_journals=arguments.keep_journals
        )
        bar.clear()
        summary = summarise(spark, campaign, directory, replay_command)
    page = write_page(summary, directory.path)
    seconds = round(time.monotonic() - started_s, 3)
    text = sys.stderr if arguments.json else sys.stdout
    _print(summary, timing, seconds, text)
    print(f"see {page}", file=text)
    if arguments.json:
        print(json.dumps(as_object(summary, timing, seconds)), flush=True)
    return 1 if summary.violation_count or summary.disagreement_count else 0


def _cells(arguments: argparse.Namespace) -> tuple[Cell, ...]:
    """Profiles by replicas. Every name is checked before anything is started for it."""
    from llft.pipeline.campaign.outcome import Cell
    from llft.simulator.plants import PLANTS
    from llft.simulator.profiles import PROFILES

    profiles = [name.strip() for name in arguments.profiles.split(",")]
    for name in profiles:
        if name not in PROFILES:
            raise MisuseError("unknown-profile", "see llft simulate --profile list", name=name)
    if arguments.plant is not None and arguments.plant not in PLANTS:
        raise MisuseError("unknown-plant", "see llft simulate --plant list", name=arguments.plant)
    if arguments.plant is not None:
        reference_lane.insist()
    numbers: list[int | None] = [None]
    if arguments.replicas is not None:
        numbers = [_replicas(text) for text in arguments.replicas.split(",")]
    return tuple(Cell(profile, number, arguments.plant) for profile in profiles for number in numbers)


def _replicas(text: str) -> int:
    if not text.strip().isdecimal() or not 1 <= int(text) <= 5:
        raise MisuseError("bad-number-of-replicas", "1 to 5, by commas", found=text)
    return int(text)


class _Bar:
    """A progress bar that is told how many are done, and not that one more is."""

    def __init__(self, total: int) -> None:
        self._bar = ProgressBar(total)
        self._done = 0

    def tell(self, done: int) -> None:
        while self._done < done:
            self._done += 1
            self._bar.advance("simulating")

    def clear(self) -> None:
        self._bar.clear()


def _print(summary: Summary, timing: Timing, seconds: float, text: TextIO) -> None:
    for violation in summary.violations[:SHOWN]:
        where = f"{violation.cell.profile}, seed {violation.seed}"
        print(f"violation: {where}: {violation.property} (found by the {violation.found_by})", file=text)
        print(f"  {violation.explanation}\n  replay: {violation.replay}", file=text)
    for one in summary.disagreements[:SHOWN]:
        print(f"disagreement: {one.cell.profile}, seed {one.seed}: {one.explanation}", file=text)
    for kind in summary.kinds:
        times = ", ".join(f"{ms:.1f}" for ms in kind.failover_ms) or "none"
        print(
            f"{kind.profile}, {kind.replicas} replicas, output commit {kind.output_commit}: {kind.seeds} "
            "seeds, "
            f"fail-over p50, p90, p99, max {times} ms; {kind.lost} of {kind.acknowledged} acknowledged "
            "operations "
            f"lost (probability below {kind.loss_bound:.2g})",
            file=text,
        )
    print(
        f"{summary.seeds} seeds, {summary.operations} operations, {summary.primary_failures} primary "
        "failures: "
        f"{summary.violation_count} violations, {summary.disagreement_count} disagreements; {seconds:.1f} "
        "s, of which "
        f"{timing.simulating_s:.1f} simulating and {timing.judging_s:.1f} judging",
        file=text,
    )


def as_object(summary: Summary, timing: Timing, seconds: float) -> dict[str, Any]:
    return {
        "seeds": summary.seeds,
        "violations": summary.violation_count,
        "disagreements": summary.disagreement_count,
        "seconds": seconds,
        "operations": summary.operations,
        "primary_failures": summary.primary_failures,
        "simulating_s": round(timing.simulating_s, 3),
        "judging_s": round(timing.judging_s, 3),
        "simulated_now": timing.simulated_seeds,
        "cpu_s": round(summary.cpu_s, 3),
        "trace": summary.trace,
        "losses": [
            {
                "profile": kind.profile,
                "replicas": kind.replicas,
                "output_commit": kind.output_commit,
                "acknowledged": kind.acknowledged,
                "lost": kind.lost,
                "failover_ms": list(kind.failover_ms),
            }
            for kind in summary.kinds
        ],
    }
