"""How the native parts are compiled, or not; and when the pulse speaks."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from llft.instant import MS
from llft.runtime.native import build
from llft.runtime.native.pulse import SLOTS, Rhythm
from llft.runtime.settings import LIVE_TIMEOUTS

TO_THE_OUTPUT = 'while [ "$1" != -o ]; do shift; done'
"""In a shell: the output's name is the second argument then, and the source's the third."""


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A source of its own, beside which nothing is compiled yet."""
    path = tmp_path / "native" / "pulse.c"
    path.parent.mkdir()
    path.write_text("int pulse_start(void) { return 0; }\n")
    monkeypatch.setattr(build, "SOURCES", (str(path),))
    monkeypatch.setattr(build, "HEADERS", ())
    return path


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """With one compiler, which copies its source and counts its calls."""
    path = tmp_path / "bin" / "cc"
    path.parent.mkdir()
    count = f"echo called >> {tmp_path}/calls"
    path.write_text(f'#!/bin/sh\n{count}\n{TO_THE_OUTPUT}\nread line < "$3"; echo "$line" > "$2"\n')
    path.chmod(0o755)
    return {"PATH": str(path.parent), "HOME": str(tmp_path / "home")}


def test_it_is_compiled_once_beside_its_source(source: Path, environment: dict[str, str]) -> None:
    path, reason = build.build(environment)
    assert (Path(path).parent, reason) == (source.parent, "")
    assert build.library() == path
    assert build.build(environment) == (path, "")
    assert (source.parents[1] / "calls").read_text() == "called\n"
    assert sorted(os.listdir(source.parent)) == [Path(path).name, "pulse.c"]


def test_another_source_is_another_library(source: Path, environment: dict[str, str]) -> None:
    before, _ = build.build(environment)
    source.write_text("int pulse_start(void) { return 1; }\n")
    assert build.library() == ""
    assert build.build(environment)[0] not in ("", before)


def test_without_a_compiler_there_is_a_reason(
    source: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert build.build({"PATH": str(source.parent)}) == ("", "there is no C compiler (cc)")
    monkeypatch.setattr(os, "environ", {"PATH": str(source.parent)})
    assert build.main() == 0
    assert "no native parts: there is no C compiler" in capsys.readouterr().out


def test_a_compiler_that_fails_leaves_nothing(source: Path, environment: dict[str, str]) -> None:
    Path(environment["PATH"], "cc").write_text(f'#!/bin/sh\n{TO_THE_OUTPUT}\n: > "$2"; exit 3\n')
    path, reason = build.build(environment)
    assert path == ""
    assert "failed with status 3" in reason
    assert os.listdir(source.parent) == ["pulse.c"]


def test_a_compiler_that_never_ends_is_ended(
    source: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "COMPILE_BOUND_S", 0.05)
    Path(environment["PATH"], "cc").write_text("#!/bin/sh\nexec /bin/sleep 60\n")
    assert "failed with status -9" in build.build(environment)[1]


def test_code_is_not_loaded_from_where_others_write(source: Path, environment: dict[str, str]) -> None:
    cache = Path(environment["HOME"], ".cache", "llft")
    assert list(build.directories(environment)) == [str(source.parent), str(cache)]
    cache.mkdir(parents=True)
    cache.chmod(0o777)
    assert list(build.directories(environment)) == [str(source.parent)]
    cache.chmod(0o700)
    assert list(build.directories(environment)) == [str(source.parent), str(cache)]


def test_the_rhythm_fits_the_timeouts_and_the_bound() -> None:
    rhythm = Rhythm.of(LIVE_TIMEOUTS)
    shortest_ns = min(LIVE_TIMEOUTS.primary_timeout_ns, LIVE_TIMEOUTS.backup_timeout_ns)
    assert LIVE_TIMEOUTS.heartbeat_interval_ns < rhythm.patience_ns < shortest_ns
    assert 3 * rhythm.spacing_ns <= shortest_ns
    assert 900 * MS < rhythm.most * rhythm.spacing_ns <= rhythm.bound_ns
    assert Rhythm.of(replace(LIVE_TIMEOUTS, pulse_bound_ns=1000)).most == 0
    long = Rhythm.of(replace(LIVE_TIMEOUTS, pulse_bound_ns=60_000 * MS))
    assert (long.most, 3 * long.spacing_ns) == (SLOTS, shortest_ns)
