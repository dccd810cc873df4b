"""Which lane a process runs: never a compiled one of other sources, and never silently not the wanted one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from llft.lane import choice

ASK = "from llft.core import replica; from llft.lane import choice; print(choice.in_use(), replica.__file__)"
PACKAGE = Path(choice.SOURCES, "llft")


def asked(where: Path, lane: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(where)}
    environment.pop(choice.VARIABLE, None)
    if lane:
        environment[choice.VARIABLE] = lane
    return subprocess.run(
        [sys.executable, "-S", "-c", ASK],
        env=environment,
        cwd=where,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package with its compiled lane, somewhere else."""
    where = tmp_path_factory.mktemp("elsewhere")
    ignored = shutil.ignore_patterns("__pycache__", "pipeline", "simulator")
    shutil.copytree(PACKAGE, where / "llft", ignore=ignored)
    return where


def test_the_compiled_lane_is_the_default(copy: Path) -> None:
    lane, path = asked(copy).stdout.split()
    assert lane == "compiled"
    assert path.endswith(".so")


def test_the_reference_lane_on_request(copy: Path) -> None:
    lane, path = asked(copy, "reference").stdout.split()
    assert lane == "reference"
    assert path.endswith("replica.py")


def test_a_lane_that_does_not_exist_is_refused(copy: Path) -> None:
    assert "say compiled or reference" in asked(copy, "fast").stderr


def test_a_source_that_was_touched_is_the_same_source(copy: Path) -> None:
    os.utime(copy / "llft/core/inbox.py")
    assert asked(copy).stdout.startswith("compiled")


def test_a_source_that_has_changed_makes_the_lane_stale(copy: Path) -> None:
    source = copy / "llft/core/inbox.py"
    before = source.read_bytes()
    source.write_bytes(before.replace(b"self", b"this", 1))
    try:
        assert asked(copy).stdout.startswith("reference")
        insisted = asked(copy, "compiled")
        assert insisted.returncode
        assert "llft/core/inbox.py has changed since" in insisted.stderr
        assert "make setup" in insisted.stderr
    finally:
        source.write_bytes(before)


def test_a_library_that_does_not_load_is_as_good_as_none(copy: Path) -> None:
    (library,) = copy.rglob(f"{choice.GROUP}*")
    before = library.read_bytes()
    library.write_bytes(b"no library" * 1000)
    try:
        lane, path = asked(copy).stdout.split()
        assert lane == "reference"
        assert path.endswith("replica.py")
        assert "ImportError" in asked(copy, "compiled").stderr
    finally:
        library.write_bytes(before)


def test_another_interpreter_finds_no_lane_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys.implementation, "cache_tag", "cpython-99")
    assert choice.why_not() == "the compiled lane is not there"
