"""Which writing makes a program's state more than its memory."""

from __future__ import annotations

import os
from typing import Any

import pytest

from llft.interpose import passage, writings
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


def test_what_nobody_of_the_program_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passage, "current", lambda: 0)
    assert noticed("open", "/var/log/it", None, WRITING) == ""
