"""A call that is completed then and there: what `Replica.step` does, without an event and a completion.

Most calls of a program need nobody: the primary reads its clock, a backup has the entry already. Law: the
replica is afterwards as if it had been stepped, and the same is in its outbox, but for the thread's
resumption.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from llft.core.determinizer.operations import Operation, Result
from llft.core.determinizer.outside import BLOCKED, Stage
from llft.core.standing import BACKUP, PRIMARY
from llft.errors import DivergenceError
from llft.identifiers import ThreadId

if TYPE_CHECKING:
    from llft.core.replica import Replica


class AtOnce:
    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.standing = replica.standing
        self.outbox = replica.outbox

    def call(self, thread: ThreadId, operation: Operation, now_ns: int) -> Result | Literal[Stage.BLOCKED]:
        """BLOCKED: nothing has happened, and the call is an event for `step`; or the outbox says what has,
        and the replica has reset."""
        replica = self.replica
        if self.standing.role != (PRIMARY if replica.live else BACKUP):
            return BLOCKED
        if now_ns - replica.last_step_ns > replica.pause_ns:
            return BLOCKED
        replica.now_ns = self.outbox.now_ns = replica.last_step_ns = now_ns
        try:
            result = replica.determinizer.engine.at_once(thread, operation, now_ns)
            if result is not BLOCKED:
                replica.settle(from_outside=False)
        except DivergenceError as error:
            replica.reset_and_rejoin(f"diverged: {error}")
            return BLOCKED
        return result
