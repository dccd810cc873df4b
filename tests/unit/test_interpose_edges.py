"""Interposition where two things meet; and lookups whose failure is one replica's own."""

from __future__ import annotations

import _socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llft.core.determinizer.operations import Obtain
from llft.interpose import passage, resolving
from llft.interpose.asking import ask
from tests.unit.test_interpose_replay import run_twice


def test_edges(tmp_path: Path) -> None:
    text, _ = run_twice(tmp_path, "edges.py", [])
    assert "interrupted" in text
    assert "ValueError\n  OverflowError\n  TypeError\n  OSError" in text
    assert text.endswith("all right\n")


@pytest.mark.parametrize("kind", [OSError, _socket.gaierror, _socket.herror])
def test_a_backup_whose_lookup_fails_goes_on_with_the_primarys(
    monkeypatch: pytest.MonkeyPatch, kind: type[OSError]
) -> None:
    """EAI_SYSTEM comes as a plain OSError: no network here, say, but at the primary."""

    def native(*arguments: object) -> Any:
        raise kind(101, "Network is unreachable")

    def primarys(name: str, produce: Callable[[], Any]) -> Any:
        failed, details = produce()
        assert failed >= 0
        assert details == (101, "Network is unreachable")
        return -1, "the primary's"

    monkeypatch.setattr(resolving, "ask", primarys)
    assert resolving._looked_up("getaddrinfo", native) == "the primary's"
    monkeypatch.setattr(resolving, "ask", lambda name, produce: produce())
    with pytest.raises(kind) as caught:
        resolving._looked_up("getaddrinfo", native)
    assert type(caught.value) is kind


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ValueError("invalid who parameter"), ValueError),
        (OverflowError("too large"), OverflowError),
        (TypeError("not a text"), TypeError),
        (UnicodeEncodeError("ascii", "ä", 0, 1, "not ascii"), ValueError),
        (FileNotFoundError(2, "No such file"), FileNotFoundError),
    ],
)
def test_what_a_genuine_function_says_of_its_arguments_is_an_answer(
    monkeypatch: pytest.MonkeyPatch, error: Exception, kind: type[Exception]
) -> None:
    """The core's step must not see it: that would end the process, and then that of the next primary."""

    def step(operation: Obtain) -> bytes:
        try:
            return operation.produce()
        except Exception as raised:  # noqa: BLE001 (as the driver does)
            pytest.fail(f"in the step: {raised!r}")

    def native() -> int:
        raise error

    monkeypatch.setattr(passage, "call", step)
    with pytest.raises(kind):
        ask("something", native)
    assert ask("something", lambda: 7) == 7
