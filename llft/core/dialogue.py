"""A dialogue (D-74): what a thread hears and says on its connections without the core, which is told of it.

A server's thread that waits for its clients' next messages, and answers them, needs nothing of the core but
what is the connections' own: the next messages, the next entries of the order log, the next messages out. So
the core *lends* all of that to the thread, and whoever keeps it (`llft/dialogue`, in C) does with it what the
core would have done. Before anything else happens to the core it is *taken back*.

    not lent  --lend-->  lent to the running thread  --take back-->  not lent

Laws:

* It is lent to the thread that has the token when it may have to wait for these connections, and nobody else
  could go on: none in the run queue, none parked that something has happened to. Threads that are parked for
  connections that are lent, and those that wait for other threads, may go on in it (`dialogue_threads`).
* Taken back, the core is as if it had been stepped with every datagram and every call, one by one; what is in
  the outbox is what these steps would have journalled.
* What the core does for reasons of its own (deadlines, other datagrams, silence, flow control, commits) it
  does itself: a dialogue ends there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llft.core.dialogue_beats import BeatLender
from llft.core.dialogue_lent import Kinds, Lender, Lent
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
        beats = BeatLender(replica)
        self._lender, self._taker = Lender(replica, beats), Taker(replica, beats)
        self._connections: list[Connection] = []
        """Those that are lent."""

    def lend(
        self,
        thread: ThreadId,
        fds: list[int],
        now_ns: int,
        kinds: Kinds,
        patience_ns: int = 0,
        *,
        with_others: bool = False,
    ) -> Lent | None:
        """To the thread that is out and may have to wait for these descriptors; None: not now. `patience_ns`:
        so long a beat of a primary's can wait. `with_others`: the token may go to other threads there."""
        lent = self._lender.lend(thread, fds, now_ns, kinds, patience_ns, with_others=with_others)
        if lent is not None:
            table = self._replica.messaging.table.by_fd
            self._connections = [table[fd] for fd in lent.fds]
        return lent

    @property
    def why_not(self) -> str:
        """None was lent when it was asked for last."""
        return self._lender.why_not

    @property
    def deadline_ns(self) -> int:
        """By when what was lent last is left."""
        return self._lender.deadlines.deadline_ns

    def take_back(self, made: Made) -> None:
        connections, self._connections = self._connections, []
        replica = self._replica
        if not connections or replica.standing.role != (PRIMARY if replica.live else BACKUP):
            raise InvariantError("dialogue_of_nobody", role=replica.standing.role)
        beaten = made.fellow is not None or made.beats is not None
        taken = beaten or any(remote.taken for remote in made.remotes)
        if made.calls or taken or made.threads is not None:
            try:
                self._taker.take_in(connections, made)
                replica.settle(from_outside=taken)
            except DivergenceError as error:
                replica.reset_and_rejoin(f"diverged: {error}")
