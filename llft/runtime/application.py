"""The program's threads: their gates, the results they wait for, and the replay of a program's past.

An application thread is a real thread with a *gate*, a lock that it waits on. It is either *out* (it runs
program code) or it has called and waits. `give` puts a result into its hand: it is out again.
All methods are called with the driver's lock held, except `ApplicationThread.wait`.

A program that is restored (`begin_replay`) first goes through its past: every call that is in the birth log
is *absorbed*: it is answered from the log, and the core never hears of it. What the core says meanwhile waits
until the past is over. Laws:

1. Under the token at most one thread is out, in the replayed past too.
2. A call is either absorbed or passed on to the core, and exactly one result is given to it.
3. The thread that was out when the checkpoint was taken (it had its result, and had not called yet)
   makes its next call to the core.
"""

from __future__ import annotations

from _thread import LockType
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Final

from llft import originals
from llft.core.determinizer.operations import Operation, ReadClock, Result
from llft.errors import InvariantError
from llft.identifiers import ThreadId
from llft.past.birth_log import (
    CALLED,
    RESTORED,
    START,
    BirthLog,
    brief,
    check_brief,
    check_kind,
)
from llft.past.log_reading import Event, Past, events, events_of
from llft.past.witness import Witness, detail
from llft.runtime.application_thread import ApplicationThread
from llft.runtime.state.restart import Restart

ENDED: Final = 255  # the kind of the last "call" of a thread: it returned from its function


