"""Workers take Spark's Python modules from where they are installed, and from nowhere else."""

from __future__ import annotations

from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from llft.pipeline.daemon import take_installed_modules

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
