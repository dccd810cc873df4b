"""The page of all figures: a table and pictures for each, and how it was made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from llft.cli.measure.drawing import draw

COLUMNS: Mapping[str, Sequence[str]] = {
    "latency": ("placement", "spin", "client_replicas", "replicas", "size", "tcp_us", "llft_us", "ratio",
                "spread", "tcp_p99_us", "llft_p99_us"),
    "throughput": ("placement", "spin", "replicas", "clients", "tcp_rps", "llft_rps", "ratio", "tcp_server",
                   "llft_server", "tcp_cpu_us", "llft_cpu_us"),
    "replicas": ("placement", "spin", "replicas", "size", "tcp_us", "llft_us", "ratio", "spread",
                 "tcp_cpu_us", "llft_cpu_us", "backup_cpu_us"),
    "nondeterminism": ("placement", "operation", "threads", "count", "tcp_us", "llft_us", "slope_us"),
    "viewchange": ("replicas", "us", "max_us", "noted_us", "kills"),
    "failover": ("replicas", "clients", "kills", "p50_ms", "p99_ms", "detection_ms", "view_change_ms",
                 "synchrony_ms", "first_reply_ms", "lost"),
    "gateway": ("placement", "output_commit", "size", "tcp_us", "llft_us", "ratio", "spread",
                "llft_cpu_us", "gateway_cpu_us"),
    "apps": ("application", "client", "placement", "tcp_us", "llft_us", "ratio", "tcp_rps", "llft_rps",
             "cpu_ratio", "llft_p99_us"),
    "peers": ("store", "us", "p99_us", "clients", "rps", "gap_ms", "gap_max_ms", "lost", "kills"),
    "memory": ("connections", "tcp_mb", "primary_mb", "backup_mb", "gateway_mb", "primary_mb_per_1000",
               "gateway_mb_per_1000"),
}  # fmt: skip

INTRODUCTION = """\
# Figures

Made by `llft bench all`; [PERFORMANCE.md](PERFORMANCE.md) says what each figure measures and how. A star
marks a point of which every round was disturbed by other work on the machine: take it lightly. Times are
medians, of plain TCP (`tcp_us`) and of LLFT (`llft_us`) in the same rounds, in microseconds.
"""


def write_page(found: Sequence[Mapping[str, Any]], directory: Path) -> Path:
    """`FIGURES.md`, and the pictures beside it."""
    sections = [INTRODUCTION]
    for each in found:
        sections.append(section(each, draw(each["figure"], each["points"], directory / "figures")))
    page = directory / "FIGURES.md"
    page.write_text("\n".join(sections), encoding="utf-8")
    return page


def section(found: Mapping[str, Any], drawn: Sequence[str]) -> str:
    figure, points, machine = found["figure"], found["points"], found["machine"]
    lines = [f"## {figure}", "", f"    llft bench {figure}", ""]
    lines += [f"![{name.removesuffix('.svg')}](figures/{name})" for name in drawn]
    lanes = ", ".join(sorted({point["lane"] for point in points if "lane" in point}))
    load = f"load {machine['load_before']:g} before, {machine['load_after']:g} after"
    lines += ["", f"{lanes} lane, {machine['cores']} cores, Python {machine['python']}, {load}.", ""]
    if found["failure"]:
        lines += [f"It failed: {found['failure'].splitlines()[0]}", ""]
    columns = ["lane", *COLUMNS[figure]] if "," in lanes else COLUMNS[figure]
    return "\n".join([*lines, *table(points, columns), ""])


def table(points: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> list[str]:
    """In Markdown."""
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    for point in points:
        cells = [_cell(point.get(column)) for column in columns]
        star = "" if point.get("trusted", True) else " *"
        lines.append(f"| {' | '.join(cells)}{star} |")
    return lines


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 10_000 else f"{value:.0f}"
    return str(value)
