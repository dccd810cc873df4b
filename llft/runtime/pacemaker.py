"""The pacemaker: the one thread of ours in a replica process.

It beats while the program computes, and is the pump when no application thread is: of a backup always, of
a primary when all its threads wait and none of them got to it (after a promotion, when a thread ended).

What it can promise: it needs the interpreter's lock for a few hundred microseconds per beat. A program
that computes in Python hands that lock over every `SWITCH_INTERVAL_S`. While a C extension holds it for
longer, the native pulse (`runtime.native`) beats instead, for a bounded time; after that, or without a
pulse, this process is silent, and the group replaces it (it finds itself superseded, and rejoins).

A backup that is busy is *lazy*: once something has arrived it lets more arrive for LAZY_NS before it looks,
so that a stream of datagrams wakes it two thousand times a second at most. One that nobody asks for its
watermark (`core.asking`: it is not the next primary) rests for LAZIER_NS. One that had nothing to do for
BUSY_NS answers at once, and so do all for ALERT_NS after a change of the primary. Who rests is woken by a
death, and by what is sent to it alone: the question that outputs wait for.

A backup that has heard nothing of its primary for as long as it takes for a pause (`Replica.pause_ns`) asks
the kernel, again and again, whether that process is stopped (D-73): then nobody need wait for its timeout. If
it lives it is given more time; so it is asked about once more before it is suspected.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from llft import originals
from llft.core import events
from llft.core.standing import BACKUP
from llft.identifiers import BirthId
from llft.instant import MS, NEVER
from llft.past.source import RestoredError
from llft.runtime import own_log
from llft.runtime.driver import Driver
from llft.runtime.native.lifeline import LIVING, STOPPED, Lifeline
from llft.runtime.stacks import stacks

LAZY_NS: Final = MS // 2
LAZIER_NS: Final = 3 * MS
BUSY_NS: Final = 1 * MS
UNASKED_NS: Final = 50 * MS
ALERT_NS: Final = 50 * MS
SWITCH_INTERVAL_S: Final = 0.0002
DOZE_AT_LEAST_NS = LATE_NS = 5 * MS
"""While an application thread serves the network, the pacemaker only makes sure that it does."""
LONG_DOZE_NS: Final = 20 * MS
"""The same of a primary's that does so in a dialogue, which it leaves as the pump, while the pulse beats."""
HOUSEKEEPING_NS: Final = 20 * MS
RARE_HOUSEKEEPING_NS: Final = 160 * MS
"""While a dialogue would be broken off for it: questions on control sockets end one by themselves."""
LOOK_AGAIN_NS: Final = 5 * MS
TOKEN_HELD_TOO_LONG_NS: Final = 2_000 * MS


