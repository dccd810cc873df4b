"""In the place of a core, where a program only repeats its past: whoever comes here has left the log."""

from __future__ import annotations

from llft.config import GroupConfig
from llft.core import effects, events
from llft.core.replica import Replica
from llft.errors import InvariantError
from llft.instant import NEVER


class NoCore(Replica):
    """Nothing of a replica is there but what a driver asks of any."""

    def __init__(self) -> None:
        self.config = GroupConfig(group_id=1)
        self.live = False
        self.next_deadline = lambda: NEVER

    def step(self, event: events.Event, now_ns: int) -> list[effects.Effect]:
        raise InvariantError("scratch_beyond_its_log", event=event)
