"""Pictures of numbers as SVG, and the page that holds them: no library, no script, readable as text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 640, 360
LEFT, RIGHT, TOP, BOTTOM = 80, 20, 40, 60
COLOURS = ("#1f5fa8", "#c0392b", "#2e8b57", "#8e44ad", "#d68910", "#566573")
TICK_COUNT = 6


@dataclass(frozen=True, slots=True)
class Series:
    name: str
    points: tuple[tuple[float, float], ...]
    marks_only: bool = False


@dataclass(frozen=True, slots=True)
class Axis:
    label: str
    logarithmic: bool = False


@dataclass(frozen=True, slots=True)
class _Scale:
    """From a value to a place on the picture."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool

    def at(self, value: float) -> float:
        low, high, here = self.low, self.high, value
        if self.logarithmic:
            low, high, here = math.log10(low), math.log10(high), math.log10(max(value, self.low))
        return self.start + (here - low) / (high - low) * (self.end - self.start)

    def ticks(self) -> list[float]:
        if self.logarithmic:
            first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
            every = max(1, (last - first) // TICK_COUNT)
            return [10.0**power for power in range(first, last + 1, every)]
        step = _round_step((self.high - self.low) / TICK_COUNT)
        first = math.ceil(self.low / step - 1e-9)
        return [index * step for index in range(first, math.floor(self.high / step + 1e-9) + 1)]


def _round_step(raw: float) -> float:
    """1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(raw))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * 0.999)


def chart(title: str, x_axis: Axis, y_axis: Axis, series: Sequence[Series]) -> str:
    """Lines, or marks, in one picture. Without a point there is nothing to draw, and it says so."""
    kept = [_drawable(one, x_axis, y_axis) for one in series]
    points = [point for one in kept for point in one.points]
    if not points:
        return _svg(title, [f'<text x="{WIDTH / 2}" y="{HEIGHT / 2}" text-anchor="middle">no data</text>'])
    x_scale = _scale([x for x, _ in points], LEFT, WIDTH - RIGHT, x_axis)
    y_scale = _scale([y for _, y in points], HEIGHT - BOTTOM, TOP, y_axis)
    parts = [*_x_grid(x_scale, x_axis), *_y_grid(y_scale, y_axis)]
    for index, one in enumerate(kept):
        parts += _draw(one, COLOURS[index % len(COLOURS)], x_scale, y_scale)
        parts.append(_legend(one.name, index))
    return _svg(title, parts)


def _drawable(series: Series, x_axis: Axis, y_axis: Axis) -> Series:
    """A logarithm has no place for zero."""

    def fits(value: float, axis: Axis) -> bool:
        return math.isfinite(value) and (value > 0 or not axis.logarithmic)

    points = tuple((x, y) for x, y in series.points if fits(x, x_axis) and fits(y, y_axis))
    return Series(series.name, points, series.marks_only)


def _scale(values: Sequence[float], start: float, end: float, axis: Axis) -> _Scale:
    low, high = min(values), max(values)
    if axis.logarithmic:
        low, high = low / 1.1, high * 1.1
    else:
        low = min(0.0, low)
        high = high + 0.05 * (high - low) if high > low else low + 1.0
    return _Scale(low, high, start, end, axis.logarithmic)


def _x_grid(scale: _Scale, axis: Axis) -> Iterable[str]:
    for value in scale.ticks():
        x = scale.at(value)
        yield f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{HEIGHT - BOTTOM}" class="grid"/>'
        yield f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{value:g}</text>'
    middle = (LEFT + WIDTH - RIGHT) / 2
    yield f'<text x="{middle}" y="{HEIGHT - 12}" text-anchor="middle">{escape(axis.label)}</text>'


def _y_grid(scale: _Scale, axis: Axis) -> Iterable[str]:
    for value in scale.ticks():
        y = scale.at(value)
        yield f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" class="grid"/>'
        yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>'
    middle = (TOP + HEIGHT - BOTTOM) / 2
    turn = f'transform="rotate(-90 16 {middle})"'
    yield f'<text x="16" y="{middle}" text-anchor="middle" {turn}>{escape(axis.label)}</text>'


def _draw(series: Series, colour: str, x_scale: _Scale, y_scale: _Scale) -> Iterable[str]:
    places = [(x_scale.at(x), y_scale.at(y)) for x, y in series.points]
    if not series.marks_only and len(places) > 1:
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        yield f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>'
    if series.marks_only or len(places) <= 20:
        yield from (f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in places)


def _legend(name: str, index: int) -> str:
    y = TOP + 14 + 16 * index
    x = WIDTH - RIGHT - 8
    colour = COLOURS[index % len(COLOURS)]
    return f'<text x="{x}" y="{y}" text-anchor="end" fill="{colour}" font-weight="bold">{escape(name)}</text>'


def _svg(title: str, parts: Iterable[str]) -> str:
    style = "text{font:12px sans-serif}.grid{stroke:#ddd}.title{font-size:15px;font-weight:bold}"
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        f'height="{HEIGHT}" role="img">\n<title>{escape(title)}</title><style>{style}</style>\n'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>\n'
        f'<text x="{WIDTH / 2}" y="22" text-anchor="middle" class="title">{escape(title)}</text>\n'
        f"{body}\n</svg>\n"
    )


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Numbers on the right, words on the left."""
    lines = ["<table><tr>" + "".join(f"<th>{escape(name)}</th>" for name in head) + "</tr>"]
    for row in rows:
        cells = "".join(_cell(value) for value in row)
        lines.append(f"<tr>{cells}</tr>")
    return "\n".join([*lines, "</table>"])


def _cell(value: object) -> str:
    if isinstance(value, int | float):
        return f'<td class="number">{number(value)}</td>'
    return f"<td>{escape(str(value))}</td>"


def number(value: float) -> str:
    """Four digits that say something."""
    return str(value) if isinstance(value, int) else f"{value:.4g}"


def page(title: str, sections: Iterable[str]) -> str:
    style = (
        "body{font:15px/1.5 sans-serif;max-width:60em;margin:2em auto;padding:0 1em;color:#222}"
        "table{border-collapse:collapse;margin:1em 0}td,th{border:1px solid #ccc;padding:.25em .7em}"
        "th{background:#f3f3f3;text-align:left}.number{text-align:right;font-variant-numeric:tabular-nums}"
        "pre{background:#f6f6f6;padding:1em}.missing{color:#a33}svg{max-width:100%;height:auto}"
    )
    body = "\n".join(sections)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{style}</style></head><body>\n<h1>{escape(title)}</h1>\n{body}\n</body></html>\n"
    )
