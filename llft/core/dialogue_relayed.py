"""What a gateway's threads hear and say on their connections without the core, which is told of it (D-76).

A gateway passes on what it reads: the one thread of a connection says it to the group, the other one hears
what the group says and waits for that as long as the connection lasts. Nothing of that is for the core to
decide. So what it keeps of such connections is lent, like to a program's thread in a dialogue
(`core.dialogue`), and taken back; but to all threads of all connections that talk, for they take no turns
(ordered mode).

    not lent  --lend-->  lent to the gateway's loop  --take back-->  not lent

Laws, beside those of dialogues:

* A connection is lent while exactly one thread waits for it, in Receive: that is the one which hears.
* What is heard leaves the system: of what was received only that is heard which is committed (D-10), by what
  its primary says, or the backup whose word was believed before it was lent (D-75).
* Nobody waits for a commit but on connections that are lent.
* It ends with a beat of this member. It is alone in its group, so what it has delivered is with all members,
  and may be told at once (`back`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from llft.core.determinizer.operations import Receive
from llft.core.determinizer.ordered import OrderedEngine
from llft.core.dialogue_beats import BeatLender
from llft.core.dialogue_lent import Kinds, Lender, Lent
from llft.core.dialogue_made import Made, Numbers, Taker
from llft.core.messaging.connection import Connection
from llft.core.standing import PRIMARY
from llft.errors import DivergenceError, InvariantError
from llft.identifiers import BirthId, GroupId, ThreadId
from llft.wire.codec import who_holds
from llft.wire.header import PREFIX_BYTES

if TYPE_CHECKING:
    from llft.core.replica import Replica

PATIENT_INTERVALS: Final = 8
"""Of heartbeats. So long a beat can wait that nobody hears; what it does is done when this ends, too."""
_NO_KINDS: Final[Kinds] = (0, 0, 0, 0, 0)
"""There is no birth log."""


class Answerer(NamedTuple):
    """A backup of a remote group whose word commits."""

    birth_id: BirthId
    group_id: GroupId
    prefix: bytes
    """Of what it says."""


class Relayed:
    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        beats = BeatLender(replica)
        self._lender, self._taker = _RelayLender(replica, beats), _RelayTaker(replica, beats)
        self._connections: list[Connection] = []
        """Those that are lent."""
        self._patience_ns = PATIENT_INTERVALS * replica.config.timeouts.heartbeat_interval_ns

    def hearer(self, fd: int) -> ThreadId:
        """The thread that hears on this connection, if it can be lent now; else 0."""
        return self._lender.hearer(fd)

    def lend(self, fds: list[int], now_ns: int) -> Lent | None:
        """Connections that have a hearer each; None: not now."""
        lent = self._lender.lend_relayed(fds, now_ns, self._patience_ns)
        if lent is not None:
            table = self._replica.messaging.table.by_fd
            self._connections = [table[fd] for fd in fds]
        return lent

    def answerers(self, group_ids: list[GroupId]) -> list[Answerer | None]:
        """Of these groups; None: nobody has answered yet."""
        held = self._replica.messaging.lane.held
        return [
            Answerer(who_holds(held[each].answer), each, held[each].answer[:PREFIX_BYTES])
            if held[each].answer
            else None
            for each in group_ids
        ]

    def take_back(self, made: Made) -> None:
        connections, self._connections = self._connections, []
        replica = self._replica
        if not connections or replica.standing.role != PRIMARY:
            raise InvariantError("relayed_by_nobody", role=replica.standing.role)
        if not made.calls and not made.remotes:
            return
        try:
            self._taker.take_in(connections, made)
            replica.intra.on_heartbeat_timer()
            replica.settle(from_outside=True)
        except DivergenceError as error:
            replica.reset_and_rejoin(f"diverged: {error}")


class _RelayLender(Lender):
    def __init__(self, replica: Replica, beats: BeatLender) -> None:
        super().__init__(replica, beats)
        self._possible = isinstance(self._engine, OrderedEngine) and replica.config.outside

    def lend_relayed(self, fds: list[int], now_ns: int, patience_ns: int) -> Lent | None:
        if not self._possible or not self._is_quiet(0, now_ns) or self._deadline_ns() <= now_ns:
            return None
        if not set(self._messaging.indexes.touched.held_back()) <= set(fds):
            return None  # a commit that is heard there would wake nobody else
        connections = self._connections(fds)
        return None if connections is None else self._lent(0, _NO_KINDS, patience_ns, connections, None)

    def hearer(self, fd: int) -> ThreadId:
        if self._connections([fd]) is None:
            return 0
        parked = self._engine.parked
        thread = self._engine.waiters.only_waiter(fd, parked)
        return thread if thread and isinstance(parked[thread], Receive) else 0

    def _is_quiet(self, thread: ThreadId, now_ns: int) -> bool:
        """Whoever could go on has, and nobody waits for anything but the outside."""
        replica, messaging, engine = self._replica, self._messaging, self._engine
        return (
            replica.standing.role == PRIMARY
            and replica.intra.lonely
            and now_ns - replica.last_step_ns <= replica.pause_ns
            and not engine.held
            and not engine.completions
            and engine.waiters.is_quiet()
            and messaging.indexes.touched.is_quiet()
            and not messaging.silent
            and not replica.reticence.silent
            and self._nobody_is_asked()
        )

    def _turn(self) -> tuple[int, int, int]:
        """There are none: a quantum is never used up."""
        return 1 << 60, 0, self._engine.outside.pick


class _RelayTaker(Taker):
    def _go_on(self, now: Numbers) -> None:
        lane = self._messaging.lane
        lane.clock.value = now.clock
        lane.order_committed = now.order_committed
