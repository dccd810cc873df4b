"""SIGINT, SIGTERM and SIGHUP as something to poll.

Not as exceptions: one that is raised in the middle of ending children would leave the others running.
"""

from __future__ import annotations

import os
import signal
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interruptions:
    """Within the context, `number` is the signal that came last (0: none), and `fileno` is readable then."""

    def __init__(self) -> None:
        self.number = 0
        self._read_fd = self._write_fd = -1
        self._previous: dict[signal.Signals, Any] = {}

    def fileno(self) -> int:
        return self._read_fd

    def clear(self) -> None:
        """What came is dealt with."""
        self.number = 0
        try:
            os.read(self._read_fd, 4096)
        except BlockingIOError:
            return  # nothing came

    def __enter__(self) -> Interruptions:
        self._read_fd, self._write_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        for number in SIGNALS:
            self._previous[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        os.close(self._read_fd)
        os.close(self._write_fd)
        self._read_fd = self._write_fd = -1

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.number = number
        try:
            os.write(self._write_fd, b"!")
        except BlockingIOError:
            return  # the pipe is full of earlier ones, so it is readable
