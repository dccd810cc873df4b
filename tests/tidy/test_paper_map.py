"""docs/PAPER_MAP.md says where every numbered line of the paper's pseudocode is.

A row of its tables begins with the figure and the line, or lines, and names code in backticks:

    | messaging 18-20 | `llft.core.membership.view:View.supersede` | why it looks different, if it does |

Figures: order-info (the structs), messaging, primary-change, backup-change, determinizer (of which 1-22 are
the example thread).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module

import pytest

from tests.tidy.sources import ROOT

FIGURES = {
    "order-info": 15,
    "messaging": 84,
    "primary-change": 41,
    "backup-change": 46,
    "determinizer": 41,
}
ROW = re.compile(r"^\|\s*([a-z-]+)\s+(\d+)(?:\s*[-\u2013]\s*(\d+))?\s*\|(.*)\|\s*$")
PLACE = re.compile(r"`([a-z_][\w.]*):([A-Za-z_][\w.]*)`")
MAP_FILE = ROOT / "docs" / "PAPER_MAP.md"


def rows() -> Iterator[tuple[str, range, list[tuple[str, str]]]]:
    """Figure, lines, and the (module, name) pairs of every row."""
    for line in MAP_FILE.read_text(encoding="utf-8").splitlines():
        matched = ROW.match(line)
        if matched and matched[1] in FIGURES:
            first, last = int(matched[2]), int(matched[3] or matched[2])
            yield matched[1], range(first, last + 1), PLACE.findall(matched[4])


@pytest.mark.parametrize("figure", FIGURES)
def test_every_line_of_the_figure_has_a_row(figure: str) -> None:
    covered = {line for name, lines, places in rows() if name == figure and places for line in lines}
    missing = [line for line in range(1, FIGURES[figure] + 1) if line not in covered]
    assert missing == [], f"{figure}: no row that names code for these lines"


def test_no_row_names_a_line_that_the_paper_has_not() -> None:
    for figure, lines, _ in rows():
        assert lines, f"{figure}: a range that goes backwards"
        assert 1 <= lines[0] <= lines[-1] <= FIGURES[figure], f"{figure} {lines}"


def test_every_place_exists() -> None:
    for figure, lines, places in rows():
        for module, name in places:
            found: object = import_module(module if module.startswith("llft") else f"llft.{module}")
            for part in name.split("."):
                # A field of a dataclass or a named tuple is a place too, and has no value on the class.
                annotations = getattr(found, "__annotations__", {})
                assert hasattr(found, part) or part in annotations, f"{figure} {lines}: {module}:{name}"
                found = getattr(found, part, None)