class Application:
    def __init__(
        self,
        *,
        ordered: bool,
        start_thread: Callable[[ApplicationThread], object],
        open_gate: Callable[[LockType], None],
    ) -> None:
        self.ordered = ordered
        self.threads: dict[ThreadId, ApplicationThread] = {}
        self.spawned: dict[str, Callable[[], None]] = {}
        """Functions of threads that were spawned and have not begun, by the argument of their Spawn."""
        self.unstarted: dict[ThreadId, str] = {}
        """The same, by the numbers that they will have."""
        self.readings: dict[int, int] | None = None
        """The last readings of each clock in a replayed past, if somebody wants to know."""
        self.out_count = 0
        self.out_for_core: dict[ThreadId, None] = {}
        """Threads with a result of the core's that have not called since. In a replayed past others run."""
        self.log = BirthLog()
        self.pump: ApplicationThread | None = None
        self.wake_pump: Callable[[], None] = lambda: None
        self._start_thread = start_thread
        self._open_gate = open_gate
        self._past: Iterator[Event] | None = None
        self._next_event: Event | None = None
        counts: tuple[Counter[ThreadId], ...] = (Counter(), Counter(), Counter())
        self._absorbable, self._made, self._calls_left = counts
        self._again: frozenset[ThreadId] = frozenset()
        """Ordered mode: calls of the past to be made again, and those made that the log has not come to."""
        self._briefs: dict[ThreadId, deque[int]] = {}
        """Of the calls that are to be made again."""
        self._out_at_checkpoint: frozenset[ThreadId] = frozenset()
        self._backlog: deque[Callable[[], None]] = deque()
        self.witness: Witness | None = None
        """While a captured state is to be verified (`state.keeper`)."""
        self.past_over: Callable[[], None] = lambda: None
        """Called once when a replayed past has ended, before anything else happens."""
        self._past_length = 0
        self._restore: Callable[[], None] = lambda: None

    @property
    def replaying(self) -> bool:
        return self._past is not None

    def add_thread(self, number: ThreadId, function: Callable[[], None] | None) -> ApplicationThread:
        thread = ApplicationThread(number, function)
        self.threads[number] = thread
        return thread

    def spawn_key(self, thread: ApplicationThread, function: Callable[[], None]) -> str:
        """The same at all replicas, in both thread modes: a parent's how-manieth child it is."""
        thread.spawned_count += 1
        key = f"{thread.number}.{thread.spawned_count}"
        self.spawned[key] = function
        return key

    def was_spawned(self, number: ThreadId, key: str) -> None:
        if key in self.spawned:
            self.unstarted[number] = key

    def is_quiescent(self) -> bool:
        """Every thread of the program has called, and none has its result."""
        return self.out_count == 0 and not self.replaying and self.log.length > 0

    # -- calls ---------------------------------------------------------------------------------

    def about(self, operation: Operation) -> int:
        """What `called` is to be told of it, if anything."""
        if self.ordered:
            return brief(operation)
        return 0 if self.witness is None else detail(operation)

    def called(self, thread: ApplicationThread, kind: int, about: int = 0) -> bool:
        """A thread is back with a call (`about`: its `birth_log.brief`), or at its end. True: it is the
        core's; False: it is of the past."""
        thread.kind = kind
        thread.out_since_ns = 0
        self.out_count -= 1
        if self.witness is not None:
            self.witness.called(thread.number, kind, about)
        if kind == ENDED:
            del self.threads[thread.number]
        if self._past is not None and self._absorbs(thread, about):
            self._advance()
            return False
        del self.out_for_core[thread.number]
        if self.ordered:
            self.log.called(thread.number, about)
        elif self._past is not None:
            self._end_past()  # law 3
        return True

    def _absorbs(self, thread: ApplicationThread, about: int) -> bool:
        if not self.ordered:
            return self._next_event is not None or thread.number not in self._out_at_checkpoint
        if not self._absorbable[thread.number]:
            return False
        self._absorbable[thread.number] -= 1
        self._made[thread.number] += 1
        check_brief(thread.number, self._briefs[thread.number].popleft(), about)
        return True

    # -- results -------------------------------------------------------------------------------

    def give(self, number: ThreadId, result: Result) -> None:
        """The core completed the operation of a thread."""
        self.out_for_core[number] = None
        if self._past is None:
            self.log.completed(number, self.threads[number].kind, result)
            self._hand_over(number, result)
        else:
            log = self.log
            place = log.completed_unseen(number, result)
            self._backlog.append(lambda: self._hand_over_late(number, result, log, place))

    def start(self, number: ThreadId, key: str) -> None:
        """The core wants a thread to begin: 1 is the main one, which is there already."""
        self.out_for_core[number] = None
        self.log.started(number, key)
        self.when_past_is_over(lambda: self._begin(number, key))

    def when_past_is_over(self, action: Callable[[], None]) -> None:
        if self._past is None:
            action()
        else:
            self._backlog.append(action)

    def _hand_over(self, number: ThreadId, result: Result) -> None:
        thread = self.threads[number]
        thread.result = result
        self._let_run(thread)

    def _hand_over_late(self, number: ThreadId, result: Result, log: BirthLog, place: int) -> None:
        """It was given while the program was in its past, maybe before the log of that past had come."""
        if log is not self.log:
            place += self._past_length
        self.log.name(place, self.threads[number].kind)
        self._hand_over(number, result)

    def _let_run(self, thread: ApplicationThread) -> None:
        if thread.given:
            raise InvariantError("result_given_twice", thread=thread.number)
        thread.given = True
        thread.out_since_ns = originals.monotonic_ns()
        self.out_count += 1
        if thread.ident == originals.get_ident():
            return
        if thread is self.pump:
            self.wake_pump()
        else:
            self._open_gate(thread.gate)

    def _begin(self, number: ThreadId, key: str) -> None:
        if number in self.threads:  # the main thread waits to begin
            self._let_run(self.threads[number])
            return
        self.unstarted.pop(number, None)
        thread = self.add_thread(number, self.spawned.pop(key))
        thread.out_since_ns = originals.monotonic_ns()
        self.out_count += 1
        self._start_thread(thread)

    # -- the past ------------------------------------------------------------------------------

    def begin_again(self, position: int, digest: int) -> None:
        """In a process restored from an image that was taken at this position: every thread waits, and what
        follows in the log is to come."""
        self.log = BirthLog(start=position, digest=digest)
        self.out_for_core = {}
        self.pump = self.witness = None

    def begin_restoring(self) -> None:
        """A checkpoint is on its way: from now on the core's results wait."""
        self._past = iter(())

    def begin_replay(
        self,
        past: Past,
        out_at_checkpoint: list[ThreadId],
        again: Sequence[ThreadId] = (),
        restart: Restart | None = None,
    ) -> None:
        """`again`: threads whose last call the core had put off; they make it once more, to the core.
        What the core gave while the log was on its way is not of the past: it follows it in the log.
        However long that is, nothing takes longer here for it: whoever holds the lock keeps the process from
        beating."""
        given, self.log = self.log, past.log
        self._past_length = past.log.length - past.log.start
        self._past = events_of(past.log, past.log.length)
        past.log.go_on(given.kept())
        out_at_checkpoint = [*out_at_checkpoint, *again]
        self._out_at_checkpoint = frozenset(out_at_checkpoint)
        self.out_for_core = dict.fromkeys(out_at_checkpoint) | self.out_for_core
        if self.ordered:
            self._briefs = past.briefs
            self._absorbable = Counter({thread: len(calls) for thread, calls in self._briefs.items()})
            self._calls_left = self._absorbable.copy()
            self._absorbable.subtract(again)
            self._again = frozenset(again)
        if restart is not None:
            self._restore = restart.restore
            self._past = chain(events(restart.head), (Event(RESTORED, 0, 0, None),), self._past)
        self._next_event = next(self._past, None)
        self._advance()

    def _advance(self) -> None:
        """Give what the log gives next: under the token one result, in ordered mode all that are due."""
        assert self._past is not None
        while (event := self._next_event) is not None:
            if event.what == CALLED and not self._past_call(event.thread):
                return
            self._next_event = next(self._past, None)
            if event.what == RESTORED:
                self._restore()
                continue
            if event.what == START:
                self._begin(event.thread, event.key)
            elif event.what != CALLED:
                check_kind(event.thread, event.kind, self.threads[event.thread].kind)
                if self.readings is not None:
                    self._note_reading(event)
                self._hand_over(event.thread, event.result)
            if not self.ordered:
                return
        self._end_past()

    def _note_reading(self, event: Event) -> None:
        operation = self.threads[event.thread].operation
        if isinstance(operation, ReadClock) and isinstance(event.result, int):
            assert self.readings is not None
            self.readings[operation.clock_id] = event.result

    def _past_call(self, number: ThreadId) -> bool:
        """The log has come to a call: whether it has been made again."""
        if self._calls_left[number] == 1 and number in self._again:
            return True  # it is not of the past: the thread will make it to the core
        if not self._made[number]:
            return False
        self._made[number] -= 1
        self._calls_left[number] -= 1
        return True

    def _end_past(self) -> None:
        """What the core said meanwhile is given now, in order."""
        self._past = None
        self.past_over()
        while self._backlog:
            self._backlog.popleft()()
