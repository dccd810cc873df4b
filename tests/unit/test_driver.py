"""The driver and the replay of a program's past, with a group of one and no network."""

from __future__ import annotations

import threading
import tracemalloc
from collections.abc import Callable
from typing import NoReturn

import pytest

from llft.config import GroupConfig, ThreadMode
from llft.core import events
from llft.core.determinizer.operations import Claim, RandomBytes, ReadClock, Release, Sleep, Yield
from llft.core.replica import Replica
from llft.errors import DivergenceError
from llft.identifiers import BirthId
from llft.instant import MS
from llft.journal.batch import Batch
from llft.journal.record import Record
from llft.past.birth_log import OPERATION_KINDS, BirthLog, encode_result
from llft.past.checkpoint import Checkpoint, Told
from llft.past.log_reading import events as logged_events
from llft.past.log_reading import past_of
from llft.runtime.application import ENDED, Application
from llft.runtime.application_thread import ApplicationThread
from llft.runtime.driver import Driver
from llft.runtime.pacemaker import Pacemaker
from llft.runtime.poller import Poller
from llft.runtime.state.restart import Restart


class Silence:
    """A network with nobody, and a world in which nothing may go wrong."""

    def multicast(self, group_id: int, data: bytes) -> None: ...
    def transmit(self, birth_id: BirthId, data: bytes) -> None: ...
    def receive(self) -> list[bytes]:
        return []

    def work(self, now_ns: int) -> list[BirthId]:
        return []

    def write(self, record: Record) -> None: ...
    def write_batch(self, batch: Batch) -> None: ...
    def flush(self) -> None: ...
    def restore(self, checkpoint: Checkpoint, done: Callable[[BirthLog, Restart | None], None]) -> None: ...
    def store(self, checkpoint: Checkpoint, answer: Callable[[bool], None]) -> None: ...
    def tell(self, *, for_joiner: bool) -> Told:
        return Told()

    def fingerprint(self) -> dict[str, dict[str, str]]:
        return {}

    def reborn(self, reason: str) -> NoReturn:
        raise AssertionError(reason)

    stopped = died = reborn


class Urandom:
    def randbytes(self, n: int, /) -> bytes:
        import os

        return os.urandom(n)


def make_driver(mode: ThreadMode) -> Driver:
    import time

    config = GroupConfig(group_id=7, threads=mode)
    core = Replica(config, BirthId(1, 2, 3), local_clock=time.clock_gettime_ns, random=Urandom())
    silence = Silence()
    return Driver(core, silence, silence, Poller())


