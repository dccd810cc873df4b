"""How a thread of the program makes a call: at once, in a dialogue, or through the core.

    at once         the core completes it then and there (`immediate`)
    in a dialogue   what it may have to wait for, and what follows, it hears and says itself (`dialogues`)
    through the core    it is stepped, and the thread serves the network, or waits at its gate, for the result

The driver's invariants hold here; the numbers in brackets are theirs.
"""

from __future__ import annotations

from _thread import LockType
from typing import TYPE_CHECKING, Any, Final

from llft import originals
from llft.core import events
from llft.core.determinizer.operations import (
    WOULD_BLOCK,
    Operation,
    Park,
    RandomBytes,
    ReadClock,
    Receive,
    Result,
    Select,
    Send,
    Unpark,
)
from llft.past.birth_log import OPERATION_KINDS
from llft.runtime.application_thread import ApplicationThread
from llft.runtime.dialogue_kinds import MAY_TALK
from llft.runtime.dialogues import native
from llft.runtime.lending import LENT_AFTER

if TYPE_CHECKING:
    from llft.runtime.driver import Driver

FRAMES_NEEDED: Final = 200  # by a step of the core and what follows: several times what was ever seen


class Calling:
    __slots__ = ("_driver", "made")

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self.made: dict[str, int] = {}
        """How many went through the core, by kinds; for people."""

    def call(self, operation: Operation) -> Result:
        driver = self._driver
        thread: ApplicationThread = driver.local.thread
        if driver.local.room.value > FRAMES_NEEDED:
            while self._make_call(thread, operation, thread.ident):
                left, result = _talk(operation)
                if result is native.HANDED:
                    return self.resume()
                if left is None:
                    answer: Result = result
                    return answer
                operation = left
        else:
            done = originals.allocate_lock()
            done.acquire()
            try:
                originals.start_new_thread(self._make_call_for, (thread, operation, done))
            except RuntimeError:
                driver.die("on a call, for which no thread could be started")
            done.acquire()
        if thread.waits:
            thread.gate.acquire()
        thread.given = False
        return thread.result

    def resume(self) -> Result:
        """Of a call that the core was given while the thread waited in its dialogue (`dialogues`)."""
        driver = self._driver
        thread: ApplicationThread = driver.local.thread
        with driver.lock:
            driver.dialogues.was_noticed()
            through_gate = thread.given  # by another thread, which has opened it
            if not through_gate:
                self._serve(thread)
            if not driver.core.live:
                driver.wake_pacemaker()  # it let this thread go first
            thread.waits = through_gate or not thread.given
        if thread.waits:
            thread.gate.acquire()
        thread.given = False
        return thread.result

    def _serve(self, thread: ApplicationThread) -> None:
        """Its result is not there: somebody must hear the network. Lock held."""
        driver = self._driver
        if driver.application.pump is not None:
            driver.poller.wake()  # it may be waiting for a deadline later than this call's
        elif driver.may_pump():
            driver.pump(thread)
        elif driver.pump_held:
            driver.wake_pacemaker()
        elif driver.token and not driver.core.live and driver.nobody_serves():
            driver.wake_pacemaker()  # it dozes while a dialogue lasts, and this one was left for the call
        elif not driver.token and driver.core.next_deadline() < driver.polled_until_ns:
            driver.poller.wake()

    def _make_call(self, thread: ApplicationThread, operation: Operation, home: int) -> bool:
        """`home` is the native thread in which the program's thread is. True: it is not made, but a dialogue
        is lent, in which the thread is to make it."""
        driver = self._driver
        with driver.lock:
            thread.operation = operation
            kind = OPERATION_KINDS[type(operation)]
            may_talk = kind in MAY_TALK and driver.dialogues.line is not None and thread.ident == home
            if driver.dialogues.was_left or (may_talk and self._is_overdue()):
                driver.dialogues.was_left = False
                self._see_to_outside()
            if may_talk and driver.dialogues.lend(thread, operation):
                return True
            name = type(operation).__name__
            self.made[name] = self.made.get(name, 0) + 1
            at_once = self._at_once(thread, operation, kind)
            if not at_once:
                self._invoke(thread, operation, kind)
            if not (at_once or thread.given):
                self._serve(thread)
            elif driver.core.live:
                driver.arrivals.hear_backups()
                driver.flush()  # the program may compute for long, and hold the interpreter's lock
            thread.ident, thread.waits = home, not (at_once or thread.given)
            if at_once and thread.kind in LENT_AFTER:
                driver.lending.lend(thread, home)
        return False

    def _is_overdue(self) -> bool:
        """Threads that wake one another keep the token busy, and nobody serves the network; a backup's that
        is behind never waits. What is due would wait, and no dialogue be lent meanwhile. Lock held."""
        return self._driver.core.next_deadline() <= originals.monotonic_ns()

    def _see_to_outside(self) -> None:
        """What a dialogue was left for, or is not lent for. Lock held."""
        driver = self._driver
        try:
            driver.poller.poll(0)
            driver.work()
        except Exception:  # noqa: BLE001 (invariant 4)
            driver.die("while its program was in a dialogue")

    def _at_once(self, thread: ApplicationThread, operation: Operation, kind: int) -> bool:
        """True: the call is complete, and its result is the thread's."""
        driver = self._driver
        try:
            return driver.immediate.call(thread, operation, kind)
        except Exception:  # noqa: BLE001 (invariant 4)
            driver.die(f"on {type(operation).__name__}")

    def _invoke(self, thread: ApplicationThread, operation: Operation, kind: int) -> None:
        driver = self._driver
        if self.is_for_core(thread, kind, driver.application.about(operation)):
            driver.step(events.OperationInvoked(thread.number, operation))

    def invoke_for(self, thread: ApplicationThread, operation: Operation) -> None:
        """A call of a thread that waits elsewhere. Lock held."""
        thread.operation = operation
        self._invoke(thread, operation, OPERATION_KINDS[type(operation)])

    def _make_call_for(self, thread: ApplicationThread, operation: Operation, done: LockType) -> None:
        """On an empty stack, on behalf of a thread that waits meanwhile (invariant 3)."""
        home, thread.ident = thread.ident, originals.get_ident()
        try:
            self._make_call(thread, operation, home)
        finally:
            done.release()

    def is_for_core(self, thread: ApplicationThread, kind: int, about: int = 0) -> bool:
        """Whatever goes wrong here is fatal: the program would take the exception for its own, and a member
        would be left that performs nothing."""
        driver = self._driver
        try:
            return driver.application.called(thread, kind, about)
        except Exception as error:  # noqa: BLE001 (invariant 4)
            driver.fail_replay(error)


