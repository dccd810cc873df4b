"""Dialogues (D-74): lent to a thread that is about to wait for its connection, and taken back.

The laws of `lending` hold here as well: whoever holds the driver's lock finds nothing lent. A thread may wait
inside its dialogue, without the lock; whoever takes it back then makes the thread's call to the core, and the
thread, when it finds that out, waits for its result as ever (`Driver.resume`).

A dialogue that ends after a call or two costs more than it saves. So where that happens the next ones are
not lent, for longer and longer; one that lasts makes good for all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from llft import originals
from llft.core.determinizer.operations import Operation, ReadClock, Receive, Send
from llft.core.dialogue_made import Made
from llft.core.standing import Standing
from llft.identifiers import BirthId, GroupId
from llft.journal.record import Stamp
from llft.past.birth_log import OPERATION_KINDS
from llft.past.witness import detail
from llft.runtime.application_thread import ApplicationThread

if TYPE_CHECKING:
    from llft.runtime.driver import Driver

native: Any
try:
    from llft import reading_on
except ImportError:
    native = None
else:
    native = reading_on

RECEIVE: Final = OPERATION_KINDS[Receive]
SEND: Final = OPERATION_KINDS[Send]
KINDS: Final = (RECEIVE, SEND, OPERATION_KINDS[ReadClock])
WORTH_IT: Final = 4
"""Calls."""
SKIPPED_MAX: Final = 256


def dialogue_statistics() -> dict[str, int]:
    """How often they were lent, what was heard and said in them, and why they ended."""
    found: dict[str, int] = {} if native is None else native.dialogue_statistics()
    return found


def _stamp(standing: Standing, time_ns: int) -> Stamp:
    return Stamp(time_ns, standing.group_id, standing.birth_id, standing.view)


class Line(Protocol):
    """Of a transport: what C needs of it to speak with the primary of a group."""

    def line(self, birth_id: BirthId, group_id: GroupId) -> tuple[Any, int, int, bytes, Any] | None:
        """Its datagrams, the descriptor that hears, the newest number of that process, its birth as envelopes
        have it, and where the group is. None: it was not heard yet."""

    def heard_on_line(self, birth_id: BirthId, numbers: list[int]) -> None:
        """Datagrams of that process with these numbers were taken."""

    def open_all(self, taken: list[Any]) -> list[bytes]:
        """Datagrams that were taken, but not looked at."""


class Dialogues:
    __slots__ = (
        *("_birth_id", "_driver", "_lent_to", "_skipped", "_skipping"),
        *("deadline_ns", "lazy_ns", "leaving", "line", "was_left"),
    )

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._lent_to: ApplicationThread | None = None
        self._birth_id: BirthId | None = None
        self._skipping = self._skipped = 0
        self.line: Line | None = None
        """None: there is no such transport, and no dialogue."""
        self.lazy_ns: Callable[[int], int] = lambda now_ns: 0
        """How long a backup lets more arrive before it looks."""
        self.deadline_ns = 0
        self.was_left = False
        """The last one ended for what came from outside: that is to be seen to, before the next is lent."""
        self.leaving: ApplicationThread | None = None
        """It waited in a dialogue that was taken back, and has not noticed yet."""

    def serves(self) -> bool:
        """A thread waits in its dialogue, or has just said something: it hears the network, and knows of the
        next deadline. Without the lock."""
        return native is not None and bool(native.serves())

    def lend(self, thread: ApplicationThread, operation: Operation) -> bool:
        """For its call, which is about to wait, or at a backup to be made from the log. Lock held."""
        if native is None or self.line is None or not isinstance(operation, Receive):
            return False
        if not operation.blocking or operation.peek or operation.limit <= 0 or self.leaving is not None:
            return False
        if self._skipped < self._skipping:
            self._skipped += 1
            return False
        try:
            return self._lend(thread, operation.fd, self.line)
        except Exception:  # noqa: BLE001 (the driver's invariant 4)
            self._driver.die("on lending a dialogue")

    def _lend(self, thread: ApplicationThread, fd: int, transport: Line) -> bool:
        driver = self._driver
        application = driver.application
        if application.replaying or driver.pump_held:
            return False
        if driver.arrivals.waiting or application.out_count != 1:
            return False
        now_ns = originals.monotonic_ns()
        lent = driver.core.dialogue.lend(thread.number, fd, now_ns, KINDS)
        if lent is None:
            return False
        line = transport.line(lent.birth_id, lent.group_id)
        if line is None:
            return False
        datagrams, hearing_fd, newest, birth, destinations = line
        poller = driver.poller
        lazy_ns = 0 if driver.core.live else self.lazy_ns(now_ns)
        numbers = (
            *(poller.fileno, poller.urgent_fileno, hearing_fd, newest, lazy_ns, driver.spinning.limit_ns),
            int(application.witness is not None),
            *lent.numbers,
        )
        driver.flush()
        native.lend_dialogue(
            *(thread.ident, numbers, lent.in_prefix, lent.out_prefix, birth, lent.orders, lent.held),
            *(lent.entries, lent.received, datagrams, destinations),
        )
        self.deadline_ns = driver.core.next_deadline()
        self._lent_to, self._birth_id = thread, lent.birth_id
        return True

    def take_back(self) -> None:
        """Lock held, and a dialogue is lent."""
        thread, self._lent_to = self._lent_to, None
        assert thread is not None and self._birth_id is not None and self.line is not None
        driver = self._driver
        made, wanted, saying, patient, left = native.take_dialogue_back()
        self._judge(made[0], left)
        self.was_left = left and saying is None and wanted < 0
        self._tell(thread, Made(*made), self._birth_id, self.line)
        if made[0]:
            thread.out_since_ns = driver.core.last_step_ns
        if saying is not None:
            self._hand_over(thread, Send(driver.core.dialogue.fd, saying, patient))
        elif wanted >= 0:
            self._hand_over(thread, Receive(driver.core.dialogue.fd, wanted, True, False))

    def _tell(self, thread: ApplicationThread, made: Made, birth_id: BirthId, transport: Line) -> None:
        driver = self._driver
        if made.witnessed:
            self._witness(thread, made)
        transport.heard_on_line(birth_id, made.taken)
        frame, records, first_ns = made.journal
        if records:
            driver.written = True
            driver.world.write_frame(frame, records, _stamp(driver.core.standing, first_ns))
        driver.core.dialogue.take_back(made)
        driver.application.log.go_on(made.births)
        if driver.core.outbox.effects:
            driver.perform(driver.core.drain())
        if made.foreign:
            driver.arrivals.put(transport.open_all(made.foreign))

    def _witness(self, thread: ApplicationThread, made: Made) -> None:
        """As `Application.called` does for every call."""
        witness, fd = self._driver.application.witness, self._driver.core.dialogue.fd
        assert witness is not None, "it is begun and ended with the lock held"
        said = iter(made.sent)
        for kind, number in made.witnessed:
            operation: Operation = ReadClock(number)
            if kind == RECEIVE:
                operation = Receive(fd, number, True, False)
            elif kind == SEND:
                operation = Send(fd, next(said)[2], True)
            witness.called(thread.number, kind, detail(operation))

    def _judge(self, calls: int, left: bool) -> None:
        """Whether more are to be lent. What came from outside would have ended any."""
        if calls >= WORTH_IT:
            self._skipping = 0
        elif not left:
            self._skipping = min(2 * self._skipping + 1, SKIPPED_MAX)
        self._skipped = 0

    def _hand_over(self, thread: ApplicationThread, operation: Operation) -> None:
        """Its call is the core's from now on. It is woken to find that out."""
        self.leaving = thread
        self._driver.calling.invoke_for(thread, operation)
        self._driver.poller.awaited = True
        self._driver.poller.wake()

    def was_noticed(self) -> None:
        """By the thread. Lock held."""
        self.leaving = None
        self._driver.poller.awaited = False
