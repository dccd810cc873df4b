"""Workers take Spark's Python modules from where they are installed, and from nowhere else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from llft.pipeline.campaign.job import wanted_early
from llft.pipeline.daemon import EARLY, OF_EVERY_WORKER, take_installed_modules
from tests.pipeline import campaign_seeds

HOME = Path(pyspark.__file__).parent
ZIPS = [str(HOME / "python" / "lib" / name) for name in ("pyspark.zip", "py4j-0.10-src.zip")]


def test_zip_files_of_the_installed_pyspark_are_left_out() -> None:
    path = ["/first", *ZIPS, "/last"]
    take_installed_modules(path)
    assert path == ["/first", "/last"]


def test_another_pyspark_stays_in_front() -> None:
    other = ["/opt/spark/python/lib/pyspark.zip", *ZIPS, "/last"]
    path = list(other)
    take_installed_modules(path)
    assert path == other


def test_workers_have_the_installed_modules(spark: SparkSession) -> None:
    def where(_: int) -> str:
        import pyspark.worker

        return pyspark.worker.__file__

    assert spark.sparkContext.parallelize([0], 1).map(where).collect() == [str(HOME / "worker.py")]


# -- what is imported before workers are forked --------------------------------------------------------

IMPORT_EARLY = """
import os, sys
from llft.pipeline.daemon import import_early
import_early(sys.argv[1].split(","))
print(len(os.listdir("/proc/self/task")), *(name in sys.modules for name in sys.argv[1].split(",")))
"""


def imported_early(names: str) -> str:
    """In a process as a daemon is: Spark tells each of its own that it has one processor."""
    command = [sys.executable, "-c", IMPORT_EARLY, names]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_what_a_campaign_wants_early_starts_no_thread() -> None:
    """A fork takes one thread along, and the locks of all."""
    wanted = wanted_early(campaign_seeds.orderly)
    assert imported_early(f"{OF_EVERY_WORKER},{wanted}") == "1 True True True"


def test_what_a_daemon_does_not_find_is_left_to_its_workers() -> None:
    assert imported_early("nobody.has_this,json") == "1 False True"


def test_workers_are_born_with_what_the_job_wants(spark: SparkSession) -> None:
    def ancestry(_: int) -> list[bool]:
        import gc
        import sys

        return [name in sys.modules for name in ("colorsys", "pyspark.worker")] + [gc.get_freeze_count() > 0]

    spark.sparkContext.environment[EARLY] = "colorsys"
    try:
        born = spark.sparkContext.parallelize([0], 1).map(ancestry).collect()
    finally:
        del spark.sparkContext.environment[EARLY]
    assert born == [[True, True, True]]
