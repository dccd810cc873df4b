"""The Virtual Determinizer Framework, as one object (paper, section of that name; D-16, D-18).

The shell runs the application's threads. Each call that a thread makes on something non-deterministic is
an operation (`operations`), handed in by `invoke`; its result comes back through `drain`, now or
later. At the primary (`live`) the result comes from outside and is recorded as an order
entry; at a backup it comes from the entries that `follow` is given. Laws:

* A completion, once drained, is final; every operation gets exactly one.
* In token mode at most one thread is out (resumed or started, and not back with its next `invoke` or
  `thread_ended`). In ordered mode several may be, and the shell may run them in any order.
* `follow` takes the log in order, each entry only when the messages it needs are at the connections.
* What this replica does and what the log says must agree; else DivergenceError, after which
  this object is of no more use.
* Time enters as an argument and is used for waiting only; clock readings go through `local_clock`.

A first primary: `go_live(now)`, `start()`. A backup from birth: `start()`, `follow(...)`. A joiner:
`restore(state, now)`, `follow(...)`. Promotion: `go_live(now)` once `caught_up`.
"""

from __future__ import annotations

from collections.abc import Callable

from llft.config import ThreadMode
from llft.core.determinizer import snapshot
from llft.core.determinizer.clock import LocalClock
from llft.core.determinizer.engine import Completion, Engine
from llft.core.determinizer.ordered import OrderedEngine
from llft.core.determinizer.outside import Outside
from llft.core.determinizer.scheduler import QUANTUM_CALLS
from llft.core.determinizer.sockets import Connections
from llft.core.determinizer.token import TokenEngine
from llft.errors import MisuseError, PeerError
from llft.identifiers import ThreadId
from llft.wire.order import Entry

__all__ = ["Completion", "Determinizer"]


class Determinizer:
    def __init__(
        self,
        mode: ThreadMode,
        connections: Connections,
        record: Callable[[Entry], None],
        local_clock: LocalClock,
        random_bytes: Callable[[int], bytes],
        *,
        quantum_calls: int = QUANTUM_CALLS,
    ) -> None:
        """`quantum_calls` is for token mode, and the same at all replicas."""
        self.mode = mode
        outside = Outside(connections, record, local_clock, random_bytes)
        token = mode is ThreadMode.TOKEN
        engine: Engine = TokenEngine(outside, quantum_calls) if token else OrderedEngine(outside)
        self.engine = engine
        """Open to the replica's hot path, which asks it without a call in between."""
        self.invoke = engine.invoke
        """(thread, operation, now_ns): a thread called something. Bound, for it is the hot path."""
        self.next_deadline = engine.next_deadline
        """When to `poke` at the latest; NEVER if nothing waits for time."""

    @property
    def live(self) -> bool:
        """True at a primary. Set by `go_live`, for ever."""
        return self.engine.live

    @property
    def held(self) -> bool:
        """While True a live determinizer makes no entry: nothing is completed from outside, nothing
        is sent. What needs no entry goes on. After setting it to False, call `poke`."""
        return self.engine.held

    @held.setter
    def held(self, held: bool) -> None:
        self.engine.held = held

    @property
    def on_consumed(self) -> Callable[[int, Entry], None] | None:
        """Told of every followed entry when it is consumed, with its number: the how-manieth `follow`."""
        return self.engine.on_consumed

    @on_consumed.setter
    def on_consumed(self, on_consumed: Callable[[int, Entry], None] | None) -> None:
        self.engine.on_consumed = on_consumed

    def start(self) -> None:
        """Create thread 1, the main thread."""
        if self.engine.last_thread:
            raise MisuseError("application_started_twice", "start or restore once")
        self.engine.start()

    def thread_ended(self, thread: ThreadId) -> None:
        self.engine.thread_ended(thread)

    def poke(self, now_ns: int) -> None:
        """Something changed at the connections, or a deadline passed: retry what is blocked."""
        self.engine.poke(now_ns)

    def follow(self, entry: Entry) -> None:
        if self.engine.live:
            raise MisuseError("primary_cannot_follow", "follow only before go_live", entry=entry)
        self.engine.follow(entry)

    def follow_all(self, entries: list[Entry]) -> None:
        """The same for many: nothing stands between them."""
        if self.engine.live:
            raise MisuseError("primary_cannot_follow", "follow only before go_live", entry=entries[0])
        self.engine.follow_all(entries)

    def follow_locks(self, first: Entry, counts: list[int]) -> None:
        """The same for claims and releases of a mutex by one thread, whose entries differ in their counts
        alone."""
        if self.engine.live:
            raise MisuseError("primary_cannot_follow", "follow only before go_live", entry=first)
        self.engine.follow_locks(first, counts)

    def go_live(self, now_ns: int, *, connected: bool = True) -> None:
        """Promotion: results come from outside from now on. Not `connected`: there is no connection."""
        if self.engine.live or not self.engine.caught_up:
            raise MisuseError("promotion_too_early", "go live once, when caught_up", live=self.engine.live)
        self.engine.go_live(now_ns, connected=connected)

    def drain(self) -> list[Completion]:
        """("resume", thread, result), ("start", thread, argument), ("repeat", thread, None), in order, each
        once."""
        completions = self.engine.completions
        if completions:
            self.engine.completions = []
        return completions

    @property
    def caught_up(self) -> bool:
        """All followed entries are consumed."""
        return self.engine.caught_up

    @property
    def consumed_count(self) -> int:
        """How many of the followed entries are consumed."""
        return self.engine.consumed_count

    def is_out(self, thread: ThreadId) -> bool:
        """Whether this thread's next invoke (or end) is awaited. After `restore` the others do not invoke
        again: the operation that they wait in was in the checkpoint."""
        return self.engine.is_out(thread)

    def record_checkpoint(self) -> None:
        """At a primary, right before `snapshot`: an entry, if need be, that brings whoever follows the log to
        the very state that is captured."""
        self.engine.record_checkpoint()

    def snapshot(self) -> bytes:
        """Everything that a restored one needs to continue identically, threads that are out included
        (it will get their next invoke). All entries are consumed and all completions drained."""
        if self.engine.completions or not self.engine.caught_up:
            raise MisuseError("snapshot_not_quiescent", "drain, and be caught up")
        return snapshot.dump(self.engine.capture())

    def restore(self, state: bytes, now_ns: int, *, age_ns: int = 0) -> None:
        """Become, as a backup, what was captured, so long ago. Only for a new determinizer."""
        if self.engine.last_thread or self.engine.live:
            raise MisuseError("restored_into_a_running_one", "restore into a new determinizer")
        loaded = snapshot.load(state)
        if loaded.get("mode") != self.mode.value:
            raise PeerError("thread_modes_differ", "start all replicas alike", mode=loaded.get("mode"))
        self.engine.adopt(loaded, now_ns, age_ns)

    def statistics(self) -> dict[str, int]:
        return self.engine.statistics()
