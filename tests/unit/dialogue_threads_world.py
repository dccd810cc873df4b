"""A server of the world of dialogues whose program has several threads: what a driver does for them.

The program is one function for each thread, which makes its calls by `Threaded.call`: in a dialogue where its
server talks, else through the core. Under the token all that it decides follows from what it is given.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from llft.core import effects, events
from llft.core.determinizer.operations import (
    WOULD_BLOCK,
    Operation,
    Park,
    Receive,
    Select,
    Send,
    Spawn,
    Unpark,
    Yield,
)
from llft.past.birth_log import OPERATION_KINDS
from llft.runtime import dialogues
from tests.unit.dialogue_world import Server

Program = Callable[["Threaded"], None]


class OverError(Exception):
    """Its threads need make no more calls."""


PATIENCE_S = 20.0
TALKED_ABOUT = (Receive, Select, Park, Send, Unpark)


class Threaded:
    """`begin` goes on with the server's first thread, which is out."""

    def __init__(self, server: Server, programs: list[Program]) -> None:
        self.server, self.programs = server, programs
        self.shared: list[Any] = []
        """What the program's threads share."""
        self.parked: set[int] = set()
        self.in_dialogue = 0
        """Calls that waited for nobody's leave."""
        self.failures: list[BaseException] = []
        self._lock = threading.RLock()
        self._local = threading.local()
        self._threads: dict[int, Any] = {}
        self._native: list[threading.Thread] = []
        self._is_over = False
        server.perform = self._perform  # type: ignore[method-assign]
        application = server.dialogues._driver.application
        application.threads, application.out_for_core = self._threads, {1: None}
        server.dialogues._driver.calling.invoke_for = self._invoke_for
        self._application = application

    def begin(self) -> None:
        self._start(1)

    @property
    def me(self) -> int:
        number: int = self._local.thread.number
        return number

    # -- the calls of its threads --------------------------------------------------------------------

    def call(self, operation: Operation) -> Any:
        if self._is_over:
            raise OverError
        thread = self._local.thread
        if self.server.talks:
            made, result = self._talk(operation, counted=True)
            if made:
                self.in_dialogue += 1
                return result
        while True:
            with self._lock:
                for _ in range(self.server.take_back()):
                    self.server.step(events.MessageReceived(self.server.heard.popleft()))
                if not self._lends(thread, operation):
                    self._invoke(thread, operation)
                    break
            made, result = self._talk(operation, counted=False)
            if made:
                return result
        return self._wait(thread)

    def _lends(self, thread: Any, operation: Operation) -> bool:
        server = self.server
        if not server.talks or not isinstance(operation, TALKED_ABOUT):
            return False
        if server.dialogues._skipping:  # the last one was worth nothing: once at least the core has its turn
            server.dialogues._skipping = 0
            return False
        usual = server.core.next_deadline
        server.core.next_deadline = lambda: time.monotonic_ns() + 100_000_000_000
        lent = server.dialogues.lend(thread, operation)
        server.core.next_deadline = usual
        server.line.taken_count = 0
        return lent

    def _talk(self, operation: Operation, *, counted: bool) -> tuple[bool, Any]:
        native, result = dialogues.native, None
        left: Any = None
        if isinstance(operation, Park):
            result = native.park(counted)
        elif isinstance(operation, Unpark):
            result = native.unpark(operation.thread)
        elif isinstance(operation, Yield):
            result = native.yield_turn(counted)
        elif isinstance(operation, Select):
            result = native.select(*operation, counted)
            left = result if isinstance(result, int) else ()
        elif isinstance(operation, Receive) and operation.blocking:
            result = native.receive(operation.fd, operation.limit, counted)
        elif isinstance(operation, Receive):
            result = native.look(operation.fd, operation.limit)
            result = WOULD_BLOCK if result is True else result
        elif isinstance(operation, Send) and native.send(operation.fd, operation.payload, True):
            result = len(operation.payload)
        if result is native.HANDED:
            with self._lock:
                self.server.dialogues.was_noticed()
                self.server.line.was_woken()
            return True, self._wait(self._local.thread)
        self._speak()
        return (left == () if left is not None else result is not None), result

    def _speak(self) -> None:
        with self._lock:
            self.server._speak()

    def _invoke_for(self, thread: Any, operation: Operation) -> None:
        self._invoke(thread, operation)

    def _invoke(self, thread: Any, operation: Operation) -> None:
        thread.operation, thread.kind = operation, OPERATION_KINDS[type(operation)]
        del self._application.out_for_core[thread.number]
        self.server.step(events.OperationInvoked(thread.number, operation))

    def _wait(self, thread: Any) -> Any:
        thread.gate.acquire()
        if self._is_over:
            raise OverError
        return thread.result

    # -- what the core wants done --------------------------------------------------------------------

    def _perform(self, todo: list[effects.Effect]) -> None:
        for effect in todo:
            if isinstance(effect, effects.ResumeThread):
                thread = self._threads[effect.thread]
                self.server.log.completed(effect.thread, thread.kind, effect.result)
                self._application.out_for_core[effect.thread] = None
                thread.result = effect.result
                thread.gate.release()
            elif isinstance(effect, effects.StartThread):
                self.server.log.started(effect.thread, str(effect.argument))
                self._application.out_for_core[effect.thread] = None
                self._start(effect.thread)
            else:
                Server.perform(self.server, [effect])

    def _start(self, number: int) -> None:
        gate = threading.Lock()
        gate.acquire()
        thread = SimpleNamespace(
            number=number,
            gate=gate,
            result=None,
            given=False,
            ident=0,
            kind=0,
            operation=None,
            out_since_ns=0,
        )
        self._threads[number] = thread
        self._native.append(threading.Thread(target=self._run, args=(thread,), daemon=True))
        self._native[-1].start()

    def _run(self, thread: Any) -> None:
        thread.ident = threading.get_ident()
        self._local.thread = thread
        try:
            if thread.number == 1:
                for number in range(2, len(self.programs) + 1):
                    assert self.call(Spawn(str(number))) == number
            self.programs[thread.number - 1](self)
        except BaseException as error:  # noqa: BLE001 (whoever waits for it is told)
            if not self._is_over:
                self.failures.append(error)

    def alone(self) -> Any:
        """None of its threads can make a call meanwhile."""
        return self._lock

    # -- for whoever feeds it ------------------------------------------------------------------------

    def is_quiet(self) -> bool:
        """All of its threads wait."""
        if self.failures:
            raise self.failures[0]
        with self._lock:
            waits = self.server.is_talking and bool(dialogues.native.is_waiting())
            return waits or not self._application.out_for_core

    def settle(self) -> None:
        until_s = time.monotonic() + PATIENCE_S
        while not self.is_quiet():
            assert time.monotonic() < until_s, "its threads wait for one another"
            os.sched_yield()

    def hear(self, *, breaking_off: bool = False) -> None:
        """All that is on its way, a datagram at a time. `breaking_off`: behind each one."""
        self.settle()
        while self.server.heard:
            if self.server.is_talking:
                woken = _woken()
                self.server.feed(1)
                while self.server.is_talking and _woken() == woken:
                    os.sched_yield()
            else:
                with self._lock:
                    self.server.step(events.MessageReceived(self.server.heard.popleft()))
            self.settle()
            if breaking_off:
                self.break_off()

    def hear_at_once(self) -> None:
        """All that is on its way, before any of its threads makes another call."""
        self.settle()
        while self.server.heard:
            if self.server.is_talking:
                woken = _woken()
                with self._lock:  # or the dialogue might end before all of it is there
                    self.server.feed(len(self.server.heard))
                while self.server.is_talking and _woken() == woken:
                    os.sched_yield()
            else:
                with self._lock:
                    while self.server.heard:
                        self.server.step(events.MessageReceived(self.server.heard.popleft()))
            self.settle()

    def break_off(self) -> None:
        """What is in a dialogue is the core's: the call of who waits there; the others are at their gates."""
        self.settle()
        with self._lock:
            for _ in range(self.server.take_back()):
                self.server.step(events.MessageReceived(self.server.heard.popleft()))
        self.settle()

    def end(self) -> None:
        self.break_off()
        self.server.talks = False

    def close(self) -> None:
        """Behind `end`: all of its threads are at their gates."""
        self._is_over = True
        for thread in self._threads.values():
            thread.gate.release()
        for native_thread in self._native:
            native_thread.join(PATIENCE_S)
            assert not native_thread.is_alive()


def _woken() -> int:
    """How often a thread that waited for the network was woken."""
    count: int = dialogues.native.dialogue_statistics()["woken"]
    return count
