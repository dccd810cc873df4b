"""Ordered mode: the paper's generic algorithm and its Consistent Multi-Threading Service.

Several threads may be out at once. At the primary an operation completes as soon as it can, and every
completion makes an entry: claims, trylocks and releases of mutexes (`claims`), Spawn
(thread numbers come from one counter), Sleep, Park and Unpark (`parking`), and the outside operations.
Only Yield needs none. At a backup every call goes through the ReplayGate (lines 34-41).

For this the program must protect the data that its threads share by mutexes; then the order per
operation identifier is enough. A view change in the log is a barrier: entries behind it go to the gate
when all before it are consumed. While `held`, a live engine completes nothing that makes an entry.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final, Literal

from llft.core.determinizer.claims import Attempted, Claims
from llft.core.determinizer.engine import MAIN_THREAD, Engine, own_result, unsupported
from llft.core.determinizer.mutex import DONE
from llft.core.determinizer.operation_ids import SLEEP, SPAWN
from llft.core.determinizer.operations import (
    Claim,
    Obtain,
    Operation,
    Park,
    RandomBytes,
    ReadClock,
    Receive,
    Release,
    Result,
    Select,
    Sleep,
    Spawn,
    TryClaim,
    Unpark,
    Yield,
)
from llft.core.determinizer.outside import BLOCKED, MORE, Outside, Stage
from llft.core.determinizer.parking import Permits, can_be_unparked
from llft.core.determinizer.replay_gate import ReplayGate
from llft.core.determinizer.reproduction import diverged
from llft.errors import MisuseError
from llft.identifiers import ThreadId
from llft.instant import NEVER
from llft.wire.order import GENERAL, PRIMARY_VIEW, Entry

_AT_ONCE: Final = frozenset((Claim, TryClaim, Release, ReadClock, RandomBytes))
"""Calls that hardly ever wait, and are made often."""


class OrderedEngine(Engine):
    def __init__(self, outside: Outside) -> None:
        super().__init__(outside)
        self.gate = ReplayGate()
        self._backlog: deque[tuple[int, Entry]] = deque()
        """Entries behind a barrier that is not passed yet, and the barrier first of all."""
        self._alive: set[ThreadId] = set()
        self._permits = permits = Permits(outside, self.reproduction)
        claims = Claims(outside, self.mutexes, self._unpark)
        self._attempts: dict[type, Callable[[ThreadId, Any], Attempted]] = {
            **outside.attempts,
            Claim: claims.attempt_claim,
            TryClaim: claims.attempt_try_claim,
            Release: claims.attempt_release,
            Spawn: self._spawn,
            Sleep: self._sleep,
            Park: permits.attempt_park,
            Unpark: self._unpark_other,
            Select: permits.attempt_select,
        }
        self._reproductions: dict[type, Callable[[ThreadId, Any, Entry], Result]] = {
            Claim: claims.reproduce_claim,
            TryClaim: claims.reproduce_try_claim,
            Release: claims.reproduce_release,
            Spawn: self._reproduce_spawn,
            Sleep: self._reproduce_sleep,
            Park: permits.reproduce_park,
            Unpark: permits.reproduce_unpark,
            Select: permits.reproduce_select,
        }

    def start(self) -> None:
        self._begin_thread(None)

    def invoke(self, thread: ThreadId, operation: Operation, now_ns: int) -> None:
        self.outside.now_ns = now_ns
        if thread in self.parked or thread not in self._alive:
            raise MisuseError("thread_not_running", "one call at a time", thread=thread, operation=operation)
        kind = type(operation)
        if kind is Yield:
            self.completions.append(("resume", thread, None))
            return
        if isinstance(operation, Receive) and operation.limit <= 0:
            self.completions.append(("resume", thread, b""))  # nothing was asked for: no entry
            return
        attempt = self._attempts.get(kind)
        if attempt is None:
            raise unsupported(operation)
        if isinstance(operation, (Select, Park)):
            self.outside.set_deadline(thread, operation.timeout_ns)
        elif isinstance(operation, Sleep):
            self.outside.set_deadline(thread, operation.duration_ns)
        elif isinstance(operation, Claim) and operation.timeout_ns >= 0:
            self.outside.set_deadline(thread, operation.timeout_ns)
        if not self.live:
            self.parked[thread] = operation
            self._reproduce(thread)
            self.admit()
            return
        result = BLOCKED if self.held else attempt(thread, operation)
        if result is BLOCKED:
            self.parked[thread] = operation
            self.waiters.enter(thread, operation, tried=not self.held)
        else:
            self.completions.append(("resume", thread, result))

    def at_once(self, thread: ThreadId, operation: Operation, now_ns: int) -> Result | Literal[Stage.BLOCKED]:
        """At a backup: the thread's entry is there, and first of its operation."""
        if thread in self.parked or thread not in self._alive or type(operation) not in _AT_ONCE:
            return BLOCKED
        if isinstance(operation, Claim):
            if operation.timeout_ns >= 0 or (self.live and self.mutexes.is_held(operation.mutex)):
                return BLOCKED
        if isinstance(operation, Release) and self.mutexes.is_awaited(operation.mutex):
            return BLOCKED  # another thread goes on, and first
        self.outside.now_ns = now_ns
        if self.live:
            return BLOCKED if self.held else self._attempts[type(operation)](thread, operation)
        self.parked[thread] = operation
        self._reproduce(thread)
        if thread in self.parked:
            del self.parked[thread]
            return BLOCKED
        self.admit()
        return own_result(self.completions, thread)

    def thread_ended(self, thread: ThreadId) -> None:
        expected = self.gate.expects(thread)
        if expected is not None:
            raise diverged(thread, "the thread ended", expected)
        self._alive.discard(thread)
        self.waiters.forget(thread)

    def poke(self, now_ns: int) -> None:
        self.outside.now_ns = now_ns
        if not self.live or self.held:
            return
        for thread, operation in self.waiters.worth_trying(self.parked):
            result = self._attempts[type(operation)](thread, operation)
            if result is BLOCKED:
                self.waiters.wait_for(thread, operation)
            else:
                self._unpark(thread, result)
        self.audit()

    def next_deadline(self) -> int:
        return self.outside.deadlines.earliest() if self.live and not self.held else NEVER

    def follow(self, entry: Entry) -> None:
        self.followed_count += 1
        self._backlog.append((self.followed_count, entry))
        self.admit()

    def follow_locks(self, first: Entry, counts: list[int]) -> None:
        """As one turn, where no barrier waits: its thread waits for the first of them at most."""
        if self._backlog or first[5] != DONE:
            super().follow_locks(first, counts)
        else:
            self._check_alive(first)
            self.followed_count += len(counts)
            self._reproduce(self.gate.append(first, self.followed_count - len(counts) + 1, counts))

    def is_out(self, thread: ThreadId) -> bool:
        return thread in self._alive and thread not in self.parked

    def is_alone(self, thread: ThreadId) -> bool:
        """It is out, and no other thread is."""
        return self.is_out(thread) and len(self._alive) - len(self.parked) == 1 and not self.completions

    def turns(self, thread: ThreadId, most: int) -> Iterator[tuple[Entry, list[int]]]:
        """At a backup: as the gate has them. None before a barrier: with the last one others may go on."""
        return iter(()) if self._backlog else self.gate.turns(thread, most)

    def statistics(self) -> dict[str, int]:
        return super().statistics() | {"outstanding": self.gate.outstanding + len(self._backlog)}

    def _spawn(self, thread: ThreadId, operation: Spawn) -> Attempted:
        self.outside.record_counted(GENERAL, thread, SPAWN, b"")
        return self._begin_thread(operation.argument)

    def _sleep(self, thread: ThreadId, operation: Sleep) -> Attempted:
        if self.outside.deadlines[thread] > self.outside.now_ns:
            return BLOCKED
        del self.outside.deadlines[thread]
        self.outside.record_counted(GENERAL, thread, SLEEP, b"")
        return None

    def _unpark_other(self, thread: ThreadId, operation: Unpark) -> Attempted:
        other = operation.thread
        waiting = self.parked.get(other)
        parked = can_be_unparked(waiting)
        self._permits.give(thread, operation, alive=other in self._alive, parked=parked)
        if waiting is not None and parked:
            result = self._attempts[type(waiting)](other, waiting)
            assert result is not BLOCKED
            self._unpark(other, result)
        return parked

    def _begin_thread(self, argument: object) -> ThreadId:
        self.last_thread += 1
        assert self.last_thread >= MAIN_THREAD
        self._alive.add(self.last_thread)
        self.completions.append(("start", self.last_thread, argument))
        return self.last_thread

    def _unpark(self, thread: ThreadId, result: Result) -> None:
        del self.parked[thread]
        self.completions.append(("resume", thread, result))

    def admit(self) -> None:
        """Entries go from the log to the gate, up to a barrier whose turn has not come."""
        backlog, gate = self._backlog, self.gate
        while backlog:
            number, entry = backlog[0]
            if entry[0] >= PRIMARY_VIEW:
                if gate.outstanding:
                    return
                self.outside.connections.passed(entry)
                self.consumed(number, entry)
                backlog.popleft()
                continue
            backlog.popleft()
            self._check_alive(entry)
            self._reproduce(gate.append(entry, number))

    def _check_alive(self, entry: Entry) -> None:
        if entry[2] <= self.last_thread and entry[2] not in self._alive:
            raise diverged(entry[2], "the thread ended", entry)

    def _reproduce(self, thread: ThreadId) -> None:
        """Let the thread go on if its call's entry is there and first; then who comes after it."""
        candidates = [thread]
        while candidates:
            thread = candidates.pop()
            operation = self.parked.get(thread)
            if operation is None:
                continue
            operation_id = self.reproduction.operation_id(thread, operation)
            consumed = self.gate.intercept(thread, operation_id, self.reproduction.next_count(operation_id))
            if consumed is None:
                continue
            successor = self.gate.first(operation_id)
            if successor is not None:
                candidates.append(successor)
            if self._perform(thread, operation, consumed[1]):
                candidates.append(thread)
            self.consumed(*consumed)

    def _perform(self, thread: ThreadId, operation: Operation, entry: Entry) -> bool:
        """True if the operation has further steps."""
        perform = self._reproductions.get(type(operation))
        if perform is not None:
            self.reproduction.check(thread, operation, entry)
            self._unpark(thread, perform(thread, operation, entry))
            return False
        result = self.reproduction.reproduce(thread, operation, entry)
        if result is MORE:
            return True
        self._unpark(thread, result)
        return False

    def _reproduce_spawn(self, thread: ThreadId, operation: Spawn, entry: Entry) -> Result:
        return self._begin_thread(operation.argument)

    def _reproduce_sleep(self, thread: ThreadId, operation: Sleep, entry: Entry) -> Result:
        del self.outside.deadlines[thread]
        return None

    def capture(self) -> dict[str, Any]:
        """Waiters of mutexes are among the parked: whoever restores this is a backup first. Not so those
        that wait in Obtain (`operations.Obtain` says why)."""
        permits = sorted(self._permits.given)
        return super().capture() | {
            "parked": {thread: each for thread, each in self.parked.items() if not isinstance(each, Obtain)},
            **({"permits": permits} if permits else {}),
            "mode": "ordered",
            "mutexes": self.mutexes.capture(with_waiters=False),
            "alive": sorted(self._alive),
        }

    def adopt(self, state: dict[str, Any], now_ns: int, age_ns: int) -> None:
        super().adopt(state, now_ns, age_ns)
        self.mutexes.adopt(state["mutexes"])
        self._alive = set(state["alive"])
        self._permits.given = set(state.get("permits", ()))
