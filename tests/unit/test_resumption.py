"""A group that goes on where an earlier one ended: threads make their calls once more."""

from __future__ import annotations

from llft.config import GroupConfig
from llft.core import effects, events
from llft.core.determinizer.operations import (
    Accept,
    Claim,
    Operation,
    Park,
    ReadClock,
    Receive,
    Release,
    Select,
    Sleep,
    Unpark,
)
from llft.core.determinizer.resumption import resumption
from llft.core.replica import Replica
from llft.identifiers import BirthId
from llft.instant import MS
from llft.past.birth_log import OPERATION_KINDS, BirthLog
from llft.past.log_reading import past_of
from llft.past.resumed import Resumed as Repeating
from llft.runtime.application import Application

NOW_NS = 1_000 * MS


class Randomness:
    def randbytes(self, n: int, /) -> bytes:
        return bytes(n)


class Resumed:
    """A core that was told of a past, driven by hand."""

    def __init__(
        self,
        standing: dict[int, Operation],
        unstarted: dict[int, str],
        readings: dict[int, int],
        held: dict[int, int] | None = None,
    ) -> None:
        self.clock_ns = 500
        self.core = Replica(
            GroupConfig(group_id=7),
            BirthId(1, 2, 3),
            local_clock=lambda clock_id: self.clock_ns,
            random=Randomness(),
        )
        past = resumption(
            standing,
            unstarted,
            next_number=1000,
            readings=readings,
            local_clock=lambda clock_id: self.clock_ns,
            held=held or {},
        )
        self.now_ns = NOW_NS
        self.begun = self.step(events.Started(alone=True, past=past))

    def step(self, event: events.Event) -> list[object]:
        """What concerns the application."""
        found = self.core.step(event, self.now_ns)
        kinds = (effects.StartApplication, effects.StartThread, effects.RepeatCall, effects.ResumeThread)
        return [effect for effect in found if isinstance(effect, kinds)]

    def invoke(self, thread: int, operation: object) -> list[object]:
        return self.step(events.OperationInvoked(thread, operation))  # type: ignore[arg-type]


def test_threads_are_picked_in_turn_and_make_their_calls_once_more() -> None:
    group = Resumed({1: Accept(), 3: Sleep(50 * MS)}, {5: "3.1"}, {})
    assert group.core.role == "primary"
    assert group.begun == [effects.RepeatCall(1)]
    assert group.invoke(1, Accept()) == [effects.RepeatCall(3)]
    assert group.invoke(3, Sleep(50 * MS)) == [effects.StartThread(5, "3.1")]
    assert group.invoke(5, Unpark(1)) == [effects.ResumeThread(5, False)]


def test_who_waited_for_another_thread_looks_again() -> None:
    """It may have been unparked, and not have come to its turn: nobody would do it once more."""
    group = Resumed({1: Park(), 3: Select((7,), -1, (), interruptible=True), 4: Select((7,), -1)}, {}, {})
    assert group.begun == [effects.ResumeThread(1, True)]
    assert group.invoke(1, Park()) == [effects.ResumeThread(3, None)]
    assert group.invoke(3, Park()) == [effects.RepeatCall(4)]


def test_connections_are_gone_and_their_descriptors_are_not_given_again() -> None:
    group = Resumed({1: Receive(17, 100)}, {}, {})
    (resumed,) = group.invoke(1, Receive(17, 100))
    assert isinstance(resumed, effects.ResumeThread)
    assert resumed.result is not None
    assert "EBADF" in str(resumed.result)
    assert group.invoke(1, Select((17,), -1)) == [effects.ResumeThread(1, (17,))]
    assert group.core.sockets.open(9) == 1000


def test_the_clock_does_not_go_back() -> None:
    group = Resumed({1: ReadClock(1)}, {}, {1: 9_000, 0: 100})
    assert group.invoke(1, ReadClock(1)) == [effects.ResumeThread(1, 9_000)]
    assert group.invoke(1, ReadClock(0)) == [effects.ResumeThread(1, 500)]
    group.clock_ns += 50
    assert group.invoke(1, ReadClock(1)) == [effects.ResumeThread(1, 9_050)]


def test_a_mutex_that_a_thread_held_is_held_by_it_still() -> None:
    group = Resumed({1: Claim(5), 3: Release(5)}, {}, {}, held={5: 3})
    assert group.invoke(1, Claim(5)) == [effects.RepeatCall(3)]
    assert group.invoke(3, Release(5)) == [effects.ResumeThread(3, True)]
    assert group.invoke(3, Park()) == [effects.ResumeThread(1, True)]


def test_who_is_in_its_past_when_a_thread_is_to_repeat_its_call_does_so_at_the_end_of_it() -> None:
    """A joiner of a restarted group: not every thread has had its turn there. Its log has nothing of it."""
    application = Application(
        ordered=False, open_gate=lambda gate: gate.release(), start_thread=lambda thread: None
    )
    thread = application.add_thread(1, None)
    made: list[events.Event] = []
    repeating = Repeating(application, made.append)
    past = BirthLog()
    past.started(1, "")
    application.begin_restoring()
    repeating.repeat(1)
    application.begin_replay(past_of(BirthLog(past.kept()), ordered=False), [])
    thread.wait()
    thread.take()
    thread.operation = Park()
    assert made == []
    assert not application.called(thread, OPERATION_KINDS[Park])
    assert made == [events.OperationInvoked(1, Park())]
    assert application.log.kept() == past.kept()
    repeating.repeat(1)
    assert list(repeating.calls) == made
