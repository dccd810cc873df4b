"""A group as lines: the panel of `llft run`, the table of `llft status`, and events one after the other.

On a terminal the panel stands at the bottom and is redrawn in place, and events scroll by above it. Anywhere
else there are only the events, a line each with its time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any, TextIO

ERASE_BELOW = "\x1b[J"
COLUMNS = ("replica", "pid", "role", "view", "rank", "prec", "lag", "performed", "lives", "up")
_ROW = "{:>7} {:>8} {:<10} {:<10} {:>4} {:>4} {:>6} {:>10} {:>5} {:>7}"


def clock_text() -> str:
    """The time of day, with milliseconds."""
    now_ns = time.time_ns()
    return f"{time.strftime('%H:%M:%S', time.localtime(now_ns // 10**9))}.{now_ns // 10**6 % 1000:03d}"


def group_lines(group: Mapping[str, Any]) -> list[str]:
    """A group, as in `llft status --json`, for people."""
    where = ", ".join(f"{host}:{port}" for host, port in group["listening"]) or "nowhere yet"
    kinds = sorted({member["replication"] for member in group["members"] if member.get("replication")})
    lines = [f"group {', '.join([group['group'], *kinds])}, listening on {where}", _ROW.format(*COLUMNS)]
    lines += [_member_line(member) for member in group["members"]]
    for gateway in group["gateways"]:
        state = "down" if gateway["pid"] is None else f"pid {gateway['pid']}"
        about = _silence(gateway) + _last_end(gateway)
        lines.append(f"  {gateway['name']}: {state}, life {gateway['lives']}{about}")
    return lines


def _member_line(member: Mapping[str, Any]) -> str:
    def shown(name: str) -> str:
        value = member.get(name)
        return "-" if value is None else str(value)

    uptime_s = member.get("uptime_s")
    up = "-" if uptime_s is None else f"{uptime_s:.1f}s"
    names = ("replica", "pid", "role", "view", "rank", "precedence", "lag", "performed", "lives")
    row = _ROW.format(*(shown(name) for name in names), up)
    return row + _stored(member) + _silence(member) + _last_end(member)


def _stored(member: Mapping[str, Any]) -> str:
    """Of a semi-passive backup."""
    held = member.get("stored")
    return f"  holds {held['state_bytes']} B of state, {held['log_bytes']} B of log" if held else ""


def _silence(process: Mapping[str, Any]) -> str:
    return f"  silent for {process['silent_s']:.0f} s" if process.get("silent_s") else ""


def _last_end(process: Mapping[str, Any]) -> str:
    """Why there is another life."""
    return f"  the last one {process['last_end']}" if process.get("last_end") else ""


class EventLines:
    """Events, a line each."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def told(self, text: str) -> None:
        self._stream.write(f"{clock_text()}  {text}\n")
        self._stream.flush()

    def seen(self, group: dict[str, Any]) -> None:
        """Nothing: the state is not an event."""

    def close(self) -> None:
        """Nothing is left on the screen."""


class Panel(EventLines):
    """Events above, the state of the group below, drawn in place."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._drawn: list[str] = []
        self._last: list[str] = []

    def told(self, text: str) -> None:
        self._erase()
        super().told(text)
        self._draw(self._last)

    def seen(self, group: dict[str, Any]) -> None:
        self._erase()
        self._draw(["", *group_lines(group)])

    def close(self) -> None:
        self._erase()
        self._stream.flush()

    def _erase(self) -> None:
        if self._drawn:
            self._stream.write(f"\x1b[{len(self._drawn)}F{ERASE_BELOW}")
            self._drawn = []

    def _draw(self, lines: list[str]) -> None:
        # A line that wraps would take two, and the panel would creep up the screen.
        try:
            width = os.get_terminal_size(self._stream.fileno()).columns
        except OSError:
            width = 80
        self._last = lines
        self._drawn = [line[: max(1, width - 1)] for line in lines]
        self._stream.write("".join(f"{line}\n" for line in self._drawn))
        self._stream.flush()


def observer_for(stream: TextIO, *, plain: bool) -> EventLines:
    """A panel if somebody can see it."""
    return EventLines(stream) if plain or not stream.isatty() else Panel(stream)
