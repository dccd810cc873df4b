"""The driver: one core, the program's threads, the network, and a lock round the core.

An application thread's call steps the core in that very thread, and what the core wants done is done there:
datagrams leave, the gates of other threads open. If its own result is not there, and under the token nobody
else runs, the thread becomes the *pump* and serves the network until it comes: no daemon, no hand-off.
The `pacemaker` serves deadlines and the network whenever no application thread does.

Invariants (all under `lock`):

1. At most one thread is the pump. While one is, nobody is out, unless it has just been resumed.
2. Effects are performed in order before the lock is released.
3. The core needs room on the stack. A thread that has used up much of its own (a program near its recursion
   limit) has its call made by another one: a RecursionError in the midst of a step would end every primary
   in turn. What `call` itself does needs no frame of Python's: it is made whole, or not at all.
4. An exception out of the core, of an effect or of the network ends the process: a replica that does not
   know its state is better dead than wrong. Its journal and a traceback remain.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NoReturn

from llft import originals
from llft.config import ThreadMode
from llft.core import effects, events
from llft.core.determinizer.operations import Spawn
from llft.core.replica import Replica
from llft.instant import MS
from llft.past.resumed import Resumed
from llft.runtime import own_log, stack_room
from llft.runtime.application import ENDED, Application
from llft.runtime.application_thread import ApplicationThread
from llft.runtime.arrivals import Arrivals
from llft.runtime.calling import Calling
from llft.runtime.core_lock import CoreLock
from llft.runtime.dialogues import Dialogues
from llft.runtime.immediate import Immediate
from llft.runtime.lending import Lending, i_am
from llft.runtime.performing import performers
from llft.runtime.poller import Poller
from llft.runtime.spinning import Spinning
from llft.runtime.surroundings import Network, World

POLL_AT_MOST_NS: Final = 1000 * MS
UNFLUSHED_AT_MOST_NS: Final = 4 * MS
DEADLINE_PASSED: Final = events.DeadlinePassed()
_NOTES: Final = (effects.WriteRecord, effects.WriteBatch)


class Driver:
    def __init__(self, core: Replica, network: Network, world: World, poller: Poller) -> None:
        self.core = core
        self.network = network
        self.world = world
        self.poller = poller
        self.spinning = Spinning()
        self.lock = CoreLock()
        self.token = core.config.threads is ThreadMode.TOKEN
        self.application = Application(
            ordered=not self.token,
            start_thread=lambda thread: originals.start_new_thread(self._run_thread, (thread,)),
            open_gate=self.lock.open_gate,
        )
        self.application.wake_pump = poller.wake
        self.resumed = Resumed(self.application, self.step)
        self.wake_pacemaker: Callable[[], None] = lambda: None
        self.look_at_primary: Callable[[], None] = lambda: None
        """Ask the kernel about it (D-73)."""
        self.local = originals.thread_local()
        self._main = self.application.add_thread(1, None)
        self.pump_held = False
        """No thread of the program is to be the pump, or talk: an image is to be taken."""
        self._held_until_ns = 0
        self.written, self.flushed_ns = False, 0
        self._unflushed_ns = 0 if core.config.executes_alone else UNFLUSHED_AT_MOST_NS
        self.arrivals, self.immediate, self.lending = Arrivals(self), Immediate(self), Lending(self)
        self.dialogues, self.calling = Dialogues(self), Calling(self)
        self.call, self.resume = self.calling.call, self.calling.resume
        self.lock.take_back = self.lending.take_back
        self.polled_until_ns = 0
        """Until when the pacemaker waits, if it serves the network: it knows of no earlier deadline."""
        self.acts_since_ns = self.noted_ns = 0
        """As the primary: since all is done that the step which made it one wanted done; and when that was
        noted for the journal."""
        self._performers = performers(self)

    # -- what the program calls (llft.interpose.port.Port) ------------------------------------------

    def current(self) -> int:
        thread = getattr(self.local, "thread", None)
        return 0 if thread is None else thread.number

    def spawn(self, function: Callable[[], None]) -> int:
        key = self.application.spawn_key(self.local.thread, function)
        number = self.call(Spawn(key))
        assert isinstance(number, int)
        self.application.was_spawned(number, key)
        return number

    # -- threads -------------------------------------------------------------------------------------

    def run_main(self, function: Callable[[], None]) -> None:
        """The program's main thread is the process's: wait until the group lets it begin, and run it."""
        self._enter(self._main)
        self._main.wait()
        self._main.take()
        try:
            function()
        finally:
            self._ended(self._main)

    def _run_thread(self, thread: ApplicationThread) -> None:
        self._enter(thread)
        assert thread.function is not None
        try:
            thread.function()
        finally:
            self._ended(thread)

    def _enter(self, thread: ApplicationThread) -> None:
        thread.ident = originals.get_ident()
        self.local.thread = thread
        i_am(thread.number)
        self.local.room = stack_room.of_this_thread()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """The calling thread is not one of the program's meanwhile: what it calls goes past the core."""
        thread, self.local.thread = getattr(self.local, "thread", None), None
        i_am(0)
        try:
            yield
        finally:
            self.local.thread = thread
            i_am(0 if thread is None else thread.number)

    def begin_again(self, core: Replica, poller: Poller) -> None:
        """In a process restored from an image: the same program, and everything else new. Lock held."""
        self.core, self.poller = core, poller
        self.application.wake_pump = poller.wake
        self.arrivals.clear()
        self.pump_held, self.polled_until_ns, self.acts_since_ns, self.noted_ns = False, 0, 0, 0

    def _ended(self, thread: ApplicationThread) -> None:
        with self.lock:
            if self.calling.is_for_core(thread, ENDED):
                self.step(events.ThreadEnded(thread.number))
            if self.application.out_count == 0:
                self.wake_pacemaker()
        self.local.thread = None
        i_am(0)

    def may_pump(self) -> bool:
        """An application thread serves the network only at a primary: backups are lazy, and in ordered
        mode no thread knows that the others wait. There the pacemaker does."""
        return self.token and self.core.live and not self.is_pump_held() and self.application.out_count == 0

    def hold_pump(self, until_ns: int) -> None:
        """Until then at most."""
        self.pump_held, self._held_until_ns = True, until_ns
        self.poller.wake()

    def is_pump_held(self) -> bool:
        if self.pump_held and originals.monotonic_ns() >= self._held_until_ns:
            self.pump_held = False
        return self.pump_held

    def nobody_serves(self) -> bool:
        """No thread of the program is the pump, nor one out that will be when it waits. Lock held."""
        application = self.application
        return application.pump is None and not (self.token and self.core.live and application.out_count)

    # -- the network ---------------------------------------------------------------------------------

    def pump(self, thread: ApplicationThread) -> None:
        """Serve the network until a thread has something to do. Lock held, but not while polling."""
        self.application.pump = thread
        try:
            while self.application.out_count == 0 and not self.pump_held:
                self.flush()
                wait_ns = self.until_deadline()
                self.lock.release()
                try:
                    self.spinning.poll(self.poller, wait_ns)
                finally:
                    self.lock.acquire()
                self.work()
        except Exception:  # noqa: BLE001 (invariant 4: the program would take it for its own)
            self.die("while its program waited")
        finally:
            self.application.pump = None

    def until_deadline(self) -> int:
        until_ns = self.core.next_deadline()
        if self.written or self.core.outbox.strip:
            until_ns = min(until_ns, self.flushed_ns + self._unflushed_ns)
        left_ns = until_ns - originals.monotonic_ns()
        return 0 if self.arrivals.waiting else max(0, min(left_ns, POLL_AT_MOST_NS))

    def work(self) -> None:
        """Whatever has arrived, and whatever is due. Lock held.

        What arrived comes before what is due: a message that has waited here must not be missed for its
        having waited. Looking at the others took time, so there may be more by now."""
        computing = self.application.out_count > 0
        self.arrivals.look_at(computing=computing)
        for birth_id in self.network.work(originals.monotonic_ns()):
            self.step(events.PeerDied(birth_id))
        if originals.monotonic_ns() >= self.core.next_deadline():
            self.arrivals.look_at(computing=True)  # all of it, even what is in the socket
            if (now_ns := originals.monotonic_ns()) >= self.core.next_deadline():
                if now_ns >= self.core.timers.suspicion()[0]:
                    self.look_at_primary()
                self.step(DEADLINE_PASSED)

    def receive(self, data: bytes) -> None:
        """A datagram, for the core. Lock held."""
        self.step(events.MessageReceived(data))

    def happen(self, event: events.Event) -> None:
        with self.lock:
            self.step(event)

    def wish(self, event: events.Event) -> None:
        """An operator's; or what the kernel says of a peer. Lock held."""
        self.step(event)

    # -- the core ------------------------------------------------------------------------------------

    def step(self, event: events.Event) -> None:
        was_live = self.core.live
        try:
            todo = self.core.step(event, originals.monotonic_ns())
            if was_live or not self.core.live:
                self.perform(todo)
            else:
                self._begin_to_act(todo)
            while self.resumed.calls:
                self.perform(self.core.step(self.resumed.calls.popleft(), originals.monotonic_ns()))
        except Exception:  # noqa: BLE001 (invariant 4)
            self.die(f"on {type(event).__name__}")

    def _begin_to_act(self, todo: list[effects.Effect]) -> None:
        """Of the step that has made it the primary: it acts when everything is done but to note what has
        happened. To write that down can wait, too: who waits for a reply has waited enough."""
        count = len(todo)
        while count and type(todo[count - 1]) in _NOTES:
            count -= 1
        self.perform(todo[:count])
        self.acts_since_ns = originals.monotonic_ns()
        self.perform(todo[count:])
        self.noted_ns = self.flushed_ns = originals.monotonic_ns()

    def perform(self, todo: list[effects.Effect]) -> None:
        for effect in todo:
            self._performers[type(effect)](effect)

    def flush(self) -> None:
        """Whoever is about to wait hands on what was journalled, if the last time was some milliseconds ago:
        the journal packs the records of many requests at once. Lock held."""
        if self.written or self.core.outbox.strip:
            now_ns = originals.monotonic_ns()
            if now_ns - self.flushed_ns >= self._unflushed_ns:
                self.written, self.flushed_ns = False, now_ns
                self.world.flush()

    def die(self, reason: str) -> NoReturn:
        """While an exception is handled."""
        own_log.write(traceback.format_exc())
        self.world.died(reason)

    def fail_replay(self, error: Exception) -> NoReturn:
        self.die(f"the program's past could not be repeated: {error}")
