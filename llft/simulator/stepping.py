"""An event for a core, handed to it as the driver of a real process does."""

from __future__ import annotations

from typing import Any

from llft.core import effects, events
from llft.core.determinizer.operations import WOULD_BLOCK, Receive
from llft.core.determinizer.outside import BLOCKED
from llft.simulator import reading_on
from llft.simulator.interfaces import Core

_WRITTEN = (effects.WriteBatch, effects.WriteRecord)
"""Effects that lead to no further step: a run is lent when all is done."""


def stepped(core: Core, event: events.Event, now_ns: int) -> list[effects.Effect]:
    """What is to be done, in order. A call is made in a run that is lent; else that is taken back first. Then
    a call is tried at once, and is an event if that does not complete it."""
    replica: Any = core if hasattr(core, "run") else None
    run = replica and replica.run.plain
    if run is None:
        return _without_run(core, event, now_ns, replica)
    if type(event) is events.OperationInvoked and event.thread == run.thread:
        result = run.make(event.operation)
        if result is not None:
            return [effects.ResumeThread(event.thread, result)]
    return [*reading_on.take_back(replica, now_ns), *_without_run(core, event, now_ns, replica)]


def _without_run(core: Core, event: events.Event, now_ns: int, replica: Any) -> list[effects.Effect]:
    if type(event) is not events.OperationInvoked:
        return core.step(event, now_ns)
    result = core.at_once(event.thread, event.operation, now_ns)
    todo = core.drain()
    if result is not BLOCKED:
        if replica is not None and all(type(effect) in _WRITTEN for effect in todo):
            idle = event.operation.fd if result == WOULD_BLOCK and type(event.operation) is Receive else -1
            reading_on.lend(replica, event.thread, idle)
        return [effects.ResumeThread(event.thread, result), *todo]
    return todo or core.step(event, now_ns)
