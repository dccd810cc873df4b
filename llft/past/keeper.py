"""Keeps a replica's past bounded: captures states, has them verified, and drops the log before them.

    RESTING     -- the log has grown, the source can -->          WITNESSING
    WITNESSING  -- enough calls since, quiescent again -->        WRITING
    WRITING     -- the state is whole -->                         VERIFYING
    VERIFYING   -- the scratch process came to the same -->       RESTING, the log before the state dropped
    VERIFYING   -- it did not -->                                 RESTING, nothing dropped; later again
    any         -- FAILURES_MAX failures in a row -->             OFF

docs/CHECKPOINTS.md has the invariants. `tend` is called now and then, while nobody else uses the program's
log, and never blocks. What fails here is told and costs memory, never the replica.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple, Protocol

from llft.instant import MS, SECOND
from llft.past.birth_log import BirthLog
from llft.past.checkpoint import Base
from llft.past.lent import Kept
from llft.past.pace import USUAL, Pace
from llft.past.source import Captured, NotCapturedError, Source
from llft.past.witness import Witness

FAILURES_MAX: Final = 5
RESTS: Final = 4
"""A keeper rests at least so many times as long as its last verification took: a large state, which takes
long to write and to verify, is captured more rarely than the log alone would have it."""
LENT_GROWTH: Final = 4
"""While somebody joins, the log may grow by so many times as much before the next checkpoint."""
IMPATIENT_NS: Final = 60 * SECOND
"""After so long without a point at which a due checkpoint can be taken, people are told why."""


class Phase(Enum):
    RESTING = "resting"
    WITNESSING = "witnessing"
    WRITING = "writing"
    VERIFYING = "verifying"
    OFF = "off"


class Verdict(NamedTuple):
    digest: int
    calls: int
    content: str
    """Of the state's bytes."""
    size: int


class Remembered(Protocol):
    """Of the program: what the keeper looks at."""

    log: BirthLog
    witness: Witness | None

    def is_quiescent(self) -> bool: ...


class Scratch(Protocol):
    """A process that has been given a state and a piece of log."""

    def verdict(self) -> Verdict | None:
        """None: not yet. NotCapturedError: it failed."""

    def end(self) -> None: ...


BeginScratch = Callable[[Captured, bytes, bytes], Scratch]
"""A state, the head of the log that it needs, and the log that follows it."""


