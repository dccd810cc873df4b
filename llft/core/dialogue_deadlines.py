"""When a dialogue (`core.dialogue`) is left, whoever talks: for what the core has to do by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llft.core.dialogue_beats import Beats
from llft.core.messaging.connection import Connection
from llft.instant import NEVER

if TYPE_CHECKING:
    from llft.core.replica import Replica


class Deadlines:
    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._engine = replica.determinizer.engine
        self.deadline_ns = 0
        """By when what was lent last is left, but for what can wait."""

    def next_ns(self, *, may_ask: bool) -> int:
        """Also of threads that are parked: while one runs, the engine does not tell. When an answer to a
        question is overdue is lent itself."""
        self._replica.asking.is_lent = may_ask
        self.deadline_ns = min(self._replica.next_deadline(), self._of_others())
        self._replica.asking.is_lent = False
        return self.deadline_ns

    def _of_others(self) -> int:
        """At a backup the log says whose time has passed. One that is behind has come to a time before the
        log does: it would be lent nothing, and stay behind."""
        return self._engine.outside.deadlines.earliest() if self._replica.live else NEVER

    def until(
        self, connections: list[Connection], patience_ns: int, may_ask: bool, beats: Beats | None
    ) -> tuple[int, int]:
        """When it is left, and when while messages come one soon after the other: for what cannot wait."""
        if beats is not None:
            return self._while_beating(connections, may_ask)
        timers, deadline_ns = self._replica.timers, self.next_ns(may_ask=may_ask)
        if not patience_ns:
            return deadline_ns, deadline_ns
        if not self._replica.live:
            return deadline_ns, timers.late_deadline_of_backup(patience_ns)
        late_ns = timers.late_deadline(patience_ns, connections)
        return deadline_ns, max(deadline_ns, min(late_ns, self._of_others()))

    def _while_beating(self, connections: list[Connection], may_ask: bool) -> tuple[int, int]:
        """What is said to those who are idle can wait for an interval."""
        self._replica.asking.is_lent = may_ask
        timers, interval_ns = self._replica.timers, self._replica.config.timeouts.keep_alive_interval_ns
        soon_ns, late_ns = (timers.deadline_while_beating(connections, wait) for wait in (0, interval_ns))
        self._replica.asking.is_lent = False
        self.deadline_ns = min(late_ns, self._of_others())
        return min(soon_ns, self.deadline_ns), self.deadline_ns
