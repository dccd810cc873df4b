"""An event for a core, handed to it as the driver of a real process does."""

from __future__ import annotations

from llft.core import effects, events
from llft.core.determinizer.outside import BLOCKED
from llft.simulator.interfaces import Core


def stepped(core: Core, event: events.Event, now_ns: int) -> list[effects.Effect]:
    """What is to be done, in order. A call is tried at once, and is an event if that does not complete it."""
    if type(event) is not events.OperationInvoked:
        return core.step(event, now_ns)
    result = core.at_once(event.thread, event.operation, now_ns)
    todo = core.drain()
    if result is not BLOCKED:
        return [effects.ResumeThread(event.thread, result), *todo]
    return todo or core.step(event, now_ns)
