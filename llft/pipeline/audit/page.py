"""The audit's report: one HTML page that stands alone, with timelines of the groups worth looking at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from llft.pipeline.audit.findings import LOSS, VIOLATION, WARNING

SHOWN_FINDINGS = 200
SHOWN_GROUPS = 8
WIDTH, LEFT, LINE = 1000, 250, 26
COLORS = {"primary": "#1a7f37", "backup": "#4a90d9", "joining": "#bbbbbb", "recovering": "#d9a44a"}
OTHER_COLOR = "#888888"

STYLE = """ body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 1280px; color: #222;
padding: 0 1em } table { border-collapse: collapse; margin: 1em 0 } td, th { text-align: left; padding: 3px
12px 3px 0; vertical-align: top; border-bottom: 1px solid #ddd } .violation { color: #b00020 } .good {
color: #1a7f37 } svg text { font: 12px system-ui, sans-serif } td.explanation { max-width: 46em } .loss,
.warning { color: #8a6d00 } """


class Span(NamedTuple):
    """A replica in one role."""

    replica: str
    role: str
    begin_ns: int
    end_ns: int


class Mark(NamedTuple):
    """A moment: a view that was installed, or a finding."""

    replica: str | None
    at_ns: int
    text: str
    grave: bool


class Timeline(NamedTuple):
    world: int
    group_id: int
    spans: Sequence[Span]
    marks: Sequence[Mark]


def page(
    summary: Mapping[str, Any], findings: Sequence[Mapping[str, Any]], timelines: Sequence[Timeline]
) -> str:
    """`summary`: what the command tells machines. `findings`: gravest first."""
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>LLFT audit</title>",
        f"<style>{STYLE}</style>",
        f"<h1>LLFT audit: {_verdict(summary)}</h1>",
        _summary_table(summary),
        "<h2>Findings</h2>",
        _findings_table(findings) if findings else "<p>None.</p>",
        "<h2>Timelines</h2>" if timelines else "",
        *(timeline_picture(one) for one in timelines),
        "</html>",
    ]
    return "\n".join(parts)


def _verdict(summary: Mapping[str, Any]) -> str:
    count = summary["violations"]
    if count:
        return f"<span class='violation'>{count} violation{'s' * (count != 1)}</span>"
    return "<span class='good'>all properties hold</span>"


def _summary_table(summary: Mapping[str, Any]) -> str:
    rows = [(name, summary[name]) for name in ("records", "quarantined", "groups", "violations", "seconds")]
    rows += [(f"finding: {name}", count) for name, count in sorted(summary["findings"].items())]
    cells = "".join(f"<tr><td>{escape(name)}</td><td>{escape(str(value))}</td></tr>" for name, value in rows)
    return f"<table>{cells}</table>"


def _findings_table(findings: Sequence[Mapping[str, Any]]) -> str:
    names = ("condition", "group_id", "view", "order_seq_num", "replica", "explanation")
    head = "".join(f"<th>{escape(name.replace('_', ' '))}</th>" for name in names)
    lines = []
    for finding in findings[:SHOWN_FINDINGS]:
        cells = "".join(
            f"<td class='{name}'>{escape('' if finding[name] is None else str(finding[name]))}</td>"
            for name in names
        )
        lines.append(f"<tr class='{escape(finding['severity'])}'>{cells}</tr>")
    more = len(findings) - SHOWN_FINDINGS
    rest = f"<p>and {more} more in the findings table</p>" if more > 0 else ""
    return f"<table><tr>{head}</tr>{''.join(lines)}</table>{rest}"


def timeline_picture(timeline: Timeline) -> str:
    """Every replica a line, its roles in colours; views as ticks, findings as red ones over the line."""
    replicas = list(dict.fromkeys(span.replica for span in timeline.spans))
    moments = [ns for span in timeline.spans for ns in (span.begin_ns, span.end_ns)]
    if not replicas:
        return ""
    begin_ns, end_ns = min(moments), max(moments)
    scale = (WIDTH - LEFT - 10) / max(end_ns - begin_ns, 1)
    height = LINE * (len(replicas) + 2)
    drawn = [_line(replica, row) for row, replica in enumerate(replicas)]
    for span in timeline.spans:
        x, width = LEFT + (span.begin_ns - begin_ns) * scale, max((span.end_ns - span.begin_ns) * scale, 1)
        y = LINE * (replicas.index(span.replica) + 1)
        color = COLORS.get(span.role, OTHER_COLOR)
        drawn.append(
            f"<rect x='{x:.1f}' y='{y - 6}' width='{width:.1f}' height='12' fill='{color}'>"
            f"<title>{escape(span.role)}</title></rect>"
        )
    for mark in sorted(timeline.marks, key=lambda one: one.grave):
        x = LEFT + (min(max(mark.at_ns, begin_ns), end_ns) - begin_ns) * scale
        row = replicas.index(mark.replica) + 1 if mark.replica in replicas else 0
        color, reach = ("#b00020", 12) if mark.grave else ("#222222", 8)
        drawn.append(
            f"<line x1='{x:.1f}' x2='{x:.1f}' y1='{LINE * row - reach}' y2='{LINE * row + reach}' "
            f"stroke='{color}' stroke-width='{3 if mark.grave else 1}'>"
            f"<title>{escape(mark.text)}</title></line>"
        )
    seconds = (end_ns - begin_ns) / 1e9
    drawn.append(f"<text x='{LEFT}' y='{height - 8}'>0 s</text>")
    drawn.append(f"<text x='{WIDTH - 10}' y='{height - 8}' text-anchor='end'>{seconds:.3f} s</text>")
    world = f", world {timeline.world}" if timeline.world else ""
    return (
        f"<h3>Group {timeline.group_id}{world}</h3><svg width='{WIDTH}' height='{height}' "
        f"viewBox='0 0 {WIDTH} {height}'>{''.join(drawn)}</svg>"
    )


def _line(replica: str, row: int) -> str:
    return f"<text x='0' y='{LINE * (row + 1) + 4}'>{escape(replica)}</text>"


def gravest_first(finding: Mapping[str, Any]) -> tuple[int, str, int]:
    order = (VIOLATION, WARNING, LOSS)
    return order.index(finding["severity"]), finding["condition"], finding["order_seq_num"] or 0
