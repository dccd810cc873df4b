"""The small world of `interpose_world` in ordered mode: the program's threads run side by side, as they like.

    python -m tests.unit.interpose_ordered_world live|replay FILE CONVERSATIONS program.py ARG...

Threads are switched every few microseconds, and rest for a random while before some of their calls: two runs
never interleave alike by themselves. A replay is given the order log in pieces of random lengths, and
must not only write the same: whatever it calls has to fit the log.
"""

from __future__ import annotations

from llft import originals  # isort: skip  (before everything else)

import sys
from typing import Any, NoReturn

from llft.config import ThreadMode
from llft.core.determinizer.operations import Operation
from llft.errors import LlftError
from tests.unit.interpose_world import TOO_LONG_NS, Thread, World, fail, run_world

SWITCH_INTERVAL_S = 2e-5
RESTS = 24
"""Of 256 calls so many are preceded by a rest of up to a millisecond."""
STUCK_NS = 5_000_000_000
STEP_S = 0.0003


class OrderedWorld(World):
    threads_mode = ThreadMode.ORDERED

    def prepare(self) -> None:
        self.lock = originals.allocate_lock()
        self.main_ended = False
        self.followed = 0
        sys.setswitchinterval(SWITCH_INTERVAL_S)

    def begin(self) -> None:
        """The log is not followed yet: the outside does that, piece by piece."""
        assert self.determinizer.drain() == [("start", 1, None)]
        originals.start_new_thread(self.outside, ())

    def ordered(self) -> bool:
        return True

    def call(self, operation: Operation) -> Any:
        thread: Thread = self.local.thread
        rest()
        with self.lock:
            try:
                self.determinizer.invoke(thread.number, operation, originals.monotonic_ns())
            except LlftError as error:
                fail(f"thread {thread.number} in {operation}: {error}")
            self.deliver()
        thread.gate.acquire()
        return thread.result

    def deliver(self) -> None:
        for what, number, value in self.determinizer.drain():
            if what == "start":
                self.threads[number] = thread = Thread(number)
                originals.start_new_thread(self.run_thread, (thread, self.functions.pop(str(value))))
            else:
                self.threads[number].result = value
                self.threads[number].gate.release()

    def go_on(self, me: Thread | None) -> None:
        with self.lock:
            self.deliver()

    def outside(self) -> None:
        """What no thread of the program does: messages arrive, time passes, the log goes on."""
        changed_ns, before = originals.monotonic_ns(), -1
        while True:
            originals.sleep(STEP_S)
            with self.lock:
                now_ns = originals.monotonic_ns()
                self.go_on_live(now_ns) if self.live else self.go_on_following()
                consumed = self.determinizer.consumed_count
                if consumed != before or self.followed < len(self.log):
                    changed_ns, before = now_ns, consumed
                elif not self.live and now_ns - changed_ns > STUCK_NS:
                    fail(f"a follower is stuck: {self.determinizer.statistics()}")
                if now_ns - self.begun_ns > TOO_LONG_NS:
                    fail(f"hangs: {self.determinizer.statistics()}")

    def go_on_live(self, now_ns: int) -> None:
        self.connections.advance()
        self.determinizer.poke(now_ns)
        self.deliver()
        if self.connections.finished:
            super().end("clients served")

    def go_on_following(self) -> None:
        piece = self.log[self.followed : self.followed + 1 + originals.urandom(1)[0]]
        self.followed += len(piece)
        try:
            for entry in piece:
                self.determinizer.follow(entry)
        except LlftError as error:
            fail(f"following: {error}")
        self.deliver()
        if self.followed == len(self.log) and self.determinizer.caught_up:
            super().end("log consumed")

    def end(self, reason: object) -> NoReturn:
        """The main thread's. What other threads did before that is in the log, and is followed."""
        if self.live:
            with self.lock:
                super().end(reason)
        while True:
            originals.sleep(1)


def rest() -> None:
    chance = originals.urandom(2)
    if chance[0] < RESTS:
        originals.sleep(chance[1] * 4e-6)


if __name__ == "__main__":
    run_world(OrderedWorld)