def _talk(operation: Operation) -> tuple[Operation | None, Any]:
    """Make the call in the dialogue that is lent for it: the call that is left to be made, or None, and then
    the result, or HANDED."""
    if isinstance(operation, Select):
        fds, timeout_ns, writing, interruptible = operation
        result = native.select(fds, timeout_ns, writing, interruptible, False)
        if isinstance(result, int):
            return Select(fds, result, writing, interruptible), None
        return None, result
    if isinstance(operation, Receive) and not operation.blocking:
        return _look(operation)
    result = _talk_plainly(operation)
    return operation if result is None else None, result


def _look(operation: Receive) -> tuple[Operation | None, Any]:
    found = None if operation.peek else native.look(operation.fd, operation.limit, False)
    return operation if found is None else None, WOULD_BLOCK if found is True else found


def _talk_plainly(operation: Operation) -> Any:
    """None: it is left to be made."""
    if isinstance(operation, Receive):
        return None if operation.peek else native.receive(operation.fd, operation.limit, False)
    if isinstance(operation, Send):
        said = native.send(operation.fd, operation.payload, operation.blocking, False)
        return len(operation.payload) if said is True else said
    if isinstance(operation, ReadClock):
        return native.read_clock(operation.clock_id)
    if isinstance(operation, RandomBytes):
        return native.draw(operation.size)
    if isinstance(operation, Unpark):
        return native.unpark(operation.thread, False)
    if isinstance(operation, Park) and operation.timeout_ns < 0:
        return native.park(False)
    return None
