"""What the trace notes of an event: its kind, a checksum, and words."""

from __future__ import annotations

from zlib import crc32

from llft.core import events
from llft.journal.record import Record
from llft.simulator.trace import Trace

SHOWN_CHARACTERS = 160

EVENT_KINDS: dict[type, int] = {
    kind: number
    for number, kind in enumerate(
        (
            events.Started,
            events.MessageReceived,
            events.DeadlinePassed,
            events.OperationInvoked,
            events.ThreadEnded,
            events.PeerDied,
            events.StateCaptured,
            events.SwitchRequested,
            events.LeaveRequested,
            events.StateStored,
            events.HistoryBegun,
            events.PeerStopped,
            events.PeerRuns,
        ),
        start=1,
    )
}
SEND_KIND = 32
FAULT_KIND = 33


def checksum(event: events.Event) -> int:
    """No id, no hash: two runs of one seed have the same."""
    kind = type(event)
    if kind is events.OperationInvoked:
        return event.thread  # type: ignore[union-attr]
    if kind is events.MessageReceived:
        return crc32(event.data)  # type: ignore[union-attr]
    return 0


def in_words(event: events.Event, trace: Trace) -> str:
    if isinstance(event, events.MessageReceived):
        return f"<- {trace.describe(event.data)}"
    text = repr(event)
    return f"** {text if len(text) <= SHOWN_CHARACTERS else f'{text[: SHOWN_CHARACTERS - 3]}...'}"


def told(record: Record) -> str:
    fields = ", ".join(str(value) for value in record[1:])
    return f"## {type(record).__name__} {fields}"
