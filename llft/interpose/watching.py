"""A plan of how to wait for descriptors that are waited for again and again: an epoll set of connections.

Looking at every descriptor of a set, asking the core for all of them and looking at all of them again costs
more than what a server does for one request. Of an open connection there is nothing to see without the core:
so the question for all of them is made once, and only what is left (listeners, pipes) is looked at each
time. Laws:

* What comes of a wait with a plan is what would come of one without: the same question, the same events in
  the same order. Replicas may have a plan, or none.
* A plan is dropped with every change of its set. It holds as long as its connections are open for reading,
  and what is left has nothing to tell and asks the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from llft.core.determinizer.operations import Result, Select
from llft.interpose import passage
from llft.interpose.descriptors import Asked, Watched
from llft.interpose.streams import Remote
from llft.interpose.tcp import TcpSocket
from llft.interpose.waiting import Interest, ask


class Plan:
    """`numbers` and `interests` are what it was made of."""

    __slots__ = ("_connections", "_left", "_left_asks", "_question", "interests", "numbers")

    def __init__(self, numbers: Sequence[int], interests: Sequence[Interest]) -> None:
        self.numbers, self.interests = numbers, interests
        self._connections: dict[int, tuple[int, TcpSocket, Remote]] = {}
        """By the core's descriptors: place, socket and stream."""
        self._left: list[Interest] = []
        self._left_asks: list[int] = []
        self._question = Select((), -1, (), interruptible=True)

    @classmethod
    def of(cls, numbers: Sequence[int], interests: Sequence[Interest]) -> Plan | None:
        """None: for these there is none, or not now."""
        plan = cls(numbers, interests)
        if passage.ordered or not all(plan._includes(*one) for one in enumerate(interests)):
            return None
        return plan if plan._connections and plan._asks() else None

    def _includes(self, place: int, interest: Interest) -> bool:
        what, reading, writing = interest
        if writing or not reading:
            return False
        if not isinstance(what, TcpSocket) or not isinstance(what.stream, Remote):
            self._left.append(interest)
            return True
        if what.stream.fd in self._connections:
            return False  # it has two numbers
        self._connections[what.stream.fd] = place, what, what.stream
        return True

    def _asks(self) -> bool:
        """False: there is something without asking."""
        asked = Asked()
        found = [what.probe(reading, writing, asked) for what, reading, writing in self.interests]
        self._left_asks = [fd for fd in asked.reading if fd not in self._connections]
        self._question = self._question._replace(fds=tuple(asked.reading))
        return not asked.writing and not any(readable or writable for readable, writable in found)

    def holds(self) -> bool:
        for _, socket, stream in self._connections.values():
            if socket.stream is not stream or stream.read_ended:
                return False
        asked = Asked()
        for what, reading, writing in self._left:
            readable, writable = what.probe(reading, writing, asked)
            if readable or writable:
                return False
        return list(asked.reading) == self._left_asks and not asked.writing

    def ask(self, timeout_ns: int, also: Sequence[Watched]) -> Result:
        """The question of all of them; None: disturbed by what is watched."""
        question = self._question
        if timeout_ns != question.timeout_ns:
            question = question._replace(timeout_ns=timeout_ns)
        watched = [*(source for what, _, _ in self._left for source in what.watched()), *also]
        return ask(question, watched if timeout_ns else ())

    def readable(self, answer: Result) -> list[int] | None:
        """If the answer is about connections alone: their numbers. They are promised to the program."""
        if not isinstance(answer, tuple):
            return None
        found = []
        for fd in answer:
            connection = self._connections.get(fd)  # type: ignore[arg-type]
            if connection is None:
                return None
            found.append(connection)
        if len(found) > 1:
            found.sort(key=_place)
        for _, _, stream in found:
            stream.promise()
        return [self.numbers[place] for place, _, _ in found]


def _place(connection: tuple[int, TcpSocket, Remote]) -> int:
    return connection[0]