class Keeper:
    def __init__(
        self,
        application: Remembered,
        source: Source,
        begin_scratch: BeginScratch,
        say: Callable[[str], None],
        discard: Callable[[str], None],
        *,
        log_bytes: int,
        pace: Pace = USUAL,
    ) -> None:
        """A checkpoint is due when the log has grown by `log_bytes` since the last one. `discard` is told the
        paths of states that nobody needs any more."""
        self._application = application
        self._discard = discard
        self.source = source
        self._begin_scratch = begin_scratch
        self._say = say
        self._log_bytes = log_bytes
        self._pace = pace
        self.phase = Phase.RESTING
        self.base: Base | None = None
        self._states: dict[int, Kept] = {}
        """The base, the one before, and what joiners are about to use; by position, oldest first."""
        self.verified_count = self.failed_count = self.dropped_bytes = 0
        self.longest_pause_ns = self._failures = self._since_ns = 0
        self._captured: Captured | None = None
        self._witness = Witness()
        self._scratch: Scratch | None = None
        self._due_ns = self._rest_until_ns = self._birth_lent_until_ns = self._held_until_ns = 0
        self._made_way = False
        self._witnessed_to = 0
        self.trouble = ""
        """What is in the way of checkpoints, as people were told; each reason once."""

    def tend(self, now_ns: int) -> None:
        self._application.log.blocks.give_back()
        try:
            if self.phase is Phase.RESTING:
                self._rest(now_ns)
            elif self.phase is Phase.WITNESSING:
                self._witness_on(now_ns)
            elif self.phase is Phase.WRITING:
                self._await_state(now_ns)
            elif self.phase is Phase.VERIFYING:
                self._verify(now_ns)
        except (NotCapturedError, OSError) as error:
            self._fail(str(error))

    def make_way(self, until_ns: int) -> None:
        """Somebody joins, who needs what is left of the processors: what has not begun does not begin before
        that. Every checkpoint makes way once: whoever joins again and again must not keep it for ever."""
        if not self._made_way:
            self._held_until_ns = until_ns

    def adopt(self, base: Base, path: str) -> None:
        """This program was itself restored from a verified state."""
        self.base = base
        self._states = {base.position: Kept(base, path)}

    def tell(self, now_ns: int) -> Base | None:
        """The base, for somebody who is to join with it. While there is none that one goes through the log
        from birth, which is lent in its place."""
        if self.base is None:
            self._birth_lent_until_ns = now_ns + self._pace.lease_ns
        else:
            self.lend(self.base.position, now_ns)
        return self.base

    def lend(self, position: int, now_ns: int) -> str:
        """The file of the state that was captured there; "" if it is not kept. Somebody joins with it, and
        will ask for more of it, or for the log that follows it."""
        kept = self._states.get(position)
        if kept is None:
            return ""
        kept.lent_until_ns = now_ns + self._pace.lease_ns
        return kept.path

    def newest(self) -> tuple[Base | None, str]:
        """The base, and its file."""
        return (self.base, self._states[self.base.position].path) if self.base is not None else (None, "")

    def close(self) -> None:
        """This life ends."""
        self._give_up_captured()
        for kept in self._states.values():
            self._discard(kept.path)

    # -- the phases --------------------------------------------------------------------------------

    def _rest(self, now_ns: int) -> None:
        application = self._application
        log = application.log
        if now_ns < self._rest_until_ns or not application.is_quiescent():
            return
        grown = log.length - (self.base.position if self.base else log.start)
        lent = self.base is not None and self._states[self.base.position].lent_until_ns > now_ns
        wanted = (self._log_bytes << self._failures) * (LENT_GROWTH if lent else 1)
        if grown < wanted or self._makes_way(now_ns):
            return
        obstacle = self.source.obstacle()
        if obstacle:
            self._be_patient(obstacle, now_ns)
            return
        self._due_ns = 0
        self._captured = captured = self.source.capture()
        self.longest_pause_ns = max(self.longest_pause_ns, captured.pause_ns)
        self._witness = application.witness = Witness()
        self._since_ns = now_ns
        self.phase = Phase.WITNESSING

    def _makes_way(self, now_ns: int) -> bool:
        self._made_way = self._made_way or now_ns < self._held_until_ns
        return now_ns < self._held_until_ns

    def _be_patient(self, obstacle: str, now_ns: int) -> None:
        self._due_ns = self._due_ns or now_ns
        if now_ns - self._due_ns > IMPATIENT_NS and obstacle != self.trouble:
            self.trouble = obstacle
            self._say(f"no checkpoint for a while, the log grows: {obstacle}")

    def _witness_on(self, now_ns: int) -> None:
        application, captured = self._application, self._captured
        assert captured is not None
        length, watched_ns = application.log.length, now_ns - self._since_ns
        enough = self._pace.has_watched(self._witness.count, watched_ns, length - captured.position)
        if not enough or not application.is_quiescent():
            return
        application.witness, self._witnessed_to = None, length
        self.phase = Phase.WRITING
        self._await_state(now_ns)

    def _await_state(self, now_ns: int) -> None:
        """Nobody watches what the program calls meanwhile: for large messages that is dear."""
        captured, log = self._captured, self._application.log
        assert captured is not None
        if self._makes_way(now_ns) or not captured.ready():
            return
        followed = log.piece(captured.position, self._witnessed_to)
        self._scratch = self._begin_scratch(captured, log.piece(0, captured.head_bytes), followed)
        self._since_ns = now_ns
        self.phase = Phase.VERIFYING

    def _verify(self, now_ns: int) -> None:
        assert self._scratch is not None
        verdict = self._scratch.verdict()
        if verdict is None:
            if now_ns - self._since_ns > self._pace.verification_ns:
                raise NotCapturedError(f"not verified within {self._pace.verification_ns / SECOND:.0f} s")
            return
        if (verdict.digest, verdict.calls) != (self._witness.digest, self._witness.count):
            raise NotCapturedError(
                f"restored, the program called something else ({verdict.calls} calls, "
                f"{self._witness.count} here)"
            )
        self._rest_until_ns = now_ns + min(RESTS * (now_ns - self._since_ns), self._pace.rest_max_ns)
        self._take_as_base(verdict, now_ns)

    def _take_as_base(self, verdict: Verdict, now_ns: int) -> None:
        captured, self._captured = self._captured, None
        assert captured is not None
        state = (captured.position, captured.digest, verdict.size, verdict.content)
        former = self.base
        self.base = Base(self.source.name, *state, captured.head_bytes, captured.head_digest)
        self._states[captured.position] = Kept(self.base, captured.path)
        if former is not None and now_ns >= self._birth_lent_until_ns:
            self._drop(former.position, now_ns)
        self.verified_count += 1
        self._failures, self.trouble = 0, ""
        self._give_up_captured()
        self.phase = Phase.RESTING
        self._say(
            f"checkpoint at {captured.position}: {verdict.size / 1e6:.1f} MB of state by {self.source.name}, "
            f"pause {captured.pause_ns / MS:.1f} ms, verified over {verdict.calls} calls"
        )

    def _drop(self, position: int, now_ns: int) -> None:
        """The log before the former base, and what states are older: with the former base somebody may be
        told to join just now. And not what was lent."""
        lent = [at for at, kept in self._states.items() if kept.lent_until_ns > now_ns]
        first = self._states[min(position, *lent) if lent else position].base
        head_bytes = max(kept.base.head_bytes for at, kept in self._states.items() if at >= first.position)
        log = self._application.log
        self.dropped_bytes += first.position - log.start
        log.drop_before(first.position, first.digest, head_bytes=head_bytes)
        for at in [at for at in self._states if at < first.position]:
            self._discard(self._states.pop(at).path)

    # -- what went wrong -----------------------------------------------------------------------------

    def _fail(self, reason: str) -> None:
        self._give_up_captured()
        self.failed_count += 1
        self._failures += 1
        self.phase = Phase.RESTING
        if reason != self.trouble:
            self.trouble = reason
            self._say(f"no checkpoint: {reason}")
        if self._failures >= FAILURES_MAX:
            self.phase = Phase.OFF
            since = "its last checkpoint" if self.base else "birth"
            self._say(f"no more checkpoints in this life: the log is kept from {since}")

    def _give_up_captured(self) -> None:
        self._application.witness, self._made_way = None, False
        if self._scratch is not None:
            self._scratch.end()
            self._scratch = None
        if self._captured is not None:
            self._discard(self._captured.path)
            self._captured = None

    def statistics(self) -> dict[str, int | str]:
        return {
            "source": self.source.name,
            "phase": self.phase.value,
            "verified": self.verified_count,
            "failed": self.failed_count,
            "base": self.base.position if self.base else 0,
            "state_bytes": self.base.size if self.base else 0,
            "dropped_bytes": self.dropped_bytes,
            "longest_pause_us": self.longest_pause_ns // 1000,
        }
