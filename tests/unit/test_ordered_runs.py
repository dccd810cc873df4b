"""Runs in ordered mode (D-72): however calls are cut into runs, all is as if they were single calls."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llft.config import ThreadMode
from llft.core.determinizer.counts import COUNTS_MANY
from llft.core.determinizer.determinizer import Determinizer
from llft.core.determinizer.operations import (
    PASSING_MUTEX,
    Claim,
    Operation,
    RandomBytes,
    ReadClock,
    Release,
    Spawn,
    TryClaim,
)
from llft.core.determinizer.ordered import OrderedEngine
from llft.core.determinizer.ordered_runs import (
    CLAIM_CODE,
    ITEMS_MAX,
    ORDERED_RUN_MAX,
    RELEASE_CODE,
    OrderedRuns,
)
from llft.core.determinizer.outside import BLOCKED
from llft.core.determinizer.replay_gate import ReplayGate
from llft.core.determinizer.runs import CLOCKS, RANDOM_CODE, Heard
from llft.errors import DivergenceError, InvariantError
from llft.identifiers import BirthId, ViewId
from llft.past.birth_log import OPERATION_KINDS, BirthLog, brief
from llft.runtime.lending import births_in_order
from llft.wire import order_decoder
from llft.wire.order import (
    GENERAL,
    MUTEX,
    REMOTE_VIEW,
    SOCKET,
    TIME,
    Entry,
    OrderContext,
    OrderDecoder,
    OrderEncoder,
)
from tests.unit.compiled_parts import compiled_part
from tests.unit.determinizer_world import FakeConnections, together

pytestmark = pytest.mark.reference  # stand-ins for parts of the core

KEPT, PASSING, BETWEEN = 5, PASSING_MUTEX + 3, 9
"""Mutexes. The other thread waits for the third one."""
TURN = "turn"
"""The other thread is given that mutex, does something with the others, and waits for it again."""

singles = st.sampled_from(
    [
        *[Claim(KEPT), Release(KEPT), Claim(PASSING), Release(PASSING)] * 2,
        *[ReadClock(0), ReadClock(1), RandomBytes(4), TryClaim(KEPT), TryClaim(PASSING), TURN],
    ]
).map(lambda one: [one])
in_turns = st.tuples(st.sampled_from([KEPT, PASSING]), st.integers(1, 5), st.booleans()).map(
    lambda found: [(Claim, Release)[found[2] ^ at % 2](found[0]) for at in range(2 * found[1])]
)
todos = st.lists(singles | in_turns, max_size=40).map(lambda lists: [one for each in lists for one in each])
cuts = st.lists(st.integers(0, 7), min_size=1, max_size=20)
"""How many calls of each run are made; 0: none is lent."""


class Member(Heard):
    """A determinizer, its program's two threads, and a shell that lends runs to the first one."""

    def __init__(self, *, live: bool) -> None:
        self.log: list[Entry] = []
        self.consumed: list[tuple[int, Entry]] = []
        self.clock, self.drawn = count(1000, 7), count(1)
        self.others: list[Any] = []
        """Results of the other thread."""
        self.in_runs = 0
        self.determinizer = Determinizer(
            ThreadMode.ORDERED,
            FakeConnections(1, 0),
            self.log.append,
            lambda _: next(self.clock),
            lambda size: next(self.drawn).to_bytes(size, "little"),
        )
        engine = self.determinizer.engine
        assert isinstance(engine, OrderedEngine)
        self.engine, self.runs = engine, OrderedRuns(engine, self)
        engine.on_consumed = lambda number, entry: self.consumed.append((number, entry))
        if live:
            self.determinizer.go_live(0)
        self.determinizer.start()
        self.determinizer.drain()

    def begin(self) -> None:
        self.called(Spawn(None))
        self.called(Claim(BETWEEN))
        self.wait()

    def wait(self) -> None:
        self.determinizer.invoke(2, Claim(BETWEEN), 0)
        assert not self.determinizer.drain()

    def readings(self, number: int, pick: int, thread: int, clock_id: int, values: list[int]) -> None:
        assert not number
        self.log += [(TIME, pick, thread, clock_id, value) for value in values]

    def counted(self, number: int, first: Entry, data: list[bytes]) -> None:
        assert not number
        self.log += [(*first[:4], first[4] + index, each) for index, each in enumerate(data)]

    def locked(self, number: int, first: Entry, counts: list[int]) -> None:
        entries = [(*first[:4], each, first[5]) for each in counts]
        if number:
            self.consumed += enumerate(entries, number)
        else:
            self.log += entries

    def called(self, operation: Operation, thread: int = 1) -> Any:
        """The usual way."""
        result = self.engine.at_once(thread, operation, 0)
        if result is BLOCKED:
            self.determinizer.invoke(thread, operation, 0)
        found = {whose: value for what, whose, value in self.determinizer.drain() if what == "resume"}
        if thread != 2 and 2 in found:
            self.others.append(found[2])
        return found[thread] if result is BLOCKED else result

    def turn(self) -> None:
        self.called(Release(BETWEEN))
        assert self.runs.room(1) == self.runs.room(2) == 0, "both are out"
        for operation in (TryClaim(PASSING), ReadClock(0)):
            self.others.append(self.called(operation, 2))
        if self.others[-2]:
            self.called(Release(PASSING), 2)
        self.called(Release(BETWEEN), 2)
        self.called(Claim(BETWEEN))
        self.wait()

    def results(self, todo: list[Any], cuts: Iterator[int]) -> list[Any]:
        """Of all these calls, as many of them in runs as the cuts say."""
        found: list[Any] = []
        while len(found) < len(todo):
            operation = todo[len(found)]
            found.append(self.turn() if operation == TURN else self.called(operation))
            limit = next(cuts)
            if limit:
                found += self._in_run(todo[len(found) :], limit)
        return found

    def _in_run(self, todo: list[Any], limit: int) -> list[Any]:
        codes, values, sizes, found = bytearray(), [], [], []
        logged = [] if self.engine.live else calls_in(*self.runs.logged(1))
        room = self.runs.room(1) if self.engine.live else len(logged)
        clocks = self.runs.clocks()
        held, awaited = self.runs.mutexes()
        mine = set(held)
        for operation in todo[: min(limit, room)]:
            code = code_of(operation)
            if code < 0:
                break
            if not self.engine.live:
                logged_code, value, item = logged[len(found)]
                if logged_code != code or (code >= CLAIM_CODE and value != operation.mutex):
                    break
                goes_on = item == len(codes) - 1
            elif code >= CLAIM_CODE:
                value = operation.mutex
                if (value in mine) != (code == RELEASE_CODE) or value in awaited:
                    break
                mine ^= {value}
                goes_on = bool(codes) and codes[-1] >= CLAIM_CODE and values[-1] == value
            elif code == RANDOM_CODE:
                value = next(self.drawn).to_bytes(4, "little")
            else:
                value = next(self.clock) + clocks[2 * code]
            if code >= CLAIM_CODE and goes_on:
                sizes[-1] += 1
            else:
                codes.append(code)
                values.append(value)
                sizes.append(1)
            found.append(True if code >= CLAIM_CODE else value)
        self.runs.take_back(1, bytes(codes), values, (5,) * CLOCKS, 0, sizes)
        self.in_runs += len(found)
        return found

    def state(self) -> dict[str, Any]:
        """Clocks apart: how often the local one was asked differs."""
        state = self.engine.capture()
        state["clock"] = {clock_id: last for clock_id, _, last in state["clock"]}
        state["counts"] = list(state["counts"].items())  # where they stand decides what is forgotten
        return state | self.engine.statistics()


