"""Pictures of the figures: one for each placement, with TCP beside LLFT where it was measured."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llft.pipeline.charts import Axis, Series, chart

Point = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Picture:
    title: str
    x: str
    x_axis: Axis
    y_axis: Axis
    lines: Mapping[str, str]
    """What each line shows, and its name."""
    by: tuple[str, ...] = ()
    """A line of LLFT's for each of their combinations; TCP has none of these."""


_US = Axis("microseconds", logarithmic=True)
_COMPARED = {"tcp_us": "TCP", "llft_us": "LLFT"}
PICTURES = {
    "latency": Picture(
        "Latency by message size",
        "size",
        Axis("bytes of request and reply", logarithmic=True),
        _US,
        _COMPARED,
        by=("client_replicas", "replicas"),
    ),
    "throughput": Picture(
        "Throughput by clients",
        "clients",
        Axis("clients", logarithmic=True),
        Axis("requests per second"),
        {"tcp_rps": "TCP", "llft_rps": "LLFT"},
        by=("replicas",),
    ),
    "replicas": Picture("Latency by replicas", "replicas", Axis("replicas"), _US, _COMPARED),
    "nondeterminism": Picture(
        "Latency by non-deterministic operations",
        "count",
        Axis("operations in a request"),
        Axis("microseconds"),
        _COMPARED,
        by=("operation",),
    ),
    "viewchange": Picture(
        "View change by replicas", "replicas", Axis("replicas"), Axis("microseconds"), {"us": "median"}
    ),
    "failover": Picture(
        "Fail-over as clients see it",
        "clients",
        Axis("clients"),
        Axis("milliseconds"),
        {"p50_ms": "p50", "p99_ms": "p99"},
        by=("replicas",),
    ),
    "gateway": Picture(
        "Latency through the gateway",
        "size",
        Axis("bytes of request and reply", logarithmic=True),
        _US,
        _COMPARED,
        by=("output_commit",),
    ),
    "memory": Picture(
        "Resident memory by idle connections",
        "connections",
        Axis("connections"),
        Axis("MB"),
        {"tcp_mb": "TCP", "primary_mb": "primary", "backup_mb": "backup", "gateway_mb": "gateway"},
    ),
}


def draw(figure: str, points: Sequence[Point], directory: Path) -> list[str]:
    """The names of the files."""
    directory.mkdir(parents=True, exist_ok=True)
    drawn = pictures(figure, points)
    for name, svg in drawn.items():
        (directory / name).write_text(svg, encoding="utf-8")
    return list(drawn)


def pictures(figure: str, points: Sequence[Point]) -> dict[str, str]:
    """SVG by the name of its file. A figure whose points are not along an axis has none."""
    picture = PICTURES.get(figure)
    if picture is None or not points:
        return {}
    placements = sorted({point["placement"] for point in points if "placement" in point})
    if not placements:
        return {f"{figure}.svg": _drawn(picture, picture.title, points)}
    return {
        f"{figure}-{placement}.svg": _drawn(
            picture,
            f"{picture.title}, {placement}",
            [each for each in points if each["placement"] == placement],
        )
        for placement in placements
    }


def _drawn(picture: Picture, title: str, points: Sequence[Point]) -> str:
    series: list[Series] = []
    by = (*picture.by, *(key for key in ("spin", "lane") if len({point.get(key) for point in points}) > 1))
    for value, name in picture.lines.items():
        if name == "TCP":
            series.append(_line(picture.x, value, name, points))
            continue
        for combination in dict.fromkeys(tuple(point[key] for key in by) for point in points):
            these = [point for point in points if tuple(point[key] for key in by) == combination]
            words = [f"{_word(key)} {part}".strip() for key, part in zip(by, combination, strict=True)]
            series.append(_line(picture.x, value, ", ".join([name, *words]), these))
    return chart(title, picture.x_axis, picture.y_axis, series)


def _word(key: str) -> str:
    return {"client_replicas": "client", "replicas": "server", "operation": "", "lane": ""}.get(
        key, key.replace("_", " ")
    )


def _line(x: str, value: str, name: str, points: Iterable[Point]) -> Series:
    """Several points at one place are one, their median."""
    found: dict[float, list[float]] = {}
    for point in points:
        found.setdefault(point[x], []).append(point[value])
    return Series(name, tuple((place, statistics.median(found[place])) for place in sorted(found)))
