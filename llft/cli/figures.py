"""`llft figures`: the paper's evaluation, from journals alone.

Writes one page, a table as CSV for each figure, and its picture. What the journals do not show is said on the
page. Exit status: 0.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from llft.cli.arguments import add_json, add_spark


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "figures",
        help="the paper's evaluation, from journals",
        description="Latency by size and replicas, the price of an operation, view change and recovery, "
        "detection, lag of backups: as tables and pictures on one page.",
    )
    parser.add_argument(
        "paths", type=Path, nargs="+", metavar="PATH", help="journals, or directories of them"
    )
    parser.add_argument(
        "--output", type=Path, default=Path("llft-figures"), metavar="DIR", help="default: llft-figures"
    )
    add_spark(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Perform the verb; returns the exit status."""
    from llft.pipeline.session import spark_session

    with spark_session(master=arguments.master, memory=arguments.memory) as spark:
        from llft.pipeline.figures.page import all_figures, write_figures
        from llft.pipeline.ingest import read_journals

        records = read_journals(spark, arguments.paths).persist()
        figures = all_figures(records)
        records.unpersist()
        page = write_figures(figures, arguments.output)
    text = sys.stderr if arguments.json else sys.stdout
    for figure in figures:
        what = f"{len(figure.rows)} rows" if figure.rows else f"not shown: {figure.missing}"
        print(f"{figure.title}: {what}", file=text)
    print(f"see {page}", file=text)
    if arguments.json:
        found = {figure.name: [list(row) for row in figure.rows] for figure in figures}
        print(json.dumps({"figures": found, "page": str(page)}), flush=True)
    return 0