def calls_in(codes: bytes, values: list[Any], sizes: list[int]) -> list[tuple[int, Any, int]]:
    """Code, value and item of each."""
    return [
        (37 - code if call % 2 else code, value, item)
        for item, (code, value, size) in enumerate(zip(codes, values, sizes, strict=True))
        for call in range(size)
    ]


def code_of(operation: Any) -> int:
    if isinstance(operation, ReadClock):
        return operation.clock_id
    if isinstance(operation, (Claim, Release)):
        return CLAIM_CODE if isinstance(operation, Claim) else RELEASE_CODE
    return RANDOM_CODE if isinstance(operation, RandomBytes) else -1


def over_and_over(cuts: list[int]) -> Iterator[int]:
    while True:
        yield from cuts


def possible(todo: list[Any]) -> list[Any]:
    """Without claims for which a thread would wait for itself."""
    found, held = [], set()
    for operation in todo:
        if isinstance(operation, Claim) and operation.mutex in held:
            continue
        if isinstance(operation, (Claim, TryClaim)):
            held.add(operation.mutex)
        elif isinstance(operation, Release):
            held.discard(operation.mutex)
        found.append(operation)
    return found


def following(log: list[Entry]) -> Member:
    """As a cursor has it: claims and releases of one mutex together."""
    backup = Member(live=False)
    to = backup.determinizer
    for alike in together(log):
        if alike[0][0] == MUTEX:
            to.follow_locks(alike[0], [entry[4] for entry in alike])
        else:
            to.follow_all(alike)
    backup.begin()
    return backup


