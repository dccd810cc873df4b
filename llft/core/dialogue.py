"""A dialogue (D-74): what a thread hears and says on a connection without the core, which is told afterwards.

A server's thread that waits for its client's next message, and answers it, needs nothing of the core but what
is the connection's own: the next message, the next entries of the order log, the next message out. So the
core *lends* all of that to the thread, and whoever keeps it (`llft/dialogue`, in C) does with it what the
core would have done. Before anything else happens to the core it is *taken back*.

    not lent  --lend-->  lent to the running thread  --take back-->  not lent

Laws:

* It is lent to the thread that has the token when it is about to wait for that connection, and nobody else
  could go on: none in the run queue, none parked that something has happened to, or that waits for the same
  connection.
* Taken back, the core is as if it had been stepped with every datagram and every call, one by one; what is in
  the outbox is what these steps would have journalled.
* What the core does for reasons of its own (deadlines, other datagrams, silence, flow control, commits) it
  does itself: a dialogue ends there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llft.core.dialogue_lent import Lender, Lent
from llft.core.dialogue_made import Made, Taker
from llft.core.messaging.connection import Connection
from llft.core.standing import BACKUP, PRIMARY
from llft.errors import DivergenceError, InvariantError
from llft.identifiers import ThreadId

if TYPE_CHECKING:
    from llft.core.replica import Replica


class Dialogue:
    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._lender, self._taker = Lender(replica), Taker(replica)
        self._connection: Connection | None = None
        self.fd = 0
        """Of the connection that was lent last."""

    def lend(self, thread: ThreadId, fd: int, now_ns: int, kinds: tuple[int, int, int]) -> Lent | None:
        """To the thread that is out and is about to wait for this connection; None: not now. `kinds`: of a
        Receive, a Send and a ReadClock in the birth log."""
        lent = self._lender.lend(thread, fd, now_ns, kinds)
        if lent is not None:
            self._connection, self.fd = self._replica.messaging.table.by_fd[fd], fd
        return lent

    def take_back(self, made: Made) -> None:
        connection, self._connection = self._connection, None
        replica = self._replica
        if connection is None or replica.standing.role != (PRIMARY if replica.live else BACKUP):
            raise InvariantError("dialogue_of_nobody", role=replica.standing.role)
        if made.calls or made.taken:
            self._taker.take_in(connection, made)
            try:
                replica.settle(from_outside=bool(made.taken))
            except DivergenceError as error:
                replica.reset_and_rejoin(f"diverged: {error}")
