"""On a real cluster: a master and two workers on loopback, one of which is killed in the middle.

The same commands as on one machine, with `--master` or through `spark-submit`; the package travels to the
executors by itself.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

import llft.cli.submit
from llft.pipeline.java import java_home

PATIENCE_S = 420.0
POLL_S = 0.2
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Seven Java processes on few processors, none for long: compiling well takes longer than it saves."""


@dataclass
class Cluster:
    url: str
    master: subprocess.Popen[bytes]
    workers: list[subprocess.Popen[bytes]]

    def kill_worker(self) -> None:
        """With everything it started: its executor is in the same process group."""
        os.killpg(self.workers[0].pid, signal.SIGKILL)
        self.workers[0].wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def start(log: Path, *arguments: str) -> subprocess.Popen[bytes]:
    environment = dict(os.environ, JAVA_HOME=java_home(), SPARK_LOCAL_IP="127.0.0.1", SPARK_NO_DAEMONIZE="1")
    environment |= {"PYSPARK_PYTHON": sys.executable, "SPARK_DAEMON_MEMORY": "256m"}
    environment["JDK_JAVA_OPTIONS"] = SHORT_LIVED
    spark_class = str(Path(sys.executable).with_name("spark-class"))
    with log.open("wb") as output:
        return subprocess.Popen(
            [spark_class, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            start_new_session=True,
        )


def wait_until_said(log: Path, pattern: str, count: int = 1) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while len(re.findall(pattern, log.read_text(errors="replace"))) < count:
        assert time.monotonic() < deadline_s, log.read_text(errors="replace")[-2000:]
        time.sleep(POLL_S)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    url = f"spark://127.0.0.1:{free_port()}"
    port = url.rpartition(":")[2]
    log = tmp_path / "master.log"
    ui = ["--webui-port", "0"]
    processes = [start(log, MASTER, "--host", "127.0.0.1", "--port", port, *ui)]
    try:
        wait_until_said(log, "New state: ALIVE")
        for number in (1, 2):
            place = ["-d", str(tmp_path / f"work-{number}"), "-c", "1", "-m", "1g", "--host", "127.0.0.1"]
            processes.append(start(tmp_path / f"worker-{number}.log", WORKER, *place, *ui, url))
        wait_until_said(log, "Registering worker", count=2)
        yield Cluster(url, processes[0], processes[1:])
    finally:
        for process in reversed(processes):
            with suppress(ProcessLookupError):  # the one that the test killed
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def command(*arguments: str) -> subprocess.Popen[str]:
    return popen([sys.executable, "-m", "llft.cli.main", *arguments])


def submitted(master: str, *arguments: str) -> subprocess.Popen[str]:
    spark_submit = str(Path(sys.executable).with_name("spark-submit"))
    return popen([spark_submit, "--master", master, llft.cli.submit.__file__, *arguments])


def popen(words: list[str]) -> subprocess.Popen[str]:
    environment = dict(os.environ, JDK_JAVA_OPTIONS=SHORT_LIVED, JAVA_HOME=java_home())
    environment |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def finish(process: subprocess.Popen[str]) -> dict[str, object]:
    output, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, errors[-3000:]
    found: dict[str, object] = json.loads(output.splitlines()[-1])
    return found


def test_campaign_and_audit_survive_a_worker(cluster: Cluster, tmp_path: Path) -> None:
    output = tmp_path / "campaign"
    what = ["--seeds", "0:12", "--profiles", "calm", "--batch", "1", "--output", str(output)]
    campaign = command("campaign", *what, "--master", cluster.url, "--json")
    try:
        deadline_s = time.monotonic() + PATIENCE_S
        while len(list(output.glob("outcomes/batch-*.json"))) < 2:
            assert campaign.poll() is None, campaign.communicate()[1][-3000:]
            assert time.monotonic() < deadline_s
            time.sleep(POLL_S)
        done = len(list(output.glob("outcomes/batch-*.json")))
        assert done < 12, "the worker must be killed in the middle"
        cluster.kill_worker()
        found = finish(campaign)
    finally:
        if campaign.poll() is None:
            campaign.kill()
            campaign.wait()
    assert (found["seeds"], found["violations"], found["disagreements"]) == (12, 0, 0)

    journals = tmp_path / "journals"
    subprocess.run(
        [sys.executable, "-m", "llft.cli.main", "simulate", "--seed", "0", "--journal", str(journals)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    audited = finish(submitted(cluster.url, "audit", str(journals / "seed-0"), "--json"))
    wait_until_said(tmp_path / "master.log", "Registered app", count=2)
    assert audited["violations"] == 0
    assert isinstance(audited["records"], int)
    assert audited["records"] > 1000
