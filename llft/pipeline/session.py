"""A Spark session with no set-up: on this machine, or with `master` on a cluster.

Times are UTC. What the Java side says goes to a log file, for it says much and means little; if Spark
does not start, the end of that file is in the error. To a cluster the package travels by itself.
"""

from __future__ import annotations

import os
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import llft
from llft.errors import MisuseError
from llft.pipeline.java import java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MISSING = "pip install 'llft[pipeline]'"
LOCAL = "local[*]"
MEMORY = "2g"

SETTINGS = {
    "spark.log.level": "ERROR",
    "spark.python.unix.domain.socket.enabled": "true",  # a task costs a quarter of what it costs over TCP
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "4",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
OF_THIS_MACHINE = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}


@contextmanager
def spark_session(
    *,
    master: str | None = None,
    memory: str = MEMORY,
    settings: Mapping[str, str] | None = None,
) -> Iterator[SparkSession]:
    """The session; stopped at the end. `settings` overrule our own."""
    spark = start_session(master=master, memory=memory, settings=settings)
    try:
        yield spark
    finally:
        spark.stop()


def start_session(
    *,
    master: str | None = None,
    memory: str = MEMORY,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """For those who stop it themselves; else see `spark_session`."""
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise MisuseError("spark-missing", MISSING, why=str(error)) from None
    chosen = master or LOCAL
    os.environ["JAVA_HOME"] = java_home()
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    is_local = chosen.startswith("local")
    if is_local or "127.0.0.1" in chosen:
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.appName("llft").master(chosen).config("spark.driver.memory", memory)
    ours = {**SETTINGS, **(OF_THIS_MACHINE if "SPARK_LOCAL_IP" in os.environ else {}), **(settings or {})}
    for name, value in ours.items():
        builder = builder.config(name, value)
    log_fd, log_path = tempfile.mkstemp(prefix="llft-spark-", suffix=".log")
    try:
        with _stderr_to(log_fd):
            spark = builder.getOrCreate()
    except Exception as error:
        said = Path(log_path).read_text(encoding="utf-8", errors="replace")[-2000:]
        remedy = f"see {log_path}; memory and address in use are the usual causes"
        raise MisuseError("spark-did-not-start", remedy, master=chosen, why=f"{error}\n{said}") from error
    finally:
        os.close(log_fd)
    if not is_local:
        spark.addArtifacts(str(_packed()), pyfile=True)
    return spark


@contextmanager
def _stderr_to(log_fd: int) -> Iterator[None]:
    """Whatever is started meanwhile keeps the file as its standard error: the Java side and its workers."""
    sys.stderr.flush()
    kept = os.dup(2)
    os.dup2(log_fd, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _packed() -> Path:
    """This package as a zip file, which is what executors take."""
    root = Path(llft.__file__).parent
    target = Path(tempfile.mkdtemp(prefix="llft-package-")) / "llft.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(root.rglob("*.py")):
            archive.write(path, Path("llft") / path.relative_to(root))
    return target
