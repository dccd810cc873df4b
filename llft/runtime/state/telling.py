"""What a State message says of the program's past: the base, and from where on the log comes with it.

A joiner is told everything since the base. Semi-passive backups have what the update before said, so an
update has what was added since; a backup that missed one fetches what it lacks.
"""

from __future__ import annotations

from typing import Protocol

from llft.past.checkpoint import Told
from llft.runtime.driver import Driver
from llft.runtime.state.checkpoints import Checkpoints


class Life(Protocol):
    """What of a replica process is needed here."""

    driver: Driver
    checkpoints: Checkpoints


class Telling:
    """Under the driver's lock."""

    def __init__(self, life: Life) -> None:
        self._life = life
        self._told = (0, 0)
        """Length and digest of the log when somebody was told last."""

    def tell(self, *, for_joiner: bool) -> Told:
        checkpoints, log = self._life.checkpoints, self._life.driver.application.log
        base = checkpoints.base() if for_joiner else checkpoints.newest()[0]
        start = (base.position, base.digest) if base is not None else (0, 0)
        if not for_joiner:
            start = max(start, self._told)
        self._told = (log.length, log.digest)
        return Told(base, *start)
