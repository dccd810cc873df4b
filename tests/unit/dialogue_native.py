"""C for dialogues (D-74) beside the reference lane."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from llft.runtime import dialogues
from tests.unit.compiled_parts import compiled_part

DATAGRAMS = "llft.runtime.transport.datagrams"


@pytest.fixture
def native(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setitem(sys.modules, DATAGRAMS, compiled_part(DATAGRAMS))
    part = compiled_part("llft.reading_on")
    part.begin([], 1 << 30)
    monkeypatch.setattr(dialogues, "native", part)
    yield part
    if part.is_talking():
        part.take_dialogue_back()