@given(todos, cuts, cuts)
def test_runs_change_nothing(todo: list[Any], at_primary: list[int], at_backup: list[int]) -> None:
    todo = possible(todo)
    single, primary = Member(live=True), Member(live=True)
    for member in (single, primary):
        member.begin()
    results = single.results(todo, over_and_over([0]))
    assert primary.results(todo, over_and_over(at_primary)) == results
    assert primary.log == single.log
    assert primary.state() == single.state()
    backup, behind = following(primary.log), following(primary.log)
    assert backup.results(todo, over_and_over(at_backup)) == results
    assert behind.results(todo, over_and_over([0])) == results
    assert backup.others == behind.others == primary.others == single.others
    assert sorted(backup.consumed) == sorted(behind.consumed) == list(enumerate(primary.log, 1))
    assert backup.state() == behind.state()
    assert backup.determinizer.caught_up


PAIRS: list[Any] = [Claim(PASSING), Release(PASSING)] * 8


def test_claims_and_releases_that_wait_for_nobody_are_made_in_runs() -> None:
    primary = Member(live=True)
    primary.begin()
    primary.results(PAIRS, over_and_over([ORDERED_RUN_MAX]))
    backup = following(primary.log)
    backup.results(PAIRS, over_and_over([ORDERED_RUN_MAX]))
    assert primary.in_runs == backup.in_runs == len(PAIRS) - 1


def test_counts_of_closed_descriptors_are_forgotten_at_the_same_entry() -> None:
    """They are when there are many, at the first claim of a mutex among others."""
    members = [Member(live=True), Member(live=True)]
    for member, cut in zip(members, (0, ORDERED_RUN_MAX), strict=True):
        member.begin()
        counts = member.engine.outside.counts
        counts.update({(SOCKET, 1000 + fd): 1 for fd in range(2 * COUNTS_MANY - 1 - len(counts))})
        member.results(PAIRS, over_and_over([cut]))
    assert members[0].log == members[1].log
    assert members[0].state() == members[1].state()
    assert len(members[0].engine.outside.counts) < COUNTS_MANY


def test_at_a_backup_nothing_is_lent_before_a_barrier() -> None:
    """With the last entry before it others go on."""
    primary = Member(live=True)
    primary.begin()
    primary.results(PAIRS, over_and_over([0]))
    backup = following(primary.log)
    assert backup.called(PAIRS[0])
    assert backup.runs.logged(1)[1]
    backup.determinizer.follow((REMOTE_VIEW, 1, ViewId(1, 1, BirthId(1, 1, 1)), 1))
    assert not backup.runs.logged(1)[1]


def test_at_a_backup_a_run_ends_before_what_another_thread_waits_for() -> None:
    """It goes on when its entry's turn comes, and not when somebody takes the run back."""
    primary = Member(live=True)
    primary.begin()
    primary.results([ReadClock(0), Claim(KEPT), TURN], over_and_over([0]))
    backup = following(primary.log)
    backup.called(ReadClock(0))
    assert backup.runs.logged(1) == (bytes((CLAIM_CODE,)), [KEPT], [1]), "and not the release behind it"
    backup.runs.take_back(1, bytes((CLAIM_CODE,)), [KEPT], (5,) * CLOCKS, 0)
    assert not backup.others
    backup.called(Release(BETWEEN))
    assert backup.others == [True]


def entries(turns: Iterator[tuple[Entry, list[int]]]) -> list[Entry]:
    return [(*entry[:4], count, *entry[5:]) for entry, counts in turns for count in counts or entry[4:5]]


