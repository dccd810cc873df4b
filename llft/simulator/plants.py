"""Planted bugs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple


class Plant(NamedTuple):
    name: str
    description: str


PLANTS: dict[str, Plant] = {}


@contextmanager
def planted(name: str | None) -> Iterator[None]:
    yield
