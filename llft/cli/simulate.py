"""`llft simulate`: seeds in, violations out.

Exit status: 0 if every property held in every seed, 1 if one did not, 2 for bad usage. With `--json` the
last line of standard output is one object; what people read goes to standard error then.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import time
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from llft.cli import reference_lane
from llft.cli.progress import ProgressBar
from llft.cli.seeds import Finding, Outcome, Summary, run_many
from llft.config import Replication, ThreadMode
from llft.errors import MisuseError

if TYPE_CHECKING:
    from llft.simulator.options import SimulationOptions

DEFAULT_SEEDS = range(100)
SHOWN_SEEDS = 10
MOST_SEEDS = 2**62
LIST = "list"

EXAMPLES = """\
examples:
  llft simulate --seeds 0:1000                     a thousand seeds on all processors
  llft simulate --seeds 0:200 --profile partition  only network partitions
  llft simulate --profile list                     what profiles there are
  llft simulate --seed 17 --trace                  one seed, every event of it
  llft simulate --seeds 0:500 --plant list         the planted bugs that the checkers must find
  llft simulate --seeds 0:100 --json | tail -1     for machines
"""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "simulate",
        help="run process groups in a deterministic world with faults, and check the paper's properties",
        description="Run process groups in a deterministic world with faults, and check the paper's "
        "properties. The same seed gives the same run, always.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--seeds", type=seed_range, metavar="A:B", help="seeds A to B-1 (default 0:100)")
    which.add_argument("--seed", type=_natural, metavar="N", help="this seed only")
    parser.add_argument("--trace", action="store_true", help="print every event (with --seed)")
    parser.add_argument(
        "--profile",
        metavar="NAME",
        help='the kinds of faults, or "list" (default: "default"; with --plant the one that shows it best)',
    )
    parser.add_argument("--topology", metavar="NAME", help='which groups there are, or "list"')
    parser.add_argument("--replicas", type=int, choices=range(1, 6), help="of every replicated group")
    parser.add_argument("--replication", choices=[kind.value for kind in Replication])
    parser.add_argument("--threads", choices=[mode.value for mode in ThreadMode])
    parser.add_argument("--plant", metavar="NAME", help='plant this bug, or "list"')
    parser.add_argument(
        "--jobs", type=_positive, default=os.cpu_count() or 1, help="processes (default: all)"
    )
    parser.add_argument("--journal", metavar="DIR", help="write the replicas' journals below DIR")
    parser.add_argument("--json", action="store_true", help="one object as the last line of standard output")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Perform the verb; returns the exit status."""
    wanted = _wanted_list(arguments)
    if wanted is not None:
        _print_list(*wanted, as_json=arguments.json)
        return 0
    seeds = _chosen_seeds(arguments)
    options = _options(arguments)
    text = sys.stderr if arguments.json else sys.stdout
    started_s = time.monotonic()
    summary = _simulate(seeds, options, jobs=arguments.jobs)
    seconds = round(time.monotonic() - started_s, 3)
    _print_findings(summary, arguments, text)
    _print_summary(summary, seconds, text)
    if arguments.json:
        print(json.dumps(_as_object(summary, seconds)), flush=True)
    return 1 if summary.violations else 0


def _simulate(seeds: range, options: SimulationOptions, *, jobs: int) -> Summary:
    from llft.simulator.runner import run_seed

    summary = Summary()
    bar = ProgressBar(len(seeds))
    # closing: an interrupt must reach the workers now, not when the generator is collected.
    with closing(run_many(run_seed, seeds, options, jobs=min(jobs, len(seeds)))) as outcomes:
        for outcome in outcomes:
            summary.add(outcome)
            bar.advance(f"{summary.violations} violations")
            _print_trace(outcome)
    bar.clear()
    return summary


def _print_trace(outcome: Outcome) -> None:
    for line in outcome.trace:
        print(line)


def _chosen_seeds(arguments: argparse.Namespace) -> range:
    if arguments.seed is not None:
        return range(arguments.seed, arguments.seed + 1)
    if arguments.trace:
        raise MisuseError("trace-of-many-seeds", "give the one to trace with --seed N")
    seeds: range = arguments.seeds or DEFAULT_SEEDS
    return seeds


def _options(arguments: argparse.Namespace) -> SimulationOptions:
    """Check every name before a process is started for it."""
    from llft.simulator.options import SimulationOptions
    from llft.simulator.profiles import PROFILES, TOPOLOGIES

    _require("profile", arguments.profile, PROFILES)
    _require("topology", arguments.topology, TOPOLOGIES)
    profile = arguments.profile or "default"
    if arguments.plant is not None:
        from llft.simulator.plants import PLANTS

        _require("plant", arguments.plant, PLANTS)
        reference_lane.insist()
        profile = arguments.profile or PLANTS[arguments.plant].profile
    if arguments.journal is not None:
        _make_journal_directory(Path(arguments.journal))
    return SimulationOptions(
        profile=profile,
        topology=arguments.topology,
        replicas=arguments.replicas,
        replication=arguments.replication,
        threads=arguments.threads,
        plant=arguments.plant,
        trace=arguments.trace,
        journal_dir=arguments.journal,
    )


