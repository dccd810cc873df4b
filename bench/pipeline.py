"""What the audit costs: the central check and all checks, on a synthetic fleet, beside DuckDB on the same
files.

    python bench/pipeline.py [--rows N ...] [--keep DIR] [--repeat N] [--parts | --kernel]

A fleet of 64 server groups of three replicas and as many clients, each with its own connections. In one
server a replica performs another operation than its peers at one order number, which every run must find:
an answer that is fast and wrong counts for nothing. Figures are of a warm session:

    central   all replicas agree on sequence and digests, the first divergence named: fingerprints by count,
              exclusive or and addition, memberships against what there is, and the drill; rows per CPU
              second, of which only those are counted that are compared (Operated, Sent, ClockRead)
    all       every check of `llft audit`; rows per second of wall time
    DuckDB    the central check as one GROUP BY over the same Parquet files, in two threads
    parts     how long each check takes by itself
    kernel    what workers do for the central check, in this process and without Spark

CPU seconds are those of all processes (Java, Python workers and this one), from /proc.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import duckdb
from pyspark.sql import SparkSession

from bench.fleet.synthetic import DONE, PLANTED_GROUP, PLANTED_NUMBER, PLANTED_REPLICA, write_fleet
from bench.processes import cpu_s, process_tree
from llft.pipeline.audit import agreement
from llft.pipeline.audit.checks import Case, findings, parts
from llft.pipeline.audit.outline import GATHERING
from llft.pipeline.audit.prints import COMPARED, PRINTING
from llft.pipeline.layout import parquet_files
from llft.pipeline.scan import Rows
from llft.pipeline.schema import RECORD_SCHEMA
from llft.pipeline.session import spark_session

CENTRAL_BAR, ALL_BAR, MEMORY_BAR_GB = 7.0, 1.5, 6.0
NO_QUARANTINE = (
    "world long, source string, place long, process long, group_id long, wall_ns long, reason string, "
    "size long, sample string"
)


def peak_gb() -> float:
    total = 0
    for pid in process_tree():
        try:
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    return total / 1e6


def measured(work: Callable[[], Any], repeat: int) -> tuple[Any, float, float]:
    """The answer, and the least wall and CPU seconds of the repetitions behind a first one that warms up."""
    answer = work()
    walls, cpus = [], []
    for _ in range(repeat):
        started_s, cpu_before = time.perf_counter(), cpu_s()
        answer = work()
        walls.append(time.perf_counter() - started_s)
        cpus.append(cpu_s() - cpu_before)
    return answer, min(walls), min(cpus)


def case_of(spark: SparkSession, fleet: Path) -> Case:
    """Made anew each time: the second use of a DataFrame skips what it has shuffled."""
    records = spark.read.schema(RECORD_SCHEMA).parquet(str(fleet))
    return Case(records, spark.createDataFrame([], NO_QUARANTINE), files=parquet_files(str(fleet)))


def central(case: Case) -> list[Any]:
    found = [one for one in case.outline.findings.to_pylist() if one["condition"] == "coverage"]
    if case.outline.suspects.num_rows:
        found += agreement.divergences(case.rows, case.outline, case.lives).collect()
    return found


def every_check(case: Case) -> list[Any]:
    try:
        return findings(case).collect()
    finally:
        case.release()


def seconds_by_part(case: Case) -> dict[str, float]:
    """Of a warm session. What several need is made by the first of them."""
    seconds = {}
    for name, part in parts(case):
        started_s = time.perf_counter()
        part().collect()
        seconds[name] = round(time.perf_counter() - started_s, 2)
    case.release()
    return seconds


def sum_files(fleet: Path) -> int:
    """Rare records and fingerprints of all files, as workers make them; returns how many rows that were."""
    rows = Rows(None, parquet_files(str(fleet)))  # type: ignore[arg-type]
    for one in (GATHERING, PRINTING):
        prints = list(rows.read(one))
    return sum(sum(each.column("rows").to_pylist()) for each in prints)


def kernel_alone(fleet: Path, repeat: int) -> dict[str, float]:
    compared, _, kernel_cpu_s = measured(lambda: sum_files(fleet), repeat)
    return {
        "compared_rows": compared,
        "kernel_cpu_s": round(kernel_cpu_s, 2),
        "ns_per_row": round(kernel_cpu_s / compared * 1e9, 1),
    }


def in_duckdb(directory: str) -> list[Any]:
    """The same question in the same two steps: sums by life and 4096 order numbers, then the rows of those
    that differ."""
    rows = f"SELECT * FROM '{directory}/*.parquet' WHERE kind IN {COMPARED}"
    return duckdb.sql(
        f"""
        WITH rows AS ({rows}), prints AS (
            SELECT group_id, kind, process, life, order_seq_num >> 12 AS bucket, count(*) AS n,
                   bit_xor(hash(order_seq_num, content)) AS x, sum(hash(order_seq_num, content) >> 20) AS s
            FROM rows GROUP BY ALL
        ), suspects AS (
            SELECT group_id, kind, bucket FROM prints GROUP BY ALL
            HAVING min(n) != max(n) OR min(x) != max(x) OR min(s) != max(s)
        )
        SELECT group_id, kind, min(order_seq_num) FROM (
            SELECT group_id, kind, order_seq_num FROM rows
            WHERE (group_id, kind, order_seq_num >> 12) IN (SELECT (group_id, kind, bucket) FROM suspects)
            GROUP BY ALL HAVING min(content) != max(content)
        ) GROUP BY ALL
        """
    ).fetchall()


def run(spark: SparkSession, directory: Path, repeat: int) -> dict[str, Any]:
    records = case_of(spark, directory).records
    count = records.count()
    compared = records.filter(f"kind IN {COMPARED}").count()
    answer, central_s, central_cpu_s = measured(lambda: central(case_of(spark, directory)), repeat)
    places = [(one["group_id"], one["order_seq_num"]) for one in answer]
    assert places == [(PLANTED_GROUP, PLANTED_NUMBER)], answer
    answer, all_s, all_cpu_s = measured(lambda: every_check(case_of(spark, directory)), repeat)
    found = [(one["condition"], one["group_id"], one["order_seq_num"], one["replica"]) for one in answer]
    assert found == [("theorem2", PLANTED_GROUP, PLANTED_NUMBER, PLANTED_REPLICA)], found
    peak = peak_gb()
    duckdb.sql("SET threads = 2")
    answer, duckdb_s, duckdb_cpu_s = measured(lambda: in_duckdb(str(directory)), repeat)
    assert answer == [(PLANTED_GROUP, "Operated", PLANTED_NUMBER)], answer
    return {
        "rows": count,
        "compared_rows": compared,
        "central_s": round(central_s, 2),
        "central_cpu_s": round(central_cpu_s, 2),
        "compared_rows_per_cpu_s": round(compared / central_cpu_s),
        "all_s": round(all_s, 2),
        "all_cpu_s": round(all_cpu_s, 2),
        "all_rows_per_s": round(count / all_s),
        "duckdb_s": round(duckdb_s, 2),
        "duckdb_cpu_s": round(duckdb_cpu_s, 2),
        "spark_cpu_per_duckdb_cpu": round(central_cpu_s / max(duckdb_cpu_s, 0.01), 1),
        "peak_gb": round(peak, 2),
    }


def is_good(found: dict[str, Any]) -> bool:
    central = found["compared_rows_per_cpu_s"] >= CENTRAL_BAR * 1e6
    return central and found["all_rows_per_s"] >= ALL_BAR * 1e6 and found["peak_gb"] <= MEMORY_BAR_GB


def main() -> int:
    parser = argparse.ArgumentParser(description="What the audit costs.")
    parser.add_argument("--rows", type=int, nargs="+", default=[20_000_000])
    parser.add_argument("--keep", type=Path, help="where the fleet's journals are, or are to stay")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--parts", action="store_true", help="only how long each check takes by itself")
    parser.add_argument("--kernel", action="store_true", help="only what workers do, without Spark")
    arguments = parser.parse_args()
    directory = arguments.keep or Path(tempfile.mkdtemp(prefix="llft-bench-"))
    fleets = [directory / str(rows) for rows in arguments.rows]
    good = True
    try:
        for rows, fleet in zip(arguments.rows, fleets, strict=True):
            if not (fleet / DONE).exists():
                write_fleet(rows, fleet)
        if arguments.kernel:
            for fleet in fleets:
                print(json.dumps(kernel_alone(fleet, arguments.repeat)), flush=True)
            return 0
        with spark_session(master="local[2]", memory="3g") as spark:
            for fleet in fleets:
                if arguments.parts:
                    seconds_by_part(case_of(spark, fleet))
                    print(json.dumps(seconds_by_part(case_of(spark, fleet))), flush=True)
                    continue
                found = run(spark, fleet, arguments.repeat)
                print(json.dumps(found), flush=True)
                good &= is_good(found)
    finally:
        if arguments.keep is None:
            shutil.rmtree(directory)
    if not arguments.parts:
        print("every bar is met" if good else "A BAR IS NOT MET")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
