"""The keeper: what is dropped, and when. Program, source and scratch process are driven by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from llft.core.determinizer.operations import ReadClock, Send
from llft.instant import SECOND
from llft.past.birth_log import OPERATION_KINDS
from llft.past.keeper import (
    FAILURES_MAX,
    IMPATIENT_NS,
    RESTS,
    Keeper,
    Phase,
    Verdict,
)
from llft.past.pace import USUAL
from llft.past.source import Captured, NotCapturedError
from llft.past.witness import detail
from llft.runtime.application import Application

LOG_BYTES = 100
VERIFIED_NS = SECOND // 2


class Program:
    """Thread 1 of an application, driven by hand; also the keeper's driver, source and scratch process."""

    name = "hooks"

    def __init__(self, directory: Path, log_bytes: int = LOG_BYTES) -> None:
        self.directory = directory
        self.application = Application(
            ordered=False, open_gate=lambda gate: None, start_thread=lambda thread: None
        )
        self.application.add_thread(1, None)
        self.application.start(1, "")
        self.clock = ReadClock(1)
        self._call()
        self.why_not = ""
        self.failure = ""
        self.answer: Callable[[], Verdict | None] = lambda: None
        self.given: list[tuple[int, bytes, bytes]] = []
        self.ended = 0
        self.is_slow = False
        """The child that writes."""
        self.said: list[str] = []
        self.keeper = Keeper(
            self.application,
            self,
            self.begin_scratch,
            self.said.append,
            lambda path: Path(path).unlink(missing_ok=True),
            log_bytes=log_bytes,
        )

    def _call(self) -> None:
        thread = self.application.threads[1]
        thread.given = False
        kind = OPERATION_KINDS[ReadClock]
        assert self.application.called(thread, kind, self.application.about(self.clock))

    def live(self, calls: int = 200) -> None:
        for number in range(calls):
            self.application.give(1, number)
            self._call()

    def obstacle(self) -> str:
        return self.why_not

    def capture(self) -> Captured:
        if self.failure:
            raise NotCapturedError(self.failure)
        log = self.application.log
        path = self.directory / f"state-{log.length}"
        path.write_bytes(b"state")
        self.written = 0
        return Captured(str(path), log.length, log.digest, 5, ready=self._is_written)

    def _is_written(self) -> bool:
        """A child that has ended is there to be asked once."""
        if self.is_slow:
            return False
        if self.written:
            raise NotCapturedError("No child processes")
        self.written += 1
        return True

    def begin_scratch(self, captured: Captured, head: bytes, followed: bytes) -> Program:
        self.given.append((captured.position, head, followed))
        return self

    def verdict(self) -> Verdict | None:
        return self.answer()

    def end(self) -> None:
        self.ended += 1

    def agree(self) -> None:
        """The scratch process comes to what the witness saw."""
        witness = self.application.witness
        assert witness is not None
        found = Verdict(witness.digest, witness.count, "content", 5)
        self.answer = lambda: found

    def states(self) -> list[str]:
        return sorted(path.name for path in self.directory.iterdir())


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


def checkpoint(program: Program, now_ns: int) -> int:
    """One whole round; returns the position of its state."""
    program.live()
    program.keeper.tend(now_ns)
    assert program.keeper.phase is Phase.WITNESSING
    position = program.application.log.length
    program.live()
    program.agree()
    program.keeper.tend(now_ns + 3 * SECOND)
    assert program.keeper.phase is Phase.VERIFYING
    program.keeper.tend(now_ns + 3 * SECOND + VERIFIED_NS)
    assert program.keeper.phase is Phase.RESTING
    return position


def test_nothing_happens_before_the_log_has_grown(program: Program) -> None:
    program.keeper.tend(0)
    assert program.keeper.phase is Phase.RESTING
    assert program.states() == []


def test_a_verified_state_is_the_base_and_the_log_before_the_former_one_goes(program: Program) -> None:
    first = checkpoint(program, 0)
    log = program.application.log
    assert program.keeper.base is not None
    assert (program.keeper.base.position, log.start) == (first, 0)
    second = checkpoint(program, 10 * SECOND)
    assert (program.keeper.base.position, log.start) == (second, first)
    third = checkpoint(program, 20 * SECOND)
    assert log.start == second
    assert program.states() == [f"state-{second}", f"state-{third}"]
    program.keeper.close()
    assert program.states() == []


