"""A Spark session with no set-up: on this machine, or with `master` on a cluster, or as `spark-submit` says.

Times are UTC. What the Java side says goes to a log file, for it says much and means little; if Spark
does not start, the end of that file is in the error. To a cluster the package travels by itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

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
JAVA = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=256m"
}
"""Rows are worked on in Python: Java plans, and passes on sums or runs. Its second compiler and collector
threads take more than they give, from the workers on the same cores: in an audit's seconds, and in the first
half minute of a watch; later was not measured. The first compiler alone would have room for a few thousand
queries' code only: then it stops for good, and all that is new is interpreted. A metaspace that grows costs
a full collection each time."""
OF_THIS_MACHINE = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
WORKERS = {"spark.python.daemon.module": "llft.pipeline.daemon"}
"""Where this package is there before any worker is; to a cluster it travels later."""
PATIENCE = {"spark.storage.blockManagerHeartbeatTimeoutMs": "30d"}
"""The driver is its own executor. One that slept (a laptop, a stopped process) took that for lost, and ten
minutes later it ended: it cannot be taken in again on one machine."""
ENDING_S = 30.0
"""So long its connections may be closed before it is gone."""
OF_SPARK_SUBMIT = "PYSPARK_GATEWAY_PORT"
"""A variable: `spark-submit` has started this process, and Java before it."""


@contextmanager
def spark_session(
    *,
    master: str | None = None,
    memory: str = MEMORY,
    settings: Mapping[str, str] | None = None,
    local: str = LOCAL,
) -> Iterator[SparkSession]:
    """The session; stopped at the end. `settings` overrule our own, and so does what `spark-submit` was told.
    Where nobody names a master it is `local`. The log stays only if something broke."""
    _prepare()
    submitted = _submitted()
    master = master or submitted.get("spark.master") or local
    here = {**JAVA, **WORKERS, **PATIENCE} if _is_local(master) else {}
    ours = {**SETTINGS, **here, "spark.driver.memory": memory}
    chosen = {**ours, **submitted, **(settings or {}), "spark.master": master}
    with tempfile.NamedTemporaryFile(prefix="llft-spark-", suffix=".log", delete=False) as log:
        spark = _start(chosen, log)
    try:
        with _package_sent(spark):
            yield spark
    except MisuseError:
        os.unlink(log.name)
        raise
    except Exception as error:
        if _java_has_ended(within_s=ENDING_S if _is_broken(error) else 0):
            remedy = f"see {log.name}, and run it again: a campaign goes on where it was"
            raise MisuseError("spark-ended", remedy, why="its Java process is gone") from error
        error.add_note(f"what Spark said is in {log.name}")
        raise
    else:
        os.unlink(log.name)
    finally:
        if not _java_has_ended():
            spark.stop()


def _prepare() -> None:
    """What Spark needs is there, and it knows where; or MisuseError."""
    try:
        import pyspark  # noqa: F401
    except ImportError as error:
        raise MisuseError("spark-missing", MISSING, why=str(error)) from None
    os.environ["JAVA_HOME"] = java_home()
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable


def _submitted() -> dict[str, str]:
    """What `spark-submit` was told; nothing if this is none of its."""
    if OF_SPARK_SUBMIT not in os.environ:
        return {}
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()  # else there is nobody to ask
    return dict(SparkConf().getAll())


def _start(settings: Mapping[str, str], log: IO[bytes]) -> SparkSession:
    from pyspark.sql import SparkSession

    master = settings["spark.master"]
    if _is_local(master) or "127.0.0.1" in master:
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.appName("llft")
    here = OF_THIS_MACHINE if "SPARK_LOCAL_IP" in os.environ else {}
    for name, value in {**here, **settings}.items():
        builder = builder.config(name, value)
    try:
        with _stderr_to(log.fileno()):
            return builder.getOrCreate()
    except Exception as error:
        said = Path(log.name).read_text(encoding="utf-8", errors="replace")[-2000:]
        remedy = f"see {log.name}; memory and address in use are the usual causes"
        raise MisuseError("spark-did-not-start", remedy, master=master, why=f"{error}\n{said}") from error


def _is_broken(error: Exception) -> bool:
    """Java cannot be spoken with."""
    from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]

    return isinstance(error, (OSError, Py4JNetworkError))


def _java_has_ended(within_s: float = 0) -> bool:
    """It was killed, or ended by itself; that of `spark-submit` is not ours to ask."""
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    if process is None:
        return False
    try:
        process.wait(within_s)
    except subprocess.TimeoutExpired:
        return False
    return True


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


def _is_local(master: str) -> bool:
    return master.startswith("local") and not master.startswith("local-cluster")


@contextmanager
def _package_sent(spark: SparkSession) -> Iterator[None]:
    """To a cluster: this package as a zip file, which is what executors take. The file stays until the end,
    for an executor that comes later, in the place of one that was lost, fetches it then."""
    if _is_local(spark.conf.get("spark.master") or LOCAL):
        yield
        return
    root = Path(llft.__file__).parent
    with tempfile.TemporaryDirectory(prefix="llft-package-") as directory:
        target = Path(directory) / "llft.zip"
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(root.rglob("*.py")):
                archive.write(path, Path("llft") / path.relative_to(root))
        spark.addArtifacts(str(target), pyfile=True)
        yield
