"""Pictures: points are where they belong, and what cannot be drawn is said."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from llft.pipeline.charts import HEIGHT, WIDTH, Axis, Series, chart, page, table


def circles(svg: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"', svg)]


def test_points_are_drawn_in_proportion() -> None:
    svg = chart("t", Axis("x"), Axis("y"), [Series("s", ((0.0, 0.0), (5.0, 10.0), (10.0, 20.0)))])
    (x0, y0), (x1, y1), (x2, y2) = circles(svg)
    assert abs((x2 - x1) - (x1 - x0)) < 0.2
    assert abs((y2 - y1) - (y1 - y0)) < 0.2
    assert y0 > y1 > y2, "up is less in SVG"
    assert all(0 < x < WIDTH and 0 < y < HEIGHT for x, y in circles(svg))


def test_a_logarithmic_axis_has_equal_steps_for_equal_factors_and_no_zero() -> None:
    points = ((0.0, 1.0), (1.0, 1.0), (10.0, 1.0), (100.0, 1.0))
    drawn = circles(chart("t", Axis("x", logarithmic=True), Axis("y"), [Series("s", points)]))
    assert len(drawn) == 3
    assert abs((drawn[2][0] - drawn[1][0]) - (drawn[1][0] - drawn[0][0])) < 0.2


def test_no_points_is_said() -> None:
    assert "no data" in chart("t", Axis("x"), Axis("y"), [])


def test_everything_is_escaped_and_well_formed() -> None:
    svg = chart("a < b", Axis("x & y"), Axis("y"), [Series("<s>", ((1.0, 1.0),))])
    ElementTree.fromstring(svg)
    text = page("a < b", [table(["<h>"], [["<c>", 1, 1.23456]])])
    assert "<c>" not in text
    assert "<h>" not in text
    assert "1.235" in text