def test_what_a_joiner_was_told_of_is_kept_until_it_has_had_time(program: Program) -> None:
    """A joiner fetches a large state for longer than the group takes to its next checkpoints, and then asks
    for the log since that state. It would never join if that were dropped meanwhile."""
    log = program.application.log
    first = checkpoint(program, 0)
    assert program.keeper.lend(first, 10 * SECOND).endswith(f"state-{first}")
    second = checkpoint(program, 11 * SECOND)
    third = checkpoint(program, 21 * SECOND)
    assert log.start == first
    assert program.states() == [f"state-{each}" for each in sorted((first, second, third), key=str)]
    assert program.keeper.lend(first, 30 * SECOND)
    checkpoint(program, 40 * SECOND)
    assert log.has(first, log.length)
    fifth = checkpoint(program, 40 * SECOND + USUAL.lease_ns)
    assert program.keeper.lend(first, 71 * SECOND) == ""
    assert program.states()[-1] == f"state-{fifth}"
    assert len(program.states()) == 2
    assert log.start > third


def test_who_was_told_to_join_from_birth_is_given_time_as_well(program: Program) -> None:
    """There was no state yet when it asked; two checkpoints later its log would be gone."""
    log = program.application.log
    assert program.keeper.tell(0) is None
    checkpoint(program, 0)
    checkpoint(program, 10 * SECOND)
    assert log.has(0, log.length)
    third = checkpoint(program, USUAL.lease_ns)
    assert 0 < log.start < third
    assert program.keeper.tell(USUAL.lease_ns) is program.keeper.base


def test_large_messages_are_watched_for_less_than_the_usual_time(program: Program) -> None:
    """And no longer until the state is written: what the scratch process has to repeat would grow with it."""
    program.live()
    program.keeper.tend(0)
    program.live(64)
    program.keeper.tend(1)
    assert program.keeper.phase is Phase.WITNESSING
    program.application.log.go_on(bytes(USUAL.witnessed_bytes))
    program.agree()
    watched = program.application.log.length
    program.is_slow = True
    program.keeper.tend(2)
    assert program.keeper.phase is Phase.WRITING
    assert program.application.witness is None
    program.live()
    program.is_slow = False
    program.keeper.tend(3)
    assert program.keeper.phase is Phase.VERIFYING
    ((position, _, followed),) = program.given
    assert position + len(followed) == watched
    program.keeper.tend(4)
    assert program.keeper.base is not None


def test_a_keeper_rests_longer_than_it_works(program: Program) -> None:
    checkpoint(program, 0)
    program.live()
    program.keeper.tend(3 * SECOND + RESTS * VERIFIED_NS)
    assert program.keeper.phase is Phase.RESTING
    program.keeper.tend(4 * SECOND + RESTS * VERIFIED_NS)
    assert program.keeper.phase is Phase.WITNESSING


def test_while_somebody_joins_checkpoints_are_rarer(tmp_path: Path) -> None:
    program = Program(tmp_path, log_bytes=600)
    first = checkpoint(program, 0)
    program.keeper.lend(first, 10 * SECOND)
    assert 600 < program.application.log.length - first < 4 * 600
    program.keeper.tend(11 * SECOND)
    assert program.keeper.phase is Phase.RESTING
    program.keeper.tend(11 * SECOND + USUAL.lease_ns)
    assert program.keeper.phase is Phase.WITNESSING


def test_the_scratch_process_gets_the_log_that_follows(program: Program) -> None:
    position = checkpoint(program, 0)
    ((given, head, followed),) = program.given
    assert (given, head) == (position, b"")
    assert followed == program.application.log.piece(position, program.application.log.length)


def verify_with(program: Program, lie: Callable[[Verdict], Verdict]) -> None:
    """A checkpoint whose scratch process says something else than it found."""
    program.live()
    program.keeper.tend(0)
    program.live()
    program.agree()
    true = program.answer()
    assert true is not None
    program.answer = lambda: lie(true)
    program.keeper.tend(3 * SECOND)
    program.keeper.tend(4 * SECOND)


def test_another_digest_is_no_checkpoint_and_drops_nothing(program: Program) -> None:
    verify_with(program, lambda true: true._replace(digest=true.digest ^ 1))
    assert program.keeper.base is None
    assert program.application.log.start == 0
    assert program.application.witness is None
    assert program.states() == []
    assert "called something else" in program.said[-1]


