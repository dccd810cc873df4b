"""Calls that the core completes at once: the thread that made one never stops being out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llft import originals
from llft.core.determinizer.operations import Operation
from llft.core.determinizer.outside import BLOCKED
from llft.runtime.application_thread import ApplicationThread

if TYPE_CHECKING:
    from llft.runtime.driver import Driver


class Immediate:
    __slots__ = ("_application", "_driver")

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._application = driver.application

    def call(self, thread: ApplicationThread, operation: Operation, kind: int) -> bool:
        """False: it is none of those, or not now: in a past that is being repeated, or compared with one,
        every call is looked at. Lock held."""
        application, driver = self._application, self._driver
        if application.replaying or application.witness is not None:
            return False
        core, now_ns = driver.core, originals.monotonic_ns()
        result = core.at_once(thread.number, operation, now_ns)
        if result is not BLOCKED:
            # As the program's past has it: before anything is captured, and before anything leaves.
            thread.kind, thread.result, thread.out_since_ns = kind, result, now_ns
            if application.ordered:
                application.log.called(thread.number, application.about(operation))
            application.log.completed(thread.number, kind, result)
        if core.outbox.effects:
            driver.perform(core.drain())
        return result is not BLOCKED
