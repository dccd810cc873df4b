"""Which Java runs Spark, and what is said where there is none, or no Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from llft.errors import MisuseError
from llft.pipeline import java


def make_java(home: Path, version: str) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        f'#!/bin/sh\n[ "$1" = -version ] && echo \'openjdk version "{version}"\' >&2 && exit 0\n'
        'for word in "$@"; do echo "<$word>"; done\n',
        encoding="ascii",
    )
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(("text", "major"), [("17.0.15", 17), ("1.8.0_292", 8), ("25", 25), ("21-ea", 21)])
def test_versions_are_understood(tmp_path: Path, text: str, major: int) -> None:
    assert java.major_version(str(make_java(tmp_path, text))) == major


def test_what_does_not_run_is_no_java(tmp_path: Path) -> None:
    assert java.major_version(str(tmp_path / "nothing")) == 0


def test_the_systems_java_is_taken_if_it_is_new_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_java(tmp_path / "new", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "new"))
    assert java.java_home() == str(tmp_path / "new")


def test_an_old_java_is_passed_over_for_that_of_pypi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_java(tmp_path / "old", "11.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", str(tmp_path / "old" / "bin") + ":/usr/bin:/bin")
    monkeypatch.setattr(java.shutil, "which", lambda name: str(tmp_path / "old" / "bin" / "java"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    home = java.java_home()
    assert home.startswith(str(tmp_path / "cache"))
    assert java.major_version(f"{home}/bin/java") >= java.OLDEST_JAVA


def test_without_any_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(java.shutil, "which", lambda name: None)
    monkeypatch.setattr(java, "find_spec", lambda name: None)
    with pytest.raises(MisuseError, match="pip install"):
        java.java_home()


def test_the_wrapper_drops_one_word_and_keeps_the_rest(tmp_path: Path) -> None:
    real = make_java(tmp_path / "real one", "25.0.1")
    home = java.wrap(str(real), tmp_path / "home")
    words = ["-cp", "a b", java.UNWANTED, "Main", "--x=$HOME", "*"]
    answer = subprocess.run([home / "bin" / "java", *words], capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines() == ["<-cp>", "<a b>", "<Main>", "<--x=$HOME>", "<*>"]


@pytest.mark.parametrize("verb", ["audit", "watch"])
def test_without_spark_the_verb_says_how_to_get_it(tmp_path: Path, verb: str) -> None:
    hidden = "import sys; sys.modules['pyspark'] = None"
    program = f"{hidden}\nfrom llft.cli.main import main\nsys.exit(main(['{verb}', '.']))"
    answer = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert answer.returncode == 2
    assert "pip install 'llft[pipeline]'" in answer.stderr


def test_the_command_line_does_not_load_spark() -> None:
    program = "import sys, llft.cli.main, llft.cli.replica_process; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True).returncode == 0


def test_a_java_that_ends_is_told_with_the_remedy() -> None:
    program = """
import os, signal, subprocess
from llft.pipeline.session import spark_session

with spark_session() as spark:
    [java] = subprocess.check_output(["pgrep", "-P", str(os.getpid()), "java"]).split()
    os.kill(int(java), signal.SIGKILL)
    spark.range(1).count()
"""
    ended = subprocess.run([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True, timeout=120)
    assert ended.returncode == 1
    assert "spark-ended" in ended.stderr
    assert "goes on where it was" in ended.stderr


def test_a_session_that_slept_is_not_taken_for_lost(spark: SparkSession) -> None:
    assert spark.conf.get("spark.storage.blockManagerHeartbeatTimeoutMs") == "30d"