class Pacemaker:
    def __init__(
        self,
        driver: Driver,
        housekeeping: Callable[[], None],
        lifeline: Callable[[], Lifeline | None] = lambda: None,
    ) -> None:
        self.driver = driver
        self.housekeeping = housekeeping
        self._lifeline = lifeline
        self._doze = originals.allocate_lock()
        self._doze.acquire()
        self._housekept_ns = self._served_ns = self._alert_until_ns = self._looked_ns = 0
        self._view = driver.core.view
        driver.wake_pacemaker, driver.look_at_primary = self.wake, self._look_at_primary
        driver.dialogues.lazy_ns = self._lazy_ns

    def start(self) -> None:
        # In a process that has become an image these are times of another host.
        self._housekept_ns = self._served_ns = self._alert_until_ns = self._looked_ns = 0
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        originals.start_new_thread(self._run, ())

    def wake(self) -> None:
        if self._doze.locked():
            with suppress(RuntimeError):  # two at once: once is enough
                self._doze.release()

    def _run(self) -> None:
        if (lifeline := self._lifeline()) is not None:
            lifeline.listen()
        try:
            while True:
                self._beat()
        except RestoredError:
            return  # another one runs in this process already
        except BaseException:  # noqa: BLE001 (without a pacemaker the process must not go on)
            own_log.write(traceback.format_exc())
            self.driver.world.died("the pacemaker failed")

    def _beat(self) -> None:
        driver = self.driver
        if driver.dialogues.serves() and not self._is_overdue(now_ns := originals.monotonic_ns()):
            self._look_after_dialogue(now_ns)
            return
        with driver.lock:
            if driver.pump_held and driver.application.is_quiescent():
                self._keep_house(originals.monotonic_ns())  # before there is something to do again
            driver.flush()
            # Who leaves its dialogue has been woken by what it would wake from, too: it goes first.
            serve = driver.nobody_serves() and driver.dialogues.leaving is None
            wait_ns = driver.until_deadline()
            now_ns = originals.monotonic_ns()
            if serve:
                wait_ns = min(wait_ns, HOUSEKEEPING_NS * 5, max(0, self._look_ns() - now_ns))
            driver.polled_until_ns = now_ns + wait_ns if serve else 0
        if serve:
            arrived = driver.poller.poll(wait_ns)
            now_ns = originals.monotonic_ns()
            if arrived and not driver.poller.woken and (rest_ns := self._rest_ns(now_ns)):
                driver.poller.rest(min(rest_ns, max(0, driver.polled_until_ns - now_ns)))
        else:
            self._doze.acquire(True, max(wait_ns, DOZE_AT_LEAST_NS) / 1e9)
        now_ns = originals.monotonic_ns()
        if driver.dialogues.serves() and not self._is_overdue(now_ns):
            return
        with driver.lock:
            # Meanwhile a thread of the program may serve, or have been given something to do.
            if (serve and driver.nobody_serves()) or now_ns >= driver.core.next_deadline() + LATE_NS:
                driver.work()
                self._served_ns = originals.monotonic_ns()
                if self._served_ns >= self._look_ns():
                    self._look_at_primary()
            if now_ns - self._housekept_ns > HOUSEKEEPING_NS:
                self._keep_house(now_ns)

    def _keep_house(self, now_ns: int) -> None:
        """Lock held."""
        self._housekept_ns = now_ns
        self.housekeeping()
        self._watch_token(now_ns)
        self._calm_down(now_ns)

    def _is_overdue(self, now_ns: int) -> bool:
        """A thread serves the network in its dialogue, but has not left it for a deadline, as it should."""
        return now_ns >= self.driver.dialogues.deadline_ns + LATE_NS

    def _look_after_dialogue(self, now_ns: int) -> None:
        if now_ns - self._housekept_ns > RARE_HOUSEKEEPING_NS:
            with self.driver.lock:
                self._keep_house(now_ns)
            return
        if now_ns >= self._look_ns():
            self._look_from_outside()
        dialogues = self.driver.dialogues
        may_doze = self.driver.core.live and dialogues.patience_ns and dialogues.waits()
        self._doze.acquire(True, (LONG_DOZE_NS if may_doze else DOZE_AT_LEAST_NS) / 1e9)

    def _rest_ns(self, now_ns: int) -> int:
        """How long more may arrive before it is looked at."""
        lazy_ns = self._lazy_ns(now_ns)
        return lazy_ns if now_ns - self._served_ns < max(BUSY_NS, lazy_ns) else 0

    def _lazy_ns(self, now_ns: int) -> int:
        """The same of one that is busy; 0 while the primary is known to be dead, and soon after: clients
        wait."""
        core = self.driver.core
        if core.view is not self._view or core.detector.is_dead(core.view.birth_id):
            self._view = core.view
            self._alert_until_ns = now_ns + ALERT_NS
        if core.role != BACKUP or now_ns <= self._alert_until_ns:
            return 0
        intra = core.intra
        unasked = intra.passed_over_ns > intra.asked_ns and now_ns - intra.asked_ns > UNASKED_NS
        return min(LAZIER_NS, intra.timeouts.heartbeat_interval_ns // 4) if unasked else LAZY_NS

    def _look_ns(self) -> int:
        """When a backup asks whether its primary is stopped."""
        core = self.driver.core
        if core.role != BACKUP:
            return NEVER
        return max(self._silent_from_ns(), self._looked_ns + LOOK_AGAIN_NS)

    def _silent_from_ns(self) -> int:
        """When its primary has been silent for so long that it is looked at."""
        core = self.driver.core
        heard_ns = core.detector.heard_ns.get(core.view.birth_id, NEVER)
        return max(heard_ns, self.driver.dialogues.primary_heard_ns()) + core.pause_ns

    def _look_at_primary(self) -> None:
        """Lock held."""
        primary, state = self._state_of_primary()
        if state == STOPPED:
            self.driver.wish(events.PeerStopped(primary))
        elif state in LIVING:
            self.driver.wish(events.PeerRuns(primary))

    def _look_from_outside(self) -> None:
        """While a dialogue lasts, which ends for one that is stopped, and is told by itself when the primary
        would be suspected."""
        if self._state_of_primary()[1] != STOPPED:
            return
        with self.driver.lock:
            self.driver.work()  # what has come of it comes first
            if originals.monotonic_ns() >= self._silent_from_ns():
                self._look_at_primary()

    def _state_of_primary(self) -> tuple[BirthId, bytes]:
        self._looked_ns = originals.monotonic_ns()
        primary, lifeline = self.driver.core.view.birth_id, self._lifeline()
        return primary, lifeline.state(primary) if lifeline is not None else b""

    def _calm_down(self, now_ns: int) -> None:
        """Who was told of a death came before everybody else (`lifeline.c`)."""
        lifeline = self._lifeline()
        if lifeline is not None and lifeline.hurried_ns and now_ns - lifeline.hurried_ns > ALERT_NS:
            lifeline.rest()

    def _watch_token(self, now_ns: int) -> None:
        """Busy loops must not hang the token in silence: say who holds it, and where."""
        if not self.driver.token:
            return  # in ordered mode nobody waits for a thread that runs
        for thread in list(self.driver.application.threads.values()):
            since_ns = thread.out_since_ns
            if since_ns not in (0, thread.told_ns) and now_ns - since_ns > TOKEN_HELD_TOO_LONG_NS:
                thread.told_ns = since_ns
                where = "\n  ".join(stacks().get(thread.ident, ["?"]))
                held_s = (now_ns - since_ns) / 1e9
                own_log.write(
                    f"llft: thread {thread.number} has run for {held_s:.1f} s without a call that lets "
                    f"others run; they wait. It is here:\n  {where}\n"
                )