def program(port: Driver, seen: list[object], done: threading.Event) -> None:
    """Three threads that share what they have seen, and who has ended, under locks. How often the main thread
    looks depends on it: without a lock that would be another number in each run (D-16, ordered mode)."""

    ended: list[int] = []

    def have_ended() -> bool:
        port.call(Claim(2))
        count = len(ended)
        port.call(Release(2))
        return count == 3

    def worker(name: int) -> Callable[[], None]:
        def run() -> None:
            for turn in range(20):
                port.call(Claim(1))
                seen.append((name, turn, port.call(RandomBytes(4))))
                port.call(Release(1))
                if turn % 5 == name:
                    port.call(Sleep(MS // 2))
                port.call(Yield())
            port.call(Claim(2))
            ended.append(name)
            port.call(Release(2))

        return run

    numbers = [port.spawn(worker(name)) for name in range(3)]
    seen.append(tuple(numbers))
    for _ in range(10):
        port.call(Sleep(MS))
        seen.append(port.call(ReadClock(1)))
    while not have_ended():
        port.call(Sleep(MS))
    done.set()


@pytest.mark.parametrize("mode", list(ThreadMode))
def test_a_replayed_program_sees_what_the_first_one_saw(mode: ThreadMode) -> None:
    driver = make_driver(mode)
    seen: list[object] = []
    first = threading.Event()
    run_alone(driver, lambda: program(driver, seen, first))
    assert first.wait(10)
    log = driver.application.log
    data = log.piece(0, log.length)

    again = make_driver(mode)
    replayed: list[object] = []
    second = threading.Event()
    main = threading.Thread(
        target=again.run_main, args=(lambda: program(again, replayed, second),), daemon=True
    )
    main.start()
    with again.lock:
        again.application.begin_restoring()
        past = past_of(BirthLog(data), ordered=mode is ThreadMode.ORDERED)
        again.application.begin_replay(past, list(driver.application.out_for_core))
    assert second.wait(10)
    main.join(10)
    if mode is ThreadMode.TOKEN:
        assert replayed == seen
    else:
        assert sorted(map(repr, replayed)) == sorted(map(repr, seen))
    assert not again.application.replaying


def run_alone(driver: Driver, function: Callable[[], None]) -> None:
    main = threading.Thread(target=driver.run_main, args=(function,), daemon=True)
    main.start()
    Pacemaker(driver, lambda: None).start()
    driver.happen(events.Started(alone=True))
    main.join(10)
    assert not main.is_alive()


def test_a_replayed_program_that_calls_something_else_is_found_out() -> None:
    log = BirthLog()
    log.started(1, "")
    log.completed(1, OPERATION_KINDS[ReadClock], 5)
    application = Application(
        ordered=False, open_gate=lambda gate: gate.release(), start_thread=lambda thread: None
    )
    thread = application.add_thread(1, None)
    application.begin_restoring()
    application.begin_replay(past_of(BirthLog(log.kept()), ordered=False), [1])
    thread.wait()
    thread.take()
    with pytest.raises(DivergenceError):
        application.called(thread, OPERATION_KINDS[Sleep])


def test_a_long_past_costs_nothing_while_the_lock_is_held() -> None:
    """Of three copies of 300 MB, made there, no member of a group beat for 1.6 s: it was removed, joined, and
    was removed again, for ever."""
    log = BirthLog()
    log.started(1, "")
    for _ in range(64):
        log.completed(1, OPERATION_KINDS[ReadClock], bytes(1 << 19))
    application = Application(
        ordered=False, open_gate=lambda gate: gate.release(), start_thread=lambda thread: None
    )
    application.add_thread(1, None)
    application.begin_restoring()
    past = past_of(log, ordered=False)
    tracemalloc.start()
    try:
        application.begin_replay(past, [])
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()
    assert application.log is log


def test_what_the_core_says_waits_until_the_past_is_over() -> None:
    log = BirthLog()
    log.started(1, "")
    application = Application(
        ordered=False, open_gate=lambda gate: gate.release(), start_thread=lambda thread: None
    )
    thread: ApplicationThread = application.add_thread(1, None)
    application.begin_restoring()
    application.begin_replay(past_of(BirthLog(log.kept()), ordered=False), [])
    application.give(1, 99)
    assert thread.result is None
    thread.wait()
    thread.take()
    assert not application.called(thread, OPERATION_KINDS[Sleep])
    assert thread.given
    assert thread.take() == 99
    assert application.called(thread, ENDED)


@pytest.mark.parametrize("result", [None, True, False, 0, -5, 2**63, b"", b"abc" * 100, (), (1, -2, 300)])
def test_results_survive_the_log(result: bool | int | bytes | tuple[int, ...] | None) -> None:
    log = BirthLog()
    log.completed(300, 4, result)
    [event] = list(logged_events(log.piece(0, log.length)))
    assert (event.thread, event.kind, event.result) == (300, 4, result)
    assert type(event.result) is type(result)
    assert encode_result(4, result)


def test_what_the_core_gives_while_the_log_is_on_its_way_is_in_the_log() -> None:
    """Else whoever joins from this replica's log later would miss it, and diverge."""
    application = Application(
        ordered=False, open_gate=lambda gate: gate.release(), start_thread=lambda thread: None
    )
    application.add_thread(1, None).kind = OPERATION_KINDS[ReadClock]
    application.begin_restoring()
    application.give(1, 42)
    past = BirthLog()
    past.started(1, "")
    application.begin_replay(past_of(BirthLog(past.kept()), ordered=False), [])
    logged = list(logged_events(application.log.piece(0, application.log.length)))
    assert [(event.thread, event.key, event.result) for event in logged] == [(1, "", None), (1, "", 42)]


@pytest.mark.parametrize("early", [True, False])
def test_a_member_that_replayed_has_the_same_log_as_one_that_did_not(early: bool) -> None:
    """Byte for byte, for a joiner may fetch it from either."""
    log = BirthLog()
    log.started(1, "")
    past = log.piece(0, log.length)
    log.completed(1, OPERATION_KINDS[Sleep], None)
    application = Application(
        ordered=False, open_gate=lambda gate: gate.release(), start_thread=lambda thread: None
    )
    thread = application.add_thread(1, None)
    application.begin_restoring()
    if early:
        application.give(1, None)
    application.begin_replay(past_of(BirthLog(past), ordered=False), [])
    if not early:
        application.give(1, None)
    thread.wait()
    thread.take()
    assert not application.called(thread, OPERATION_KINDS[Sleep])
    assert application.log.piece(0, application.log.length) == log.piece(0, log.length)
    assert application.log.digest == log.digest
