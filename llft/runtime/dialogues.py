"""Dialogues (D-74): lent to a thread that may have to wait for its connections, and taken back.

The laws of `lending` hold here as well: whoever holds the driver's lock finds nothing lent. A thread may wait
inside its dialogue, without the lock; whoever takes it back then makes the thread's call to the core, and the
thread, when it finds that out, waits for its result as ever (`Driver.resume`).

It is lent whether the thread has to wait or not: a server that is behind its clients never has to, and
would stay on the slow way, and behind. Behind one that ended the next is lent for any call: the rest of a
request would cost more outside than all of it inside. One that ends after a call or two costs more than it
saves. So where that happens the next ones are not lent, for longer and longer; one that lasts makes good.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from llft import originals
from llft.config import Timeouts
from llft.core.determinizer.operations import WOULD_BLOCK, Operation, Receive, Select
from llft.core.dialogue_lent import Lent
from llft.core.dialogue_made import Made, made_of
from llft.core.dialogue_threads import MadeThreads
from llft.core.standing import Standing
from llft.identifiers import NO_BIRTH, BirthId
from llft.journal.record import Stamp
from llft.past.birth_log import OPERATION_KINDS, encode_result
from llft.runtime.application_thread import ApplicationThread
from llft.runtime.dialogue_calls import (
    at_gates,
    awaited,
    concerned,
    is_timed,
    on_line,
    operation_of,
    waits_for_another,
)
from llft.runtime.dialogue_kinds import KINDS, RECEIVE
from llft.runtime.dialogue_line import Line, beating_on, note_taken, with_line
from llft.runtime.dialogue_witness import be_told
from llft.runtime.native.pulse import NoPulse, Pulse

if TYPE_CHECKING:
    from llft.runtime.driver import Driver

native: Any
try:
    from llft import reading_on
except ImportError:
    native = None
else:
    native = reading_on

NOTHING: Final = encode_result(RECEIVE, WOULD_BLOCK)
"""What the birth log has of a read that found nothing."""
WORTH_IT: Final = 4
"""Calls."""
SKIPPED_MAX: Final = 256
PATIENT_INTERVALS: Final = 2
"""Of heartbeats. So long a beat of one's own can wait while messages come, if the pulse beats meanwhile."""
NOBODY: Final = 0
"""Number of no thread."""


def dialogue_statistics() -> dict[str, Any]:
    """How often they were lent, what was heard and said in them, and why they ended."""
    found: dict[str, Any] = {} if native is None else native.dialogue_statistics()
    return found


def _stamp(standing: Standing, time_ns: int) -> Stamp:
    return Stamp(time_ns, standing.group_id, standing.birth_id, standing.view)


