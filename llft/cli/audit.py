"""`llft audit`: the paper's properties, judged on the journals of a fleet, with Spark.

Exit status: 0 if all hold, 1 if one does not, 2 for bad usage. With `--json` the last line of standard
output is one object; what people read goes to standard error then."""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from llft.cli.arguments import add_json, add_spark
from llft.errors import MisuseError

if TYPE_CHECKING:
    from llft.pipeline.audit.command import Verdict

STORE = ".llft-audit"
SHOWN_FINDINGS = 20

EXAMPLES = """\
examples:
  llft audit runs/journal                         judge what the replicas wrote
  llft audit runs --group 100 --since 2026-01-31  one group, from that day on
  llft audit runs --json | tail -1                for machines
"""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "audit",
        help="judge the journals of a fleet, with Spark",
        description="Whether the paper's theorems and the other properties hold in journals of any number of "
        "groups and hosts. What was read is kept beside them, so that a second run reads only what is new.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "paths", type=Path, nargs="+", metavar="PATH", help="journals, or directories that have some"
    )
    parser.add_argument(
        "--group", type=int, action="append", default=[], metavar="ID", help="only this group"
    )
    parser.add_argument(
        "--since", type=moment_ns, metavar="TIME", help="only findings from then on (ISO 8601, UTC)"
    )
    parser.add_argument("--until", type=moment_ns, metavar="TIME", help="only findings before")
    parser.add_argument(
        "--store", type=Path, metavar="DIR", help=f"where to keep it (default: {STORE} below PATH)"
    )
    add_spark(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def moment_ns(text: str) -> int:
    """2026-01-31, or 2026-01-31T12:00:00; in UTC unless it says otherwise."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no time like 2026-01-31T12:00:00") from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return int(moment.timestamp()) * 1_000_000_000 + moment.microsecond * 1000


def run(arguments: argparse.Namespace) -> int:
    """Perform the verb; returns the exit status."""
    from llft.pipeline.session import spark_session

    for path in arguments.paths:
        if not path.exists():
            raise MisuseError("no-such-path", "give journals, or a directory that has some", path=str(path))
    with suppress(ImportError):  # without Spark, which is said below
        from llft.pipeline.ingest import journal_files

        journal_files(arguments.paths)  # before Java is started for nothing
    first = arguments.paths[0]
    store = arguments.store or (first if first.is_dir() else first.parent) / STORE
    with spark_session(master=arguments.master, memory=arguments.memory) as spark:
        from llft.pipeline.audit.command import Question, audit

        asked = Question(arguments.paths, store, arguments.group, arguments.since, arguments.until)
        verdict = audit(spark, asked)
    print_verdict(verdict, sys.stderr if arguments.json else sys.stdout)
    if arguments.json:
        print(verdict.to_json(), flush=True)
    return 1 if verdict.violations else 0


def print_verdict(verdict: Verdict, text: TextIO) -> None:
    print(
        f"{verdict.records} records of {verdict.groups} groups ({verdict.new_records} new), "
        f"{verdict.quarantined} quarantined, in {verdict.seconds:.1f} s",
        file=text,
    )
    for finding in verdict.shown[:SHOWN_FINDINGS]:
        severity = "VIOLATED" if finding["severity"] == "violation" else finding["severity"]
        print(f"{severity} {finding['condition']}: {finding['explanation']}", file=text)
    total = sum(verdict.findings.values())
    if total > SHOWN_FINDINGS:
        print(f"... and {total - SHOWN_FINDINGS} more findings", file=text)
    for condition, count in verdict.findings.items():
        print(f"  {count} {condition}", file=text)
    print(f"report: {verdict.report}", file=text)
    print(f"{verdict.violations} violations" if verdict.violations else "all properties hold", file=text)
