"""Runs (D-72) in C: what a call gives, what it leaves, and when it goes the usual way."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from llft.core.determinizer.ordered_runs import ORDERED_RUN_MAX
from tests.unit.compiled_parts import compiled_part

pytestmark = pytest.mark.reference

USUAL = -1.0
FAR = 1 << 62
NO_CLOCKS = (0, -FAR, 0, -FAR, 0, -FAR)


@pytest.fixture(scope="module")
def part() -> Any:
    return compiled_part("llft.reading_on")


@pytest.fixture
def runs(part: Any) -> Iterator[Any]:
    part.begin([], 256)
    part.set_calls(0)
    yield part
    part.close()


@pytest.fixture
def clock(runs: Any) -> Any:
    return runs.function("time", lambda: USUAL)


def test_without_a_run_a_call_goes_its_usual_way(runs: Any, clock: Any) -> None:
    assert not runs.is_open()
    assert clock() == USUAL
    assert runs.reading(0) is None
    assert runs.close() is None


def test_a_primary_reads_its_clock_and_notes_what_it_read(runs: Any, clock: Any) -> None:
    runs.open_live(threading.get_ident(), 5, NO_CLOCKS, -1)
    before, value, after = time.time(), clock(), time.time()
    assert before <= value <= after
    ns = runs.reading(1)
    assert runs.is_open()
    codes, values, _, _ = runs.close()
    assert codes == bytes((0, 1))
    assert values[0] / 1e9 == value
    assert values[1] == ns
    assert not runs.is_open()
    assert clock() == USUAL


def test_the_groups_offset_is_added_and_no_reading_goes_back(runs: Any, clock: Any) -> None:
    now_ns = time.time_ns()
    runs.open_live(threading.get_ident(), 9, (-(10**12), 0, 0, 0, 0, 0), -1)
    assert now_ns - 10**12 <= clock() * 1e9 + 1000 < now_ns
    assert runs.close() is not None
    runs.open_live(threading.get_ident(), 9, (0, now_ns + 10**12, 0, 0, 0, 0), -1)
    assert clock() == USUAL
    runs.open_live(threading.get_ident(), 9, (FAR * 2 - 1, 0, 0, 0, 0, 0), -1)
    assert clock() == USUAL, "more than 64 bits"
    assert runs.close() is None


def test_near_the_recursion_limit_all_go_the_usual_way(runs: Any, clock: Any) -> None:
    """Which takes more levels than a call in a run: the error is to come at the same call at all replicas."""

    def down(levels: int) -> float:
        return float(clock()) if levels == 0 else down(levels - 1)

    depth = 0
    frame = sys._getframe()
    while frame is not None:
        depth, frame = depth + 1, frame.f_back  # type: ignore[assignment]
    room = sys.getrecursionlimit() - depth
    runs.open_live(threading.get_ident(), 60, NO_CLOCKS, -1)
    assert down(room - 120) != USUAL
    assert down(room - 40) == USUAL
    assert down(room - 120) != USUAL


def test_who_profiles_sees_every_call(runs: Any, clock: Any) -> None:
    runs.open_live(threading.get_ident(), 60, NO_CLOCKS, -1)
    sys.setprofile(lambda *event: None)
    try:
        assert clock() == USUAL
    finally:
        sys.setprofile(None)
    assert clock() != USUAL


def test_calls_that_nobody_was_told_of_are_not_forgotten(runs: Any, clock: Any) -> None:
    runs.open_live(threading.get_ident(), 9, NO_CLOCKS, -1)
    clock()
    for lend in (
        lambda: runs.open_live(threading.get_ident(), 9, NO_CLOCKS, -1),
        lambda: runs.open_log(threading.get_ident(), b"\0", [1]),
    ):
        with pytest.raises(RuntimeError, match="was used"):
            lend()
    assert len(runs.close()[1]) == 1


def test_so_many_calls_and_no_more(runs: Any, clock: Any) -> None:
    runs.open_live(threading.get_ident(), 3, NO_CLOCKS, -1)
    assert [clock() == USUAL for _ in range(5)] == [False, False, False, True, True]
    assert len(runs.close()[1]) == 3


def test_another_thread_has_no_part_in_it(runs: Any, clock: Any) -> None:
    runs.open_live(threading.get_ident(), 5, NO_CLOCKS, -1)
    found: list[float] = []
    other = threading.Thread(target=lambda: found.append(clock()))
    other.start()
    other.join()
    assert found == [USUAL]
    assert runs.close() is None


def test_a_backup_gets_what_the_log_says_in_its_order(runs: Any, clock: Any) -> None:
    draw = runs.function("urandom", lambda size: b"usual")
    runs.open_log(threading.get_ident(), bytes((0, 16, 1, 0)), [3_000_000_000, b"abc", 5, 6])
    assert clock() == 3.0
    assert clock() == USUAL, "the log has random bytes here"
    assert draw(2) == b"usual", "of three"
    assert draw(3) == b"abc"
    assert runs.reading(0) is None
    assert runs.reading(1) == 5
    before_ns = time.monotonic_ns()
    codes, values, local, _ = runs.close()
    assert (codes, values) == (bytes((0, 16, 1)), [3_000_000_000, b"abc", 5])
    assert abs(local[1] - before_ns) < 10**9
    assert abs(local[0] - time.time_ns()) < 10**10


def test_random_bytes_are_noted(runs: Any) -> None:
    draw = runs.function("urandom", lambda size: b"usual")
    runs.open_live(threading.get_ident(), 60, NO_CLOCKS, -1)
    drawn = [draw(size) for size in (8, 256)]
    for odd in (0, -1, 257, 1 << 70, 8.0):
        assert draw(odd) == b"usual"
    assert list(map(len, drawn)) == [8, 256]
    codes, values, _, _ = runs.close()
    assert (codes, values) == (bytes((16, 16)), drawn)


def test_a_read_finds_nothing_where_one_has_found_nothing(runs: Any) -> None:
    assert not runs.nothing(4)
    runs.open_live(threading.get_ident(), 60, NO_CLOCKS, 4)
    assert [runs.nothing(fd) for fd in (4, 5, 4, 0, -1)] == [True, False, True, False, False]
    assert runs.close()[:2] == (bytes((17, 17)), [4, 4])
    runs.open_log(threading.get_ident(), bytes((17, 17, 0, 17)), [4, 5, 9, 4])
    assert [runs.nothing(fd) for fd in (4, 4, 5, 4)] == [True, False, True, False]
    assert runs.reading(0) == 9
    assert runs.close()[:2] == (bytes((17, 17, 0)), [4, 5, 9])
    assert not runs.nothing(4)


class Mutexes:
    """Their claims and releases: False: it goes the usual way."""

    def __init__(self, runs: Any) -> None:
        class Mutex(runs.Mutex):  # type: ignore[misc, name-defined]
            __slots__ = ("__weakref__",)

            def _acquire(self, *arguments: object, **named: object) -> object:
                return arguments, named

            def _release(self) -> str:
                return "usual"

        self.kind = Mutex

    def numbered(self, number: Any) -> Any:
        mutex = self.kind()
        mutex._mutex = number
        return mutex

    def claim(self, number: Any) -> bool:
        return self.numbered(number).acquire() is True

    def release(self, number: Any) -> bool:
        return self.numbered(number).release() is None


@pytest.fixture
def mutexes(runs: Any) -> Mutexes:
    return Mutexes(runs)


def open_ordered(runs: Any, held: dict[int, int], awaited: dict[int, object], limit: int = 60) -> None:
    runs.open_live(threading.get_ident(), limit, NO_CLOCKS, -1, held, awaited)


def test_a_mutex_that_is_free_is_claimed_and_released(runs: Any, mutexes: Mutexes) -> None:
    assert not mutexes.claim(7), "nothing is lent"
    assert not mutexes.release(7)
    open_ordered(runs, {8: 1}, {})
    assert [mutexes.claim(7), mutexes.claim(7), mutexes.claim(8)] == [True, False, False]
    assert [
        mutexes.release(8),
        mutexes.release(8),
        mutexes.release(7),
        mutexes.claim(7),
        mutexes.claim(8),
    ] == [
        *(True, False, True),
        *(True, True),
    ]
    codes, values, _, sizes = runs.close()
    assert (codes, values, sizes) == (bytes((18, 19, 19, 18)), [7, 8, 7, 8], [1, 1, 2, 1])
    assert not mutexes.claim(9)


def test_a_mutex_that_somebody_waits_for_goes_the_usual_way(runs: Any, mutexes: Mutexes) -> None:
    open_ordered(runs, {8: 1, 9: 2}, {8: [3]})
    assert [mutexes.release(8), mutexes.release(9)] == [False, True]
    assert runs.close()[:2] == (bytes((19,)), [9])


def test_under_the_token_no_mutex_is_in_a_run(runs: Any, mutexes: Mutexes) -> None:
    runs.open_live(threading.get_ident(), 9, NO_CLOCKS, -1)
    assert not mutexes.claim(7)
    assert not mutexes.release(7)


def test_numbers_that_no_mutex_has_go_the_usual_way(runs: Any, mutexes: Mutexes) -> None:
    open_ordered(runs, {}, {})
    for odd in (-1, 1 << 63, 1 << 80, -(1 << 80), "7", None):
        assert not mutexes.claim(odd)
        assert not mutexes.release(odd)
    assert mutexes.kind().acquire() == ((), {}), "it has none yet"
    assert runs.close() is None


def test_a_backup_claims_and_releases_as_the_log_says(runs: Any, mutexes: Mutexes, clock: Any) -> None:
    runs.open_log(threading.get_ident(), bytes((18, 19, 0, 18)), [7, 7, 3_000_000_000, 8])
    assert [mutexes.release(7), mutexes.claim(8), mutexes.claim(7)] == [False, False, True]
    assert clock() == USUAL
    assert mutexes.release(7)
    assert clock() == 3.0
    assert runs.close()[:2] == (bytes((18, 19, 0)), [7, 7, 3_000_000_000])


def test_claims_count_and_wait_for_no_collection(runs: Any, mutexes: Mutexes, clock: Any) -> None:
    """A thread is amidst something when it claims or releases: a collection waits for another call."""
    open_ordered(runs, {}, {})
    runs.set_calls(254)
    assert [mutexes.claim(7), mutexes.release(7), mutexes.claim(7)] == [True] * 3
    assert runs.calls() == 257
    assert clock() == USUAL
    waiting: list[object] = [print]
    runs.begin(waiting, 256)
    assert not mutexes.release(7), "the main thread has something to do first"
    waiting.pop()
    assert mutexes.release(7)


def test_another_thread_claims_the_usual_way(runs: Any, mutexes: Mutexes) -> None:
    open_ordered(runs, {}, {})
    found: list[bool] = []
    other = threading.Thread(target=lambda: found.append(mutexes.claim(7)))
    other.start()
    other.join()
    assert found == [False]


def test_a_table_has_an_end(runs: Any, mutexes: Mutexes) -> None:
    open_ordered(runs, {}, {}, limit=10_000)
    made = 0
    while mutexes.claim(made):
        made += 1
    assert made == 256
    assert runs.function("time", lambda: USUAL)() == USUAL
    assert mutexes.release(255), "the last one has room"
    assert len(runs.close()[1]) == made


def test_claims_and_releases_of_one_mutex_are_one_item(runs: Any, mutexes: Mutexes, clock: Any) -> None:
    open_ordered(runs, {}, {}, limit=ORDERED_RUN_MAX)
    made = 0
    while (mutexes.release if made % 2 else mutexes.claim)(7):
        made += 1
    assert made == ORDERED_RUN_MAX
    codes, values, _, sizes = runs.close()
    assert (codes, values, sizes) == (bytes((18,)), [7], [made])
    runs.set_calls(0)
    open_ordered(runs, {8: 1}, {})
    with mutexes.numbered(7) as held:
        assert held is True
        assert [mutexes.release(8), mutexes.claim(8)] == [True, True]
        assert clock() != USUAL
    codes, values, _, sizes = runs.close()
    assert (codes, sizes) == (bytes((18, 19, 0, 19)), [1, 2, 1, 1])


def test_a_backup_is_lent_many_claims_and_releases_as_one(runs: Any, mutexes: Mutexes, clock: Any) -> None:
    def lend() -> None:
        runs.open_log(threading.get_ident(), bytes((19, 18, 0)), [7, 8, 9_000_000_000], [3, 2, 1])

    lend()
    assert [mutexes.claim(7), mutexes.release(7), mutexes.release(7), mutexes.claim(8)] == [
        *(False, True, False, False)
    ]
    assert clock() == USUAL, "two of them come first"
    assert mutexes.claim(7)
    codes, values, _, sizes = runs.close()
    assert (codes, values, sizes) == (bytes((19,)), [7], [2])
    lend()
    assert [mutexes.release(7), mutexes.claim(7), mutexes.release(7), mutexes.claim(7)] == [
        *(True, True, True, False)
    ]
    assert [mutexes.claim(8), mutexes.release(8), mutexes.claim(8)] == [True, True, False]
    assert clock() == 9.0
    assert not mutexes.claim(8)
    codes, values, _, sizes = runs.close()
    assert (codes, values, sizes) == (bytes((19, 18, 0)), [7, 8, 9_000_000_000], [3, 2, 1])


def test_arguments_go_the_usual_way_with_them(runs: Any, mutexes: Mutexes) -> None:
    open_ordered(runs, {}, {})
    mutex = mutexes.numbered(7)
    assert mutex.acquire(False) == ((False,), {})
    assert mutex.acquire(True, 3.0) == ((True, 3.0), {})
    assert mutex.acquire(blocking=False) == ((), {"blocking": False})
    assert mutex.acquire(True) is True
    assert mutex.release() is None
    assert mutex.acquire_lock() is True
    assert mutex.release_lock() is None
    with pytest.raises(TypeError):
        mutex.release(1)
    assert runs.close()[3] == [4]


def test_all_calls_count_and_the_one_that_is_due_to_collect_goes_the_usual_way(runs: Any, clock: Any) -> None:
    for _ in range(250):
        assert not runs.called()
    runs.open_live(threading.get_ident(), 60, NO_CLOCKS, -1)
    assert [clock() == USUAL for _ in range(6)] == [False] * 5 + [True]
    assert runs.calls() == 255
    assert runs.called()
    runs.set_calls(0)
    assert clock() != USUAL


def test_what_the_main_thread_is_to_do_comes_first(runs: Any, clock: Any) -> None:
    waiting: list[object] = []
    runs.begin(waiting, 256)
    runs.open_live(threading.get_ident(), 60, NO_CLOCKS, -1)
    assert clock() != USUAL
    waiting.append(print)
    assert clock() == USUAL
    waiting.pop()
    assert clock() != USUAL


def test_wrong_logs_are_refused(runs: Any) -> None:
    for codes, values in ((b"\0\0", [1]), (b"\0", ["1"]), (b"\0", [1 << 64])):
        with pytest.raises((ValueError, OverflowError)):
            runs.open_log(threading.get_ident(), codes, values)
        assert not runs.is_open()
    for codes, sizes in (
        (b"\0", [1, 1]),
        (b"\0", [2]),
        (b"\x12", [0]),
        (b"\x12", [-1]),
        (b"\x12", [1 << 40]),
    ):
        with pytest.raises(ValueError, match="sizes"):
            runs.open_log(threading.get_ident(), codes, [1], sizes)
        assert not runs.is_open()


def test_it_passes_for_the_builtin(runs: Any, clock: Any) -> None:
    class Holder:
        now = clock

    assert Holder().now() == USUAL
    assert (clock.__name__, clock.__module__) == ("time", "time")
    with pytest.raises(TypeError):
        clock(1)
    with pytest.raises(ValueError, match="no function"):
        runs.function("sleep", print)