def test_fewer_calls_are_no_checkpoint_either(program: Program) -> None:
    verify_with(program, lambda true: true._replace(calls=true.calls - 1))
    assert program.keeper.base is None


def test_a_scratch_process_that_says_nothing_is_ended(program: Program) -> None:
    program.live()
    program.keeper.tend(0)
    program.live()
    program.keeper.tend(3 * SECOND)
    program.keeper.tend(4 * SECOND)
    assert program.keeper.phase is Phase.VERIFYING
    program.keeper.tend(4 * SECOND + USUAL.verification_ns)
    assert (program.keeper.phase, program.ended) == (Phase.RESTING, 1)
    assert program.states() == []


def test_after_some_failures_it_is_off_and_says_so(program: Program) -> None:
    program.failure = "cannot"
    for attempt in range(FAILURES_MAX):
        program.live(200 << attempt)
        program.keeper.tend(attempt * SECOND)
    assert program.keeper.phase is Phase.OFF
    assert program.said == [
        "no checkpoint: cannot",
        "no more checkpoints in this life: the log is kept from birth",
    ]
    assert program.keeper.trouble == "cannot"
    assert program.application.log.start == 0
    program.failure = ""
    program.live(10_000)
    program.keeper.tend(100 * SECOND)
    assert program.states() == []


def test_what_is_in_the_way_is_told_after_a_while_and_once(program: Program) -> None:
    program.why_not = "a connection is open"
    program.live()
    for second in range(3):
        program.keeper.tend((second + 1) * 2 * IMPATIENT_NS)
    assert program.said == ["no checkpoint for a while, the log grows: a connection is open"]
    assert program.keeper.phase is Phase.RESTING


def test_what_was_in_the_way_is_forgotten_with_the_next_checkpoint(program: Program) -> None:
    program.failure = "cannot"
    program.live()
    program.keeper.tend(0)
    assert program.keeper.trouble == "cannot"
    program.failure = ""
    program.live(400)
    checkpoint(program, SECOND)
    assert program.keeper.trouble == ""
    program.failure = "cannot"
    program.live(400)
    program.keeper.tend(60 * SECOND)
    assert program.said.count("no checkpoint: cannot") == 2, "it is news again"


def test_a_checkpoint_that_is_due_makes_way_for_who_joins(program: Program) -> None:
    program.live()
    program.keeper.make_way(3 * SECOND)
    program.keeper.tend(3 * SECOND - 1)
    assert program.states() == []
    program.keeper.tend(3 * SECOND)
    assert program.keeper.phase is Phase.WITNESSING


def test_a_trial_makes_way_and_its_state_is_not_lost_by_that(program: Program) -> None:
    program.live()
    program.keeper.tend(0)
    program.live()
    program.agree()
    program.keeper.make_way(5 * SECOND)
    for second in (3, 4):
        program.keeper.tend(second * SECOND)
        assert (program.keeper.phase, program.given) == (Phase.WRITING, [])
    program.keeper.tend(5 * SECOND)
    assert program.keeper.phase is Phase.VERIFYING
    program.keeper.tend(6 * SECOND)
    assert program.keeper.base is not None


def test_who_joins_again_and_again_does_not_keep_it_for_ever(program: Program) -> None:
    program.live()
    program.keeper.make_way(3 * SECOND)
    program.keeper.tend(2 * SECOND)
    program.keeper.make_way(5 * SECOND)
    program.keeper.tend(3 * SECOND)
    assert program.keeper.phase is Phase.WITNESSING
    program.live()
    program.agree()
    program.keeper.make_way(9 * SECOND)
    program.keeper.tend(6 * SECOND)
    program.keeper.tend(7 * SECOND)
    assert program.keeper.base is not None, "neither its capture nor its trial made way a second time"
    program.live()
    program.keeper.make_way(30 * SECOND)
    program.keeper.tend(20 * SECOND)
    assert program.keeper.phase is Phase.RESTING, "the next one does again"


def test_no_state_is_captured_while_a_thread_runs(program: Program) -> None:
    program.live()
    program.application.give(1, 5)
    program.keeper.tend(0)
    assert program.states() == []


def test_what_is_written_is_in_the_detail_of_a_call() -> None:
    assert detail(Send(3, b"one")) != detail(Send(3, b"two"))
    assert detail(Send(3, b"one")) != detail(Send(4, b"one"))
    assert detail(ReadClock(1)) != detail(ReadClock(2))
