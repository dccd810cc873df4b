"""The process image as a source of state: nothing is asked of the program (docs/CHECKPOINTS.md, "Images").

The thread that takes it is the pacemaker, under the driver's lock and with the interpreter's: every thread of
the program waits at its gate. `capture` returns twice. In the process that goes on it returns; in one that
is restored it has everything arranged (`arise`) and unwinds.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final, NamedTuple

from llft import originals
from llft.instant import MS
from llft.past.source import IMAGE, Captured, Interposed, NotCapturedError, RestoredError
from llft.runtime.driver import Driver
from llft.runtime.native import image
from llft.runtime.native.image import ImageError
from llft.runtime.priority import Behind
from llft.runtime.state.open_files import OpenFile, open_files, working_directory
from llft.runtime.state.room import lacking, own_bytes

HELD_NS: Final = 40 * MS
"""So long the program is asked to stand still for an image,"""
HELD_AGAIN_NS: Final = 1000 * MS
"""and so soon again if it did not."""
LIFELINES = "life-"
"""Mappings of these files are shared with other processes, by the runtime itself."""


class Carried(NamedTuple):
    """Of the process that was imaged, beside its memory."""

    position: int
    digest: int
    files: list[OpenFile]
    directory: str
    umask: int


class ImageSource:
    name = IMAGE

    def __init__(
        self,
        driver: Driver,
        interposed: Interposed,
        path: str,
        temporary: str,
        arise: Callable[[Carried], None],
    ) -> None:
        """`path` is where images are put, with their positions added, and beside it are the lifelines."""
        self._driver = driver
        self._interposed = interposed
        self._path = path
        self._temporary = temporary
        self._arise = arise
        self._again_ns = 0

    def obstacle(self) -> str:
        driver = self._driver
        reason = self.refusal() or lacking(os.path.dirname(self._path), own_bytes())
        if reason:
            driver.pump_held = False
            return reason
        if driver.application.pump is not None or driver.dialogues.leaving is not None:
            self._hold_pump(originals.monotonic_ns())
            return "a thread of the program serves the network; it was asked to leave that"
        return ""

    def _hold_pump(self, now_ns: int) -> None:
        """A program that is behind never waits, and would come further behind if it were held for long."""
        if now_ns >= self._again_ns:
            self._again_ns = now_ns + HELD_AGAIN_NS
            self._driver.hold_pump(now_ns + HELD_NS)

    def refusal(self) -> str:
        """What of the program's state an image would not have; "": nothing that is known."""
        outside = self._interposed.outside_state()
        if not outside and originals.listdir(self._temporary):
            outside = "it has temporary files"
        if outside:
            return f"{outside}, and an image does not carry files"
        try:
            open_files()
        except NotCapturedError as error:
            return str(error)
        return ""

    def capture(self) -> Captured:
        driver = self._driver
        log = driver.application.log
        path = f"{self._path}-{log.length}"
        skipped = os.path.join(os.path.realpath(os.path.dirname(path)), LIFELINES)
        try:
            umask = originals.umask(0o077)
            originals.umask(umask)
            carried = Carried(log.length, log.digest, open_files(), working_directory(), umask)
            taken = image.take(path, skipped)
        except ImageError as error:
            raise NotCapturedError(str(error)) from error
        finally:
            driver.pump_held = False
        if taken.restored:
            self._arise(carried)
            raise RestoredError
        return Captured(
            path, carried.position, carried.digest, taken.pause_ns, ready=Writer(taken.child).is_done
        )


class Writer:
    """The child that writes."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._behind = Behind(pid)

    def is_done(self) -> bool:
        self._behind.tend()
        try:
            return image.is_written(self._pid)
        except ImageError as error:
            raise NotCapturedError(str(error)) from error