def test_turns_of_a_thread_end_where_another_one_comes_first_or_next() -> None:
    gate = ReplayGate()
    own: list[Entry] = [(TIME, 0, 1, 0, 50), (MUTEX, 0, 1, KEPT, 1, 1), (MUTEX, 0, 1, KEPT, 2, 1)]
    others: list[Entry] = [(MUTEX, 0, 2, PASSING, 1, 1), (MUTEX, 0, 2, KEPT, 3, 1)]
    last: Entry = (MUTEX, 0, 1, PASSING, 2, 1)
    for number, entry in enumerate([*own[:2], others[0], own[2], last], 1):
        gate.append(entry, number)
    assert entries(gate.turns(1, 9)) == own, "the other thread's claim comes before the last one"
    assert entries(gate.turns(1, 2)) == own[:2]
    assert entries(gate.turns(3, 9)) == []
    gate.append(others[1], 6)
    assert entries(gate.turns(1, 9)) == own[:2], "and after the release"
    assert gate.take_turns(1, 2) == [(1, own[0], []), (2, own[1], [])]
    assert entries(gate.turns(1, 9)) == []
    assert gate.outstanding == 4


def test_what_is_lent_ends_before_anything_that_is_not_as_it_should_be() -> None:
    others: list[Entry] = [
        (TIME, 0, 1, 9, 60),
        (TIME, 0, 1, 0, 40),
        (GENERAL, 0, 1, 7, 1, b"abc"),
        (GENERAL, 0, 1, 1, 3, b"abcd"),
        (MUTEX, 0, 1, KEPT, 1, 0),
        (MUTEX, 0, 1, KEPT, 2, 1),
        (MUTEX, 0, 1, PASSING, 3, 1),
    ]
    for other in others:
        backup = Member(live=False)
        lock: Entry = (MUTEX, 0, 1, PASSING, 1, 1)
        backup.determinizer.follow_all([(TIME, 0, 1, 0, 50), lock, (MUTEX, 0, 1, PASSING, 2, 1), other])
        lent = bytes((0, CLAIM_CODE, RELEASE_CODE)), [50, PASSING, PASSING], [1, 1, 1]
        assert backup.runs.logged(1) == lent, other


def test_what_is_lent_is_looked_for_no_further_than_it_goes() -> None:
    """A backup that is behind has thousands of entries, and is lent a run with every few of them."""
    looked_at: list[Entry] = []

    class Watched(ReplayGate):
        def turns(self, thread: int, most: int) -> Iterator[tuple[Entry, list[int]]]:
            for turn in super().turns(thread, most):
                looked_at.append(turn[0])
                yield turn

    backup = Member(live=False)
    backup.engine.gate = Watched()
    clocks: list[Entry] = [(TIME, 0, 1, 0, 50 + at) for at in range(2 * ITEMS_MAX)]
    backup.determinizer.follow_all([clocks[0], (SOCKET, 0, 1, 1, 1, b""), *clocks])
    assert len(backup.runs.logged(1)[1]) == 1
    assert len(looked_at) == 2
    behind = Member(live=False)
    behind.determinizer.follow_all(clocks)
    assert len(behind.runs.logged(1)[1]) == ITEMS_MAX


def test_a_thread_that_does_something_else_than_its_run_has_diverged() -> None:
    primary = Member(live=True)
    primary.begin()
    primary.results(PAIRS, over_and_over([9]))
    backup = following(primary.log)
    backup.results(PAIRS[:3], over_and_over([0]))
    assert backup.runs.logged(1)[0][0] == RELEASE_CODE
    with pytest.raises(DivergenceError, match="replica_left_the_order"):
        backup.called(Claim(KEPT))


def test_nothing_is_lent_while_it_is_held() -> None:
    primary = Member(live=True)
    primary.begin()
    assert primary.runs.room(1) == ORDERED_RUN_MAX
    assert primary.runs.room(2) == 0
    primary.determinizer.held = True
    assert primary.runs.room(1) == 0
    with pytest.raises(InvariantError, match="run_too_long"):
        primary.runs.take_back(1, bytes((CLAIM_CODE,)), [KEPT], (0, 0, 0), 0)


