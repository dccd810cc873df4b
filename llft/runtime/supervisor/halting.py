"""Ending processes: asked (SIGTERM), given a second, then made to (SIGKILL), and reaped."""

from __future__ import annotations

import select
import signal
import time
from collections.abc import Sequence

from llft.runtime.supervisor.signals import Interruptions
from llft.runtime.supervisor.slot import Slot

TERMINATE_PATIENCE_S = 1.0
KILL_PATIENCE_S = 5.0


def halt(slots: Sequence[Slot], interruptions: Interruptions) -> list[Slot]:
    """Ends them all; interrupted once more it asks no longer. Returns those that even SIGKILL did not end in
    time.
    """
    for slot in slots:
        slot.restart_at_s = None
        slot.signal(signal.SIGTERM)
        # A stopped process would see the SIGTERM only when somebody continues it.
        slot.signal(signal.SIGCONT)
    _await_ends(slots, interruptions, TERMINATE_PATIENCE_S, until_interrupted=True)
    for slot in slots:
        slot.signal(signal.SIGKILL)
    _await_ends(slots, interruptions, KILL_PATIENCE_S, until_interrupted=False)
    for slot in slots:
        slot.end_inquiry()
    return [slot for slot in slots if slot.process is not None]


def _await_ends(
    slots: Sequence[Slot], interruptions: Interruptions, patience_s: float, *, until_interrupted: bool
) -> None:
    deadline_s = time.monotonic() + patience_s
    while (left_s := deadline_s - time.monotonic()) > 0:
        poll = select.poll()
        for slot in slots:
            slot.reap()
            if slot.process is not None:
                poll.register(slot.pidfd, select.POLLIN)
        if all(slot.process is None for slot in slots) or (until_interrupted and interruptions.number):
            return
        if until_interrupted:
            poll.register(interruptions.fileno(), select.POLLIN)
        poll.poll(left_s * 1000)
