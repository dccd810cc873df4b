"""`llft tune`: heartbeat interval and timeouts, from the heartbeats that journals recorded.

Writes one page with its pictures. Exit status: 0; 2 if the journals have too few heartbeats. With `--json`
the last line of standard output is one object: `recommended`, `default_cost`, `recommended_cost`, and more.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from llft.cli.arguments import add_json, add_spark, positive_float

EXAMPLES = """\
examples:
  llft tune DIR                                 the journals of a group, or of many
  llft tune DIR --faults-per-year 50            hosts that fail once a week
  llft tune DIR --mistake-cost-s 10 --json      where a mistaken change of primary is dear
"""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "tune",
        help="timeouts that fit the heartbeats in journals",
        description="Fit the tail of heartbeat delays, and choose heartbeat interval and timeouts that "
        "minimise expected unavailability. Half of the data is held out to see what they would have done.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "paths", type=Path, nargs="+", metavar="PATH", help="journals, or directories of them"
    )
    parser.add_argument(
        "--output", type=Path, default=Path("llft-tune"), metavar="DIR", help="default: llft-tune"
    )
    parser.add_argument(
        "--faults-per-year",
        type=positive_float,
        default=12.0,
        metavar="N",
        help="of a replica, that only a timeout finds (default: 12)",
    )
    parser.add_argument(
        "--mistake-cost-s",
        type=positive_float,
        default=1.0,
        metavar="S",
        help="unavailability that a mistaken change costs (default: 1)",
    )
    parser.add_argument(
        "--min-interval-ms",
        type=positive_float,
        default=5.0,
        metavar="MS",
        help="no more heartbeats than one in so long (default: 5)",
    )
    add_spark(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Perform the verb; returns the exit status."""
    from llft.pipeline.session import spark_session

    with spark_session(master=arguments.master, memory=arguments.memory) as spark:
        from llft.pipeline.ingest import read_journals
        from llft.pipeline.tune.advice import advise, as_object, toml_lines
        from llft.pipeline.tune.cost import Assumptions, Choice
        from llft.pipeline.tune.page import advice_page, curve_chart, tail_chart, verdict
        from llft.runtime.settings import LIVE_TIMEOUTS

        default = Choice(
            LIVE_TIMEOUTS.heartbeat_interval_ns,
            LIVE_TIMEOUTS.primary_timeout_ns,
            LIVE_TIMEOUTS.backup_timeout_ns,
        )
        assumed = Assumptions(
            faults_per_year=arguments.faults_per_year,
            mistake_cost_s=arguments.mistake_cost_s,
            min_interval_ns=round(arguments.min_interval_ms * 1e6),
        )
        records = read_journals(spark, [str(path) for path in arguments.paths]).cache()
        advice = advise(records, default, assumed)
        records.unpersist()
    output: Path = arguments.output
    output.mkdir(parents=True, exist_ok=True)
    (output / "index.html").write_text(advice_page(advice), encoding="utf-8")
    (output / "curve.svg").write_text(curve_chart(advice), encoding="utf-8")
    (output / "tails.svg").write_text(tail_chart(advice.fitted), encoding="utf-8")
    text = sys.stderr if arguments.json else sys.stdout
    print(*toml_lines(advice.recommended.choice), sep="\n", file=text)
    print(f"{verdict(advice)}\nsee {output / 'index.html'}", file=text)
    if arguments.json:
        print(json.dumps(as_object(advice)), flush=True)
    return 0
