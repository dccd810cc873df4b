"""A progress bar on standard error, drawn only where somebody can see it."""

from __future__ import annotations

import sys
import time
from typing import TextIO

WIDTH = 30
REDRAW_INTERVAL_S = 0.1


class ProgressBar:
    """One line, redrawn at most ten times a second; silent if the stream is no terminal."""

    def __init__(self, total: int, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._total = total
        self._done = 0
        self._visible = total > 1 and self._stream.isatty()
        self._started_s = time.monotonic()
        self._drawn_s = 0.0

    def advance(self, note: str) -> None:
        """One more is done; the note stands at the end of the line."""
        self._done += 1
        now_s = time.monotonic()
        if self._visible and (now_s - self._drawn_s >= REDRAW_INTERVAL_S or self._done == self._total):
            self._drawn_s = now_s
            self._draw(now_s - self._started_s, note)

    def clear(self) -> None:
        """Leave the line empty for what is printed next."""
        if self._visible:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def _draw(self, elapsed_s: float, note: str) -> None:
        filled = WIDTH * self._done // self._total
        rest_s = elapsed_s * (self._total - self._done) / self._done
        bar = "#" * filled + "." * (WIDTH - filled)
        self._stream.write(f"\r\x1b[K[{bar}] {self._done}/{self._total}, {rest_s:.0f} s left, {note}")
        self._stream.flush()