class Dialogues:
    __slots__ = (
        *("_births", "_driver", "_fds", "_fellow", "_goes_on", "_lent_to", "_members"),
        *("_selected", "_selecting", "_skipped", "_skipping"),
        *("deadline_ns", "lazy_ns", "leaving", "line", "patience_ns", "pulse", "refused", "was_left"),
    )

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._lent_to: ApplicationThread | None = None
        self._fds: list[int] = []
        """Of the connections that are lent."""
        self._goes_on = False
        """Dialogues follow one another: whichever call comes next is worth one."""
        self._births: list[BirthId] = []
        """Of the primaries at the other ends."""
        self._fellow = NO_BIRTH
        """Who is asked for the output commit, or asks."""
        self._members: list[BirthId] = []
        """Those whose Heartbeats are heard in it."""
        self._skipping = self._skipped = 0
        self.refused: dict[str, int] = {}
        """How often none was lent, by reasons; for people."""
        self._selecting = NOBODY
        self._selected: list[int] = []
        """The thread that selected last, and on what: it will select on these again."""
        self.line: Line | None = None
        """None: there is no such transport, and no dialogue."""
        self.lazy_ns: Callable[[int], int] = lambda now_ns: 0
        """How long a backup lets more arrive before it looks."""
        self.patience_ns = 0
        """So long a beat can wait while messages come, if the pulse beats meanwhile."""
        self.pulse: Pulse = NoPulse()
        self.deadline_ns = 0
        self.was_left = False
        """The last one ended for what came from outside: that is to be seen to, before the next is lent."""
        self.leaving: ApplicationThread | None = None
        """It waited in a dialogue that was taken back, and has not noticed yet."""

    def begin(self, line: Line | None, timeouts: Timeouts, pulse: Pulse) -> None:
        beats = not isinstance(pulse, NoPulse)
        self.line, self.pulse = line, pulse
        self.patience_ns = PATIENT_INTERVALS * timeouts.heartbeat_interval_ns if beats else 0

    def serves(self) -> bool:
        """A thread waits in its dialogue, or has just said something: it hears the network, and knows of the
        next deadline. Without the lock."""
        return native is not None and bool(native.serves())

    def waits(self) -> bool:
        """A thread waits in its dialogue now. Without the lock."""
        return native is not None and bool(native.is_waiting())

    def primary_heard_ns(self) -> int:
        """At a backup: when its primary's last Heartbeat came in the dialogue, of which the core is told when
        that ends; 0: none has. Without the lock."""
        return int(native.fellow_heard_ns()) if native is not None else 0

    def lend(self, thread: ApplicationThread, operation: Operation) -> bool:
        """For its call, which may have to wait, or at a backup is made from the log. Lock held."""
        if native is None or self.line is None:
            return False
        fds = self._of_several(thread, operation) or awaited(operation)
        if not fds and not waits_for_another(operation):
            about = concerned(operation)
            if about is None or not self._goes_on or self._driver.application.witness is not None:
                return False
            fds = self._fds or about
        if self.leaving is not None or self._skipped < self._skipping:
            self._skipped += 1
            return False
        if self._driver.application.witness is not None and is_timed(operation):
            return False  # handed over, it would be another call than the one that the program made
        # A server that is behind its clients has always some that wait, and would stay on the slow way.
        self._driver.arrivals.look_at_waiting()
        try:
            why_not = self._lend(thread, fds, self.line)
        except Exception:  # noqa: BLE001 (the driver's invariant 4)
            self._driver.die("on lending a dialogue")
        self._goes_on = not why_not
        if why_not:
            self.refused[why_not] = self.refused.get(why_not, 0) + 1
            self._fds = []
        return not why_not

    def _of_several(self, thread: ApplicationThread, operation: Operation) -> list[int]:
        """What a thread that selects is lent for a read: with that one descriptor its dialogue would end with
        the next select. None: it is for its own descriptor."""
        if isinstance(operation, Select):
            self._selecting, self._selected = thread.number, awaited(operation)
        if self._selecting != thread.number or not isinstance(operation, Receive) or not awaited(operation):
            return []
        return self._selected if operation.fd in self._selected else []

    def _lend(self, thread: ApplicationThread, fds: list[int], transport: Line) -> str:
        """Why not, or nothing."""
        driver = self._driver
        application = driver.application
        if application.replaying or driver.is_pump_held():
            return "past" if application.replaying else "image"
        if driver.arrivals.waiting or application.out_count != 1:
            return "others are out"
        now_ns = originals.monotonic_ns()
        # Where a thread serves the network, it is not at its gate; and a witness is told of one thread.
        with_others = application.pump is None and application.witness is None
        lent = driver.core.dialogue.lend(
            thread.number, fds, now_ns, KINDS, self.patience_ns, with_others=with_others
        )
        if lent is None:
            self._selecting = NOBODY  # one of several may be closed by now: the next read is for itself
            return driver.core.dialogue.why_not
        lines = [transport.line(remote.birth_id, remote.group_id) for remote in lent.remotes]
        if None in lines:
            return "processes that were not heard"
        fellow = None if lent.fellow is None else with_line(lent.fellow, transport)
        beating = None if lent.beats is None else beating_on(lent.beats, transport, self.pulse.life())
        if (lent.fellow is not None and fellow is None) or (lent.beats is not None and beating is None):
            return "members that were not heard"
        driver.flush()
        self._hand_out(thread, lent, lines, (fellow, beating), transport)
        self._members = [] if lent.beats is None else [member.birth_id for member in lent.beats.members]
        self._fellow = lent.fellow.birth_id if lent.fellow is not None else NO_BIRTH
        self.deadline_ns = driver.core.dialogue.deadline_ns + self.patience_ns
        self._lent_to, self._births = thread, [remote.birth_id for remote in lent.remotes]
        self._fds = lent.fds
        return ""

    def _hand_out(
        self,
        thread: ApplicationThread,
        lent: Lent,
        lines: list[Any],
        members: tuple[Any, Any],
        transport: Line,
    ) -> None:
        """`members`: who is asked or asks, and what beats are made of."""
        poller, application, now_ns = self._driver.poller, self._driver.application, originals.monotonic_ns()
        lazy_ns = 0 if self._driver.core.live else self.lazy_ns(now_ns)
        datagrams, hearing_fd, *_ = lines[0]
        numbers = (
            *(poller.fileno, poller.urgent_fileno, hearing_fd, transport.sending_fileno),
            *(int(now_ns < self._driver.polled_until_ns), lazy_ns, self._driver.spinning.limit_ns),
            *(int(application.witness is not None), application.log.digest),
            *lent.numbers,
        )
        remotes = [on_line(remote, line) for remote, line in zip(lent.remotes, lines, strict=True)]
        native.lend_dialogue(
            *(
                thread.ident,
                numbers,
                NOTHING,
                lent.orders,
                lent.entries,
                datagrams,
                remotes,
                lent.connections,
            ),
            None if lent.threads is None else at_gates(lent.threads, application.threads),
            *members,
        )

    def take_back(self) -> None:
        """Lock held, and a dialogue is lent."""
        thread, self._lent_to = self._lent_to, None
        assert thread is not None and self.line is not None
        told, asked, left = native.take_dialogue_back()
        made = made_of(told)
        self._judge(made.calls if made.threads is None else WORTH_IT, left)
        self.was_left = left and asked is None
        self._tell(thread, made, self.line)
        if made.threads is not None:
            thread = self._go_on_with(thread, made.threads)
        if made.calls or made.threads is not None:
            thread.out_since_ns = self._driver.core.last_step_ns
        if asked is not None:
            self._hand_over(thread, operation_of(*asked))

    def _tell(self, thread: ApplicationThread, made: Made, transport: Line) -> None:
        driver = self._driver
        if made.witnessed:
            assert driver.application.witness is not None, "it is begun and ended with the lock held"
            be_told(driver.application.witness, thread.number, self._fds, made)
        note_taken(transport, made, self._births, self._fellow, self._members)
        for frame, records, first_ns in made.journal:
            driver.written = True
            driver.world.write_frame(frame, records, _stamp(driver.core.standing, first_ns))
        driver.core.dialogue.take_back(made)
        driver.application.log.go_on_in(made.births, made.births_digest)
        if driver.core.outbox.effects:
            driver.perform(driver.core.drain())
        if made.foreign:
            driver.arrivals.put(transport.open_all(made.foreign))

    def _go_on_with(self, lent_to: ApplicationThread, made: MadeThreads) -> ApplicationThread:
        """Who is out now; the others wait at their gates, in calls that the driver has not seen."""
        application = self._driver.application
        for each in made.turned:
            thread = application.threads[each.number]
            thread.operation, thread.kind = each.operation, OPERATION_KINDS[type(each.operation)]
            thread.out_since_ns = 0
        del application.out_for_core[lent_to.number]
        application.out_for_core[made.running] = None
        return application.threads[made.running]

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
        """By the thread. Lock held. What it has heard meanwhile was for this process."""
        self.leaving = None
        left_behind = native.take_left_behind()
        if left_behind and self.line is not None:
            self._driver.arrivals.put(self.line.open_all(left_behind))
        self._driver.poller.awaited = False