def _require(what: str, name: str | None, known: Iterable[str]) -> None:
    if name is not None and name not in known:
        raise MisuseError(f"unknown-{what}", f"see llft simulate --{what} {LIST}", name=name)


def _make_journal_directory(directory: Path) -> None:
    """A journal is never written twice, so the directory must have none yet."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        occupied = any(directory.iterdir())
    except OSError as error:
        remedy = "give a directory that can be written"
        raise MisuseError("journal-directory-unusable", remedy, path=str(directory), why=str(error)) from None
    if occupied:
        raise MisuseError("journal-directory-not-empty", "give a new one", path=str(directory))


def _wanted_list(arguments: argparse.Namespace) -> tuple[str, list[tuple[str, str]]] | None:
    """The list asked for, as (what, rows of name and description)."""
    if arguments.plant == LIST:
        from llft.simulator.plants import PLANTS

        return "plants", [(plant.name, plant.description) for plant in PLANTS.values()]
    if arguments.profile == LIST:
        from llft.simulator.profiles import PROFILES

        return "profiles", [
            (profile.name, profile.description + ("" if profile.in_model else " (outside the model)"))
            for profile in PROFILES.values()
        ]
    if arguments.topology == LIST:
        from llft.simulator.profiles import TOPOLOGIES

        return "topologies", [(name, _first_line(value)) for name, value in TOPOLOGIES.items()]
    return None


def _first_line(documented: object) -> str:
    return (documented.__doc__ or "").strip().split("\n")[0]


def _print_list(what: str, rows: list[tuple[str, str]], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({what: [name for name, _ in rows]}))
        return
    width = max((len(name) for name, _ in rows), default=0)
    for name, description in rows:
        print(f"{name:<{width}}  {description}".rstrip())


def _print_findings(summary: Summary, arguments: argparse.Namespace, text: TextIO) -> None:
    """For each violating seed the shortest explanation it has, and how to see it again."""
    by_seed: dict[int, list[Finding]] = {}
    for finding in summary.findings:
        by_seed.setdefault(finding.seed, []).append(finding)
    for seed, findings in list(by_seed.items())[:SHOWN_SEEDS]:
        shortest = min(findings, key=lambda finding: len(finding.explanation))
        others = f" (and {len(findings) - 1} more in this seed)" if len(findings) > 1 else ""
        print(f"violation: seed {seed}: {shortest.property}{others}", file=text)
        for line in shortest.explanation.splitlines():
            print(f"  {line}", file=text)
        print(f"  replay: {replay_command(seed, arguments)}", file=text)
    if len(by_seed) > SHOWN_SEEDS:
        print(f"... and {len(by_seed) - SHOWN_SEEDS} or more seeds with violations", file=text)


def replay_command(seed: int, arguments: argparse.Namespace) -> str:
    """The command that shows this seed again, event by event."""
    words = ["llft", "simulate", "--seed", str(seed), "--trace"]
    if arguments.profile not in (None, "default"):
        words += ["--profile", arguments.profile]
    for name in ("topology", "replicas", "replication", "threads", "plant"):
        value = getattr(arguments, name)
        if value is not None:
            words += [f"--{name}", str(value)]
    return shlex.join(words)


def _print_summary(summary: Summary, seconds: float, text: TextIO) -> None:
    verdict = f"{summary.violations} violations" if summary.violations else "all properties held"
    done = (
        f"{summary.seeds} seeds, {summary.operations} operations, {summary.primary_failures} primary failures"
    )
    cost = f"{summary.simulated_ns / 1e9:.1f} simulated seconds in {seconds:.1f} s"
    print(f"{done}, {cost}: {verdict}", file=text)
    for category, count in sorted(summary.losses.items()):
        if count:
            print(f"  lost: {count} {category}", file=text)


def _as_object(summary: Summary, seconds: float) -> dict[str, Any]:
    first = summary.findings[0] if summary.findings else None
    return {
        "seeds": summary.seeds,
        "operations": summary.operations,
        "primary_failures": summary.primary_failures,
        "violations": summary.violations,
        "first_violation": {"seed": first.seed, "property": first.property} if first else None,
        "trace_hash": summary.trace_hash,
        "seconds": seconds,
        "losses": dict(sorted(summary.losses.items())),
        "resets": summary.resets,
    }


def _natural(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text} is negative")
    return number


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not positive")
    return number


def seed_range(text: str) -> range:
    first, colon, end = text.partition(":")
    if not (colon and first.isdecimal() and end.isdecimal() and int(first) < int(end)):
        raise argparse.ArgumentTypeError(f"{text!r} is not A:B with 0 <= A < B")
    if int(end) > MOST_SEEDS:
        raise argparse.ArgumentTypeError(f"{text!r} goes beyond the last seed, {MOST_SEEDS - 1}")
    return range(int(first), int(end))
