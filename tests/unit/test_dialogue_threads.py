"""Several threads in one dialogue (D-74): what comes of it is what would have come of the core's steps."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from llft.config import Limits
from llft.core import events
from llft.core.determinizer.operations import Park, Receive, Select, Send, Unpark, Yield
from llft.instant import MS, NEVER
from tests.unit.dialogue_kept import kept
from tests.unit.dialogue_native import native as native
from tests.unit.dialogue_threads_world import PATIENCE_S, Program, Threaded
from tests.unit.dialogue_world import World

pytestmark = pytest.mark.reference

CONNECTIONS = 4
OF_THREADS = 2
"""So many of them have a thread each; the others are served by one that selects, and by workers."""


def selecting(program: Threaded) -> None:
    """The first thread: it hears, and gives what it has heard to the workers."""
    fds = program.server.world.fds[OF_THREADS:]
    while True:
        found = program.call(Select((0, *fds), -1, (), True))
        for fd in found or ():
            data = program.call(Receive(fd, 100, False))
            if isinstance(data, bytes):
                program.shared.append((fd, data))
                if program.parked:
                    program.call(Unpark(program.parked.pop()))


def working(program: Threaded) -> None:
    while True:
        while not program.shared:
            program.parked.add(program.me)
            program.call(Park())
        fd, data = program.shared.pop(0)
        program.call(Send(fd, data[::-1]))
        program.call(Unpark(1))
        if data[0] % 2:
            program.call(Yield())


def conversing(place: int) -> Program:
    def converse(program: Threaded) -> None:
        fd = program.server.world.fds[place]
        while True:
            program.call(Send(fd, program.call(Receive(fd, 100)).upper()))

    return converse


PROGRAM: list[Program] = [selecting, working, working, *[conversing(place) for place in range(OF_THREADS)]]
POOL: list[Program] = [selecting, working, working]
"""Nobody is parked where all of them have something to do."""


class Run:
    """The same is said, in the same order, in every run of a seed."""

    def __init__(
        self,
        seed: int,
        *,
        talks: str,
        at_once: bool = False,
        programs: list[Program] = PROGRAM,
        connections: int = CONNECTIONS,
        limits: Limits | None = None,
    ) -> None:
        """`at_once`: datagrams come all together, so that several threads have something to do."""
        self.draw, self.at_once = random.Random(seed), at_once
        self.world = World(limits, connections=connections)
        self.servers = {name: Threaded(getattr(self.world, name), programs) for name in ("primary", "backup")}
        if talks:
            self.servers[talks].server.talks = True
        for server in self.servers.values():
            server.begin()

    def go(self, rounds: int) -> None:
        for _ in range(rounds):
            for fd in self.draw.choices(self.world.fds, k=self.draw.choice([1, 1, 1, 2, 3, 6])):
                client, number = self.world.ends[fd]
                assert client.call(Send(number, self.draw.randbytes(self.draw.choice([1, 9, 60]))))
            primary = self.servers["primary"]
            (primary.hear_at_once if self.at_once else primary.hear)()
            for client, number in self.world.ends.values():
                client.hear()
                client.call(Receive(number, 1 << 16, blocking=False))
            backup = self.servers["backup"]
            if self.draw.random() < 0.7:
                (backup.hear_at_once if self.at_once else backup.hear)()
            if self.draw.random() < 0.2:
                for server in self.servers.values():
                    server.break_off()

    def end(self) -> None:
        for server in self.servers.values():
            server.end()
        for _ in range(3):
            for server in self.servers.values():
                server.hear()
            with self.servers["primary"].alone(), self.servers["backup"].alone():
                self.world.tell()
            for server in self.servers.values():
                server.settle()

    def kept(self) -> list[Any]:
        found = []
        for server in self.servers.values():
            engine: Any = server.server.core.determinizer.engine
            found.append((kept(server.server), engine.asleep))
        return found


@pytest.fixture
def runs(native: Any) -> Iterator[list[Run]]:
    made: list[Run] = []
    yield made
    for run in made:
        for server in run.servers.values():
            server.close()
        run.world.close()


@pytest.mark.parametrize("talks", ["primary", "backup"])
@pytest.mark.parametrize("seed", range(12))
def test_it_is_afterwards_as_if_it_had_been_stepped(runs: list[Run], seed: int, talks: str) -> None:
    for who in (talks, ""):
        runs.append(Run(seed, talks=who))
        runs[-1].go(25)
        runs[-1].end()
    talking, stepped = runs
    for (one, asleep), (other, its_asleep) in zip(talking.kept(), stepped.kept(), strict=True):
        assert {name: one[name] for name in one if one[name] != other[name]} == {}
        assert asleep == its_asleep
    calls = talking.servers[talks].in_dialogue
    assert calls > 20, "hardly anything was said in dialogues"


@pytest.mark.parametrize("talks", ["primary", "backup"])
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("programs", [PROGRAM, POOL], ids=["mixed", "pool"])
def test_threads_that_are_woken_together_take_their_turns_alike(
    runs: list[Run], programs: list[Program], seed: int, talks: str
) -> None:
    """Who is woken while others can go on comes behind them, in a dialogue too."""
    run = Run(seed, talks=talks, at_once=True, programs=programs)
    runs.append(run)
    talking = run.servers[talks]
    run.go(5)  # those that are to be started keep dialogues from being lent, for as long as it takes
    refused = talking.server.dialogues.refused.get("threads", 0)
    run.go(20)
    refused_later = talking.server.dialogues.refused.get("threads", 0) - refused
    run.end()
    (primary, _), (backup, _) = run.kept()
    assert primary["entries"] == backup["entries"]
    assert primary["counts"][-1] == backup["counts"][-1]
    # That the last thread was picked, or stopped, is proven by what comes next.
    assert primary["past"][: len(backup["past"])] == backup["past"]
    assert len(primary["past"]) - len(backup["past"]) < CONNECTIONS
    assert not run.servers["backup"].server.resets
    assert talking.in_dialogue > 20, "hardly anything was said in dialogues"
    assert refused_later < len(programs), "those that have been started can be lent"


@pytest.mark.parametrize("seed", range(6))
def test_a_backup_that_is_broken_off_again_and_again_follows_alike(runs: list[Run], seed: int) -> None:
    """Its log ends wherever a datagram does, and so do its dialogues."""
    run = Run(seed, talks="backup", at_once=True, programs=POOL)
    runs.append(run)
    backup = run.servers["backup"]
    backup.hear_at_once = lambda: backup.hear(breaking_off=True)  # type: ignore[method-assign]
    run.go(25)
    run.end()
    (primary, _), (other, _) = run.kept()
    assert primary["entries"] == other["entries"]
    assert not backup.server.resets


def test_a_turn_that_cannot_be_made_leaves_it_to_the_core(runs: list[Run]) -> None:
    """A backup knows who was woken, and not for what: its dialogues would begin and end for ever."""
    run = Run(1, talks="backup")
    runs.append(run)
    run.go(5)
    primary, backup = run.servers["primary"], run.servers["backup"]
    backup.hear()
    for fd, text in zip(run.world.fds[:OF_THREADS], (b"arrives", b"is lost on its way"), strict=True):
        client, number = run.world.ends[fd]
        assert client.call(Send(number, text))
    lost = backup.server.heard.pop()
    primary.hear()
    backup.break_off()
    with primary.alone(), backup.alone():
        run.world.tell()
    backup.settle()
    with backup.alone():
        backup.server.step(events.MessageReceived(lost))
    backup.settle()
    run.end()
    (one, _), (other, _) = run.kept()
    assert one["counts"][-1] == other["counts"][-1]


QUESTION, QUESTIONS = b"a question", 3
MANY_THREADS = 40
INTERVAL_NS = 2 * MS
HOUR_NS = 3_600_000 * MS


def resting(program: Threaded) -> None:
    while True:
        program.call(Park())


def thinking(place: int, answered: Callable[[], None]) -> Program:
    """Like `conversing`, but an answer takes its time."""

    def think(program: Threaded) -> None:
        fd = program.server.world.fds[place]
        while True:
            question = program.call(Receive(fd, len(QUESTION)))
            time.sleep(0.0005)
            program.call(Send(fd, question))
            if program.server.talks:
                answered()

    return think


def ask(run: Run, times: int, *, answered: bool) -> None:
    for _ in range(times):
        for client, number in run.world.ends.values():
            assert client.call(Send(number, QUESTION))
            if answered:
                run.servers["primary"].hear()
                run.world.client.hear()


@pytest.mark.parametrize("talks", ["primary", "backup"])
def test_threads_that_take_turns_keep_no_beat_waiting(native: Any, runs: list[Run], talks: str) -> None:
    """However much is here that they are woken for: others are heard meanwhile, and deadlines are kept."""
    beaten: list[int] = []
    programs = [
        resting,
        *[
            thinking(place, lambda: beaten.append(native.dialogue_statistics()["beaten"]))
            for place in range(MANY_THREADS)
        ],
    ]
    limits = Limits(datagram_bytes=12_000, order_carried_bytes=4000)
    run = Run(1, talks=talks, programs=programs, connections=MANY_THREADS, limits=limits)
    runs.append(run)
    server = run.servers[talks]
    core: Any = server.server.core
    core.config = replace(
        core.config, timeouts=replace(core.config.timeouts, heartbeat_interval_ns=INTERVAL_NS)
    )
    core.intra.heartbeat_ns = 0
    ask(run, 1, answered=True)
    server.hear()
    ask(run, QUESTIONS, answered=talks == "backup")
    assert server.server.is_talking
    beaten.clear()
    server.server.feed(len(server.server.heard))
    until_s = time.monotonic() + PATIENCE_S
    while len(beaten) < MANY_THREADS * (QUESTIONS - 1):
        assert time.monotonic() < until_s
        time.sleep(0.01)
    run.end()
    assert max(Counter(beaten).values()) < MANY_THREADS * QUESTIONS // 2


def test_a_wait_of_centuries_is_the_core_s(runs: list[Run]) -> None:
    """Python's numbers have no end. It is no reason to end the process either."""
    answered: list[int] = []

    def waiting(program: Threaded) -> None:
        while True:
            program.call(Select((program.server.world.fds[-1],), 1 << 70, (), True))

    def listening(program: Threaded) -> None:
        while True:
            program.call(Receive(program.server.world.fds[-2], 1 << 70))

    run = Run(
        1, talks="primary", programs=[thinking(0, lambda: answered.append(1)), waiting, listening, resting]
    )
    runs.append(run)
    client, number = run.world.ends[run.world.fds[0]]
    for _ in range(3):
        assert client.call(Send(number, QUESTION))
        run.servers["primary"].hear()
    run.end()
    assert len(answered) == 3


def test_a_backup_is_lent_one_though_a_thread_s_time_has_passed(runs: list[Run]) -> None:
    """The log says so when it comes to it. One that was behind came to that time before its log did, went the
    slow way, and stayed behind: whoever took over performed for a second and more what it had not."""

    def waiting(program: Threaded) -> None:
        program.call(Select((program.server.world.fds[-1],), HOUR_NS, (), True))

    run = Run(1, talks="backup", programs=[resting, waiting, conversing(0)])
    runs.append(run)
    backup = run.servers["backup"]
    deadlines: Any = backup.server.core.determinizer.engine.outside.deadlines
    client, number = run.world.ends[run.world.fds[0]]
    for _ in range(4):
        assert client.call(Send(number, QUESTION))
        run.servers["primary"].hear()
        run.world.client.hear()
    backup.hear()
    assert deadlines.earliest() < NEVER
    deadlines.earliest = lambda: 1
    before = backup.in_dialogue
    for _ in range(4):
        assert client.call(Send(number, QUESTION))
        run.servers["primary"].hear()
        run.world.client.hear()
    backup.hear(breaking_off=True)
    run.end()
    assert "deadlines" not in backup.server.dialogues.refused
    assert backup.in_dialogue > before
