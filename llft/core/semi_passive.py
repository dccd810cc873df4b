"""A semi-passive backup: it logs and stores states, and performs nothing until it is promoted.

Its log begins where its newest state ends. An update replaces the state, and the log up to it is dropped;
an update that is ahead of the log waits, and so does one that the shell does not hold yet (StoreState): what
would be dropped may be needed until then. Promotion restores the state and performs the log, in
the order that the primary determined: so nothing is done twice that the state contains already.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from llft.core.effects import RestoreState, StoreState
from llft.core.standing import RECOVERING
from llft.core.state_transfer import application_of
from llft.journal.record import StateApplied
from llft.wire.checksum import crc32
from llft.wire.messages import StateBody
from llft.wire.order import PRIMARY_VIEW, Entry

if TYPE_CHECKING:
    from llft.core.replica import Replica


class SemiPassive:
    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.logged: deque[tuple[Entry, int]] = deque()
        """Entries after the newest state, with their numbers."""
        self.newest_state: dict[str, Any] | None = None
        self.pending_update: StateBody | None = None
        self.storing = False
        """The shell has been given a state, and has not said that it holds it."""
        self.stored_ns = 0
        """When the newest state came: the group clock has gone on since."""

    def log_entry(self, entry: Entry, number: int) -> None:
        self.logged.append((entry, number))
        if entry[0] == PRIMARY_VIEW:
            self.replica.view_change.entries.journal(entry[1], number)

    def on_joined(self, state: dict[str, Any]) -> None:
        """The State message is adopted: what is logged from now on follows it."""
        self.newest_state, self.stored_ns = state, self.replica.now_ns
        self._store(state["application"])

    def on_update(self, body: StateBody) -> None:
        """One that comes while another is being stored is dropped: the newest is sent again."""
        if self.newest_state is not None and body.order_offset <= self.newest_state["offset"]:
            self.replica.acknowledge_state(body)
            return
        if self.storing:
            return
        application = application_of(body)
        self.pending_update = body
        self._store(application)

    def _store(self, application: bytes) -> None:
        self.storing = True
        self.replica.outbox.effects.append(StoreState(application))

    def on_stored(self, *, held: bool) -> None:
        """A joiner, a semi-active one as well, can take over from here on (D-70), and its primary hears of it
        at once."""
        standing = self.replica.standing
        if held and not standing.has_past:
            standing.has_past = self.replica.asking.answer_wanted = True
        self.storing = False
        if not held:
            self.pending_update = None
        self.apply_pending_update()

    def apply_pending_update(self) -> None:
        """Take the newest state, once the shell holds it and the log up to its point is complete."""
        replica = self.replica
        body, cursor = self.pending_update, replica.cursor
        if body is None or self.storing or cursor is None or replica.standing.role == RECOVERING:
            return
        if body.order_offset > cursor.watermark:
            return
        self.pending_update = None
        state = replica.transfer.load(body)
        replica.acknowledge_state(body)
        if self.newest_state is not None and state["count"] <= self.newest_state["count"]:
            return
        while self.logged and self.logged[0][1] <= state["count"]:
            self.logged.popleft()
        self.newest_state = state
        self.stored_ns = replica.now_ns
        replica.transfer.apply_execution(state)
        application = state["application"]
        replica.outbox.record(StateApplied, state["count"], len(application), crc32(application))

    def execute_log(self) -> None:
        """Promotion: restore the newest state, perform what was logged since."""
        replica, state = self.replica, self.newest_state
        assert state is not None, "only a member with state proposes itself"
        replica.begin_performing(state["count"])
        age_ns = replica.now_ns - self.stored_ns
        replica.determinizer.restore(state["determinizer"], replica.now_ns, age_ns=age_ns)
        replica.outbox.effects.append(RestoreState(state["application"]))
        while self.logged:
            entry, _ = self.logged.popleft()
            replica.determinizer.follow(entry)
