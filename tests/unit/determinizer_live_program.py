"""A program that does what interposed ones do: threads that wake one another, an event loop, connects that do
not block, peeks, and values obtained from the primary's host.

A wake-up that is lost leaves a thread waiting for ever, and the run never finishes. Under the token the
threads share plain data between calls; in ordered mode they do so under a mutex, and rely on permits.
"""

from __future__ import annotations

from llft.core.determinizer.operations import (
    IN_PROGRESS,
    WOULD_BLOCK,
    Accept,
    Claim,
    Close,
    Connect,
    ConnectOutcome,
    Failure,
    HalfClose,
    Obtain,
    Park,
    RandomBytes,
    Receive,
    Release,
    Select,
    Send,
    Sleep,
    Spawn,
    Unpark,
)
from tests.unit.determinizer_world import DEAD_GROUP, Program, Thread

CONSUMERS = 2
ITEMS = 5
DATA_MUTEX = 9


class LiveProgram(Program):
    def __init__(self, incoming: int, racy: bool) -> None:
        super().__init__(incoming, racy)
        self.queue: list[object] = []
        self.idle: list[int] = []
        self.mail: list[object] = []
        self.loop_thread = 0
        self.accepted = 0

    def main(self, _: int) -> Thread:
        self.loop_thread = yield Spawn(["loop", 0])
        for index in range(CONSUMERS):
            yield Spawn(["consumer", index])
        yield Spawn(["producer", 0])
        yield Spawn(["connector", 7])
        yield Spawn(["connector", DEAD_GROUP])
        yield Spawn(["thief", 0])
        yield Select((), 2_000)
        yield from self.note(("obtained", (yield Obtain("host name", self.produce))))
        assert (yield Unpark(1)) is False
        assert (yield Unpark(1000)) is False
        # A permit that was left before (ordered mode) is taken at once, one that was not is waited for.
        yield from self.note(("main parked", (yield Park(0)), (yield Park(500))))

    def lock(self) -> Thread:
        if not self.racy:
            yield Claim(DATA_MUTEX)

    def unlock(self) -> Thread:
        if not self.racy:
            yield Release(DATA_MUTEX)

    def note(self, item: object) -> Thread:
        yield from self.lock()
        self.shared.append(item)
        yield from self.unlock()

    def consumer(self, index: int) -> Thread:
        me, turn = self.current, index
        while True:
            yield from self.lock()
            item = self.queue.pop(0) if self.queue else None
            if item is None:
                self.idle.append(me)
            yield from self.unlock()
            if item == "stop":
                return
            if item is None:
                turn += 1
                unparked = yield Park((-1, 3_000, -1, 0)[turn % 4])
                yield from self.lock()
                if me in self.idle:
                    self.idle.remove(me)
                self.shared.append((me, unparked))
                yield from self.unlock()
            else:
                yield from self.note((me, item))

    def producer(self, _: int) -> Thread:
        for item in [*range(ITEMS), *["stop"] * CONSUMERS]:
            yield Sleep((yield RandomBytes(1))[0] * 30)
            yield from self.lock()
            self.queue.append(item)
            idle = self.idle.pop(0) if self.idle else 0
            yield from self.unlock()
            if idle:
                yield from self.note(("unparked", idle, (yield Unpark(idle))))
            yield from self.post(item)
        yield from self.post("quit")

    def post(self, item: object) -> Thread:
        yield from self.lock()
        self.mail.append(item)
        yield from self.unlock()
        yield from self.note(("posted", (yield Unpark(self.loop_thread))))

    def loop(self, _: int) -> Thread:
        """An event loop: it waits for ever, unless it is told."""
        fds: list[int] = []
        writing: list[int] = []
        running = True
        while True:
            yield from self.lock()
            mail, self.mail = self.mail, []
            waiting_for = (0, *fds) if self.accepted < self.incoming else tuple(fds)
            over = not running and not fds and self.accepted >= self.incoming
            yield from self.unlock()
            if over:
                return
            running = running and "quit" not in mail
            if mail:
                yield from self.note(("mail", mail))
                continue
            events = yield Select(waiting_for, -1, tuple(writing), interruptible=True)
            yield from self.note(("events", events))
            for event in events or ():
                yield from self.on_event(event, fds, writing)

    def on_event(self, event: int, fds: list[int], writing: list[int]) -> Thread:
        if event == 0:
            connection = yield Accept(blocking=False)
            if not isinstance(connection, Failure):
                yield from self.count_accepted()
                fds.append(connection[0])
                writing.append(connection[0])
        elif event < 0:
            if -event in writing:
                writing.remove(-event)
                yield Send(-event, b"welcome", blocking=False)
        elif (yield from self.read_some(event)):
            fds.remove(event)
            if event in writing:
                writing.remove(event)
            yield Close(event)

    def count_accepted(self) -> Thread:
        yield from self.lock()
        self.accepted += 1
        yield from self.unlock()

    def read_some(self, fd: int) -> Thread:  # type: ignore[override]
        """Peeks, then reads; true at the end."""
        first = yield Receive(fd, 3, blocking=False, peek=True)
        if isinstance(first, Failure) or not first:
            return first != WOULD_BLOCK
        more = yield Receive(fd, 8, peek=True)
        assert more.startswith(first)
        assert (0 in (yield Select((fd,), 0))) is False
        data = yield Receive(fd, 2)
        assert more.startswith(data)
        rest = yield Receive(fd, 100, blocking=False)
        yield from self.note((fd, first, more, data, rest))
        return False

    def thief(self, _: int) -> Thread:
        """Takes connections away that the loop was woken for."""
        for _turn in range(4):
            yield Sleep(1_500)
            connection = yield Accept(blocking=False)
            if not isinstance(connection, Failure):
                yield from self.count_accepted()
                yield Close(connection[0])
                yield from self.post("stolen")

    def connector(self, group_id: int) -> Thread:
        fd = yield Connect(group_id, blocking=False)
        early = yield HalfClose(fd) if group_id == DEAD_GROUP else Send(fd, b"early", blocking=False)
        selected = yield Select((fd,), 1_000, (fd,))
        while (outcome := (yield ConnectOutcome(fd))) == IN_PROGRESS:
            selected = yield Select((), -1, (fd,))
            assert selected == (-fd,)
        yield from self.note((fd, early, selected, outcome))
        if outcome is True:
            written = yield Send(fd, b"late")
            while not (yield from self.read_some(fd)):
                yield Select((fd,), -1)
            yield from self.note((fd, written))
        yield from self.note((fd, (yield Close(fd))))
        yield from self.note((fd, (yield Receive(fd, 1))))
