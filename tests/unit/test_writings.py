"""Which writing makes a program's state more than its memory."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from llft.interpose import passage, ticking, writings
from llft.interpose.files import TEMPORARY

WRITING = os.O_RDWR | os.O_CREAT
RUN = "/run/of/it/"


@pytest.fixture(autouse=True)
def program(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread of a program is running, and nothing has been written."""
    monkeypatch.setattr(passage, "current", lambda: 1)
    monkeypatch.setattr(writings, "first", "")
    monkeypatch.setattr(writings, "ours", RUN)


def noticed(event: str, *arguments: Any) -> str:
    writings._noticed(event, arguments)
    return writings.first


@pytest.mark.parametrize(
    ("event", "arguments"),
    [
        ("open", (f"{TEMPORARY}/abc", None, WRITING)),
        ("open", (TEMPORARY, None, WRITING | os.O_TMPFILE)),
        ("os.remove", (f"{TEMPORARY}/abc", -1)),
        ("os.rename", (f"{TEMPORARY}/abc", f"{TEMPORARY}/def", -1, -1)),
        ("open", (f"{RUN}replica-1.state", None, WRITING)),
        ("open", ("/etc/hosts", None, os.O_RDONLY)),
    ],
)
def test_what_the_capture_sees_itself_or_is_not_the_programs(event: str, arguments: tuple[Any, ...]) -> None:
    assert noticed(event, *arguments) == ""


@pytest.mark.parametrize(
    ("event", "arguments"),
    [
        ("open", ("/var/log/it", None, WRITING)),
        ("open", (f"{TEMPORARY}/../x", None, WRITING)),
        ("open", (f"{TEMPORARY}/a/..", None, WRITING)),
        ("open", (f"{TEMPORARY}5", None, WRITING)),
        ("os.remove", ("abc", 5)),
        ("os.rename", (f"{TEMPORARY}/abc", "/var/kept", -1, -1)),
        ("os.symlink", ("/var", f"{TEMPORARY}/way-out", -1)),
        ("sqlite3.connect", ("/var/base.db",)),
    ],
)
def test_what_it_leaves_elsewhere(event: str, arguments: tuple[Any, ...]) -> None:
    assert noticed(event, *arguments) != ""


COMPILED = "/var/cache/llft/pycache"


@pytest.mark.parametrize(
    ("event", "arguments"),
    [
        ("os.mkdir", (f"{COMPILED}/srv/it", 0o777, -1)),
        ("open", (f"{COMPILED}/srv/it/a.cpython-311.pyc.1402", None, WRITING)),
        ("os.rename", (f"{COMPILED}/srv/it/a.pyc.1402", f"{COMPILED}/srv/it/a.pyc", -1, -1)),
    ],
)
def test_what_it_compiles(event: str, arguments: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "pycache_prefix", COMPILED)
    assert noticed(event, *arguments) == ""


@pytest.mark.parametrize(
    ("event", "arguments"),
    [
        ("open", ("/var/lib/pycache/state", None, WRITING)),
        ("open", ("/var/lib/what.pycked", None, WRITING)),
        ("open", (f"{COMPILED}/../state", None, WRITING)),
        ("os.rename", ("/var/lib/__pycache__/new", "/var/lib/__pycache__/state", -1, -1)),
        ("os.rename", (f"{COMPILED}/a.pyc", "/var/lib/state", -1, -1)),
        ("os.mkdir", ("/var/cache", 0o777, -1)),
    ],
)
def test_what_only_looks_compiled(
    event: str, arguments: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An image would be restored without it, and nobody would know."""
    monkeypatch.setattr(sys, "pycache_prefix", COMPILED)
    assert noticed(event, *arguments) != ""


def test_what_it_compiles_where_there_is_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "pycache_prefix", None)
    assert noticed("os.mkdir", "/srv/it/__pycache__", 0o777, -1) == ""
    assert noticed("open", "/srv/it/__pycache__/a.cpython-311.pyc.1402", None, WRITING) == ""
    assert noticed("open", "/srv/it/my__pycache__/a", None, WRITING) != ""


def test_the_cache_is_there_before_the_program_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The import system would make the directories above it as well, and they might be the program's."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    monkeypatch.setattr(sys, "pycache_prefix", None)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    ticking._keep_compiled()
    assert (tmp_path / "caches" / "llft" / "pycache").is_dir()
    assert not sys.dont_write_bytecode


def test_what_nobody_of_the_program_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passage, "current", lambda: 0)
    assert noticed("open", "/var/log/it", None, WRITING) == ""
