"""The state of a determinizer whose application is there, and whose group is not: a restart (D-64).

What a group was in the midst of is gone with it: connections, acknowledgments, who waited for whom. What is
left is the application, every thread of it standing in a call, or about to begin. So each of them is picked
in turn, and makes its call once more (RepeatCall): here, and where somebody joins before all were. Laws:

* Nothing is given twice, and no number is used again: descriptors and connections are counted on from
  `next_number`, which is greater than any that the earlier group gave.
* The group clock goes on where it was read last, or with the local clock if that is later.
* A mutex that a thread held is held by it still: the thread is in the midst of what the mutex guards.
* Who waits for another thread is unparked instead. The other one may have done that, and it was to be this
  one's turn: that was known to the earlier group only. Whoever parks looks again whether there is reason to.
"""

from __future__ import annotations

from collections.abc import Mapping

from llft.core.determinizer import snapshot
from llft.core.determinizer.clock import LocalClock
from llft.core.determinizer.mutex import MutexTable
from llft.core.determinizer.operations import Operation
from llft.core.determinizer.parking import can_be_unparked, unparked
from llft.core.determinizer.scheduler import TokenScheduler
from llft.identifiers import ThreadId


def resumption(
    standing: Mapping[ThreadId, Operation],
    unstarted: Mapping[ThreadId, object],
    *,
    next_number: int,
    readings: Mapping[int, int],
    local_clock: LocalClock,
    held: Mapping[int, ThreadId],
) -> bytes:
    """The `past` of an event Started, under the token. `standing` are the calls that threads are in;
    `unstarted` are threads that were spawned, with their arguments; `readings` are the last ones of each
    clock; `held` are the core's mutexes, with their holders."""
    scheduler = TokenScheduler()
    for thread, operation in sorted(standing.items()):
        if can_be_unparked(operation):
            scheduler.enqueue(("resume", thread, unparked(operation)))
        else:
            scheduler.enqueue(("repeat", thread, None))
    for thread, argument in sorted(unstarted.items()):
        scheduler.enqueue(("start", thread, argument))
    mutexes = MutexTable()
    for mutex, holder in sorted(held.items()):
        mutexes.claim(mutex, holder)
    clock = [[each, max(last, local_clock(each)), last] for each, last in sorted(readings.items())]
    determinizer = {
        "mode": "token",
        "last_thread": max((*standing, *unstarted)),
        "parked": {},
        "remaining": {},
        "opened": {},
        "connecting": {},
        "counts": {},
        "clock": clock,
        **scheduler.capture(),
        "mutexes": mutexes.capture(with_waiters=True),
        "pending": None,
    }
    return snapshot.dump({"next_number": next_number, "determinizer": determinizer})