@pytest.mark.parametrize("code", [CLAIM_CODE, RELEASE_CODE])
def test_a_mutex_that_was_not_as_it_was_lent_is_found_out(code: int) -> None:
    primary = Member(live=True)
    primary.begin()
    if code == CLAIM_CODE:
        primary.called(Claim(KEPT))
    with pytest.raises(InvariantError, match="mutex_not_as_lent"):
        primary.runs.take_back(1, bytes((code,)), [KEPT], (0, 0, 0), 0)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=20), st.integers(0, 5), st.sampled_from([0, 1]))
def test_entries_of_a_mutex_are_written_together_as_one_by_one(
    counts: list[int], before: int, result: int
) -> None:
    together, single = OrderEncoder(OrderContext()), OrderEncoder(OrderContext())
    for encoder in (together, single):
        for number in range(before):
            encoder.append((MUTEX, 0, 2, PASSING, number + 1, 1))
            encoder.append((MUTEX, 0, 1, KEPT, 3, 1))
    first = (MUTEX, 0, 1, PASSING, counts[0], result)
    together.append_locks(first, counts)
    for each in counts:
        single.append((MUTEX, 0, 1, PASSING, each, result))
    stream = together.take()
    assert stream == single.take()
    assert together.count == single.count
    assert together.context == single.context


FAR = (1 << 63) - 2
lock_counts = (
    st.lists(st.integers(1, 4), min_size=1, max_size=9)
    | st.integers(1, 20).map(lambda size: [1, 2] * size)
    | st.tuples(st.integers(1, 9) | st.just(FAR), st.integers(1, 9)).map(
        lambda found: list(range(found[0], sum(found)))
    )
)


@pytest.mark.parametrize("in_c", [False, True])
@given(st.data())
def test_entries_of_a_mutex_are_read_together_as_one_by_one(in_c: bool, data: st.DataObject) -> None:
    encoder, log = OrderEncoder(OrderContext()), []
    for mutex in data.draw(st.lists(st.sampled_from([KEPT, PASSING, 1 << 62]), max_size=4)):
        for thread in data.draw(st.lists(st.integers(1, 2), max_size=2)):
            counts = data.draw(lock_counts)
            encoder.append_locks((MUTEX, 0, thread, mutex, counts[0], 1), counts)
            log += [(MUTEX, 0, thread, mutex, count, 1) for count in counts]
        if data.draw(st.booleans()):
            log.append((MUTEX, 0, 1, mutex, data.draw(st.integers(1, 3)), 0))
            encoder.append(log[-1])
    stream = encoder.take()
    cut = data.draw(st.integers(0, len(stream)))
    with pytest.MonkeyPatch.context() as patched:
        decode = compiled_part("llft.wire.locks").decode if in_c else None
        patched.setattr(order_decoder, "decode_locks", decode)
        decoder, found = OrderDecoder(OrderContext()), []
        for piece in (stream[:cut], stream[cut:]):
            decoder.feed(piece)
            while (entry := decoder.next()) is not None:
                found += [entry, *((*entry[:4], count, 1) for count in decoder.locks_behind(entry))]
    assert found == log
    assert (decoder.count, decoder.offset, decoder.exhausted) == (len(log), len(stream), True)
    assert decoder.context == encoder.context


def test_the_birth_log_has_of_a_run_what_it_has_of_single_calls() -> None:
    codes = bytes((CLAIM_CODE, 0, RANDOM_CODE, RELEASE_CODE, CLAIM_CODE, CLAIM_CODE))
    large = PASSING_MUTEX + (1 << 40)
    values, sizes = [large, 3_000_000_000, b"abcd", large, KEPT, 3], [1, 1, 1, 5, 2, 1]
    made = (
        *(Claim(large), ReadClock(0), RandomBytes(4)),
        *([Release(large), Claim(large)] * 2 + [Release(large)]),
        *(Claim(KEPT), Release(KEPT), Claim(3)),
    )
    calls = [(code, value) for code, value, _ in calls_in(codes, values, sizes)]
    for thread in (1, 300):
        together, single = BirthLog(), BirthLog()
        together.go_on(births_in_order(thread, codes, values, sizes))
        for operation, (code, value) in zip(made, calls, strict=True):
            single.called(thread, brief(operation))
            single.completed(thread, OPERATION_KINDS[type(operation)], True if code >= CLAIM_CODE else value)
        assert (together.length, together.digest) == (single.length, single.digest)
