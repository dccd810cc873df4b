"""Connecting: to a group, through a gateway to the outside, or to the program itself.

    by configuration a group serves the address    Connect, then the inbound preamble
    one of the program's own listeners             a pair of buffers: no group is asked
    anything else                                  Connect to the gateway, the outbound preamble, its answer

An `Attempt` is a connect that goes on while the program does something else. It is finished when `stream`
is there or `error` is not 0, and takes a step whenever the core says that its descriptor is ready. In ordered
mode all connects do, for they begin inside (`monitor`) and must not block there.
"""

from __future__ import annotations

import errno
import itertools

from llft.core.determinizer.operations import (
    IN_PROGRESS,
    WOULD_BLOCK,
    Close,
    Connect,
    ConnectOutcome,
    Failure,
    Receive,
    Send,
)
from llft.errors import PeerError
from llft.interpose import passage
from llft.interpose.asking import ask
from llft.interpose.descriptors import Answered, Asked
from llft.interpose.reception import WILDCARDS, Arrival, reception
from llft.interpose.streams import Remote, Stream, local_pair
from llft.wire.preamble import PREAMBLE_BYTES, Address, Answer, Inbound, Outbound, Preamble, pack, unpack

_EPHEMERAL_FIRST, _EPHEMERAL_COUNT = 32_768, 28_232
_ephemeral = itertools.count()


def ephemeral_port() -> int:
    """For addresses that only programs see: a counter, alike at all replicas."""
    return _EPHEMERAL_FIRST + next(_ephemeral) % _EPHEMERAL_COUNT


class Attempt:
    def __init__(self, destination: Address, local: Address, *, blocking: bool) -> None:
        self.destination = destination
        self.local = local
        self.stream: Stream | None = None
        self.error = 0
        self._fd = 0
        self._greeting: Preamble = Outbound(destination)
        self._connected = False
        self._answer = b""
        self._start(blocking)

    @property
    def finished(self) -> bool:
        return self.stream is not None or self.error != 0

    def _start(self, blocking: bool) -> None:
        destination = self.destination
        group_id = passage.port().group_of(destination.host, destination.port)
        if not self.local.port:
            self.local = Address(self.local.host, ephemeral_port())
        if group_id:
            self._greeting = Inbound(destination, self.local)
        elif self._is_own(destination):
            self._meet_oneself(destination)
            return
        else:
            group_id = ask("gateway", passage.port().gateway)
        if not group_id:
            self.error = errno.ENETUNREACH
            return
        opened = passage.call(Connect(group_id, blocking))
        if isinstance(opened, Failure):
            self.error = getattr(errno, opened.name)
            return
        assert isinstance(opened, int)
        self._fd = opened
        if blocking:
            self._greet()
            while not self.finished:
                self._read_answer(blocking=True)

    @staticmethod
    def _is_own(destination: Address) -> bool:
        host = destination.host
        ours = host.startswith("127.") or host == "::1" or host in WILDCARDS
        return ours and reception.find(destination, leniently=True) is not None

    def _meet_oneself(self, destination: Address) -> None:
        listener = reception.find(destination, leniently=True)
        assert listener is not None
        self.stream, other = local_pair()
        reception.deliver(listener, Arrival(other, destination, self.local))

    def ask(self, asked: Asked) -> None:
        if self._connected:
            asked.reading[self._fd] = None
        else:
            asked.writing[self._fd] = None

    def advance(self, answered: Answered) -> None:
        if self.finished:
            return
        if not self._connected:
            if self._fd not in answered.writable:
                return
            outcome = passage.call(ConnectOutcome(self._fd))
            if outcome == IN_PROGRESS:
                return
            if isinstance(outcome, Failure):
                self._fail(getattr(errno, outcome.name))
            else:
                self._greet()
        elif self._fd in answered.readable:
            self._read_answer(blocking=False)

    def _greet(self) -> None:
        self._connected = True
        sent = passage.call(Send(self._fd, pack(self._greeting)))
        if isinstance(sent, Failure):
            self._fail(getattr(errno, sent.name))
        elif isinstance(self._greeting, Inbound):
            self.stream = Remote(self._fd)

    def _read_answer(self, *, blocking: bool) -> None:
        data = passage.call(Receive(self._fd, PREAMBLE_BYTES - len(self._answer), blocking))
        if data == WOULD_BLOCK:
            return
        if not isinstance(data, bytes) or not data:
            self._fail(errno.ECONNRESET)
            return
        self._answer += data
        if len(self._answer) == PREAMBLE_BYTES:
            self._take_answer()

    def _take_answer(self) -> None:
        try:
            answer = unpack(self._answer)
        except PeerError:
            self._fail(errno.EPROTO)
            return
        if not isinstance(answer, Answer):
            self._fail(errno.EPROTO)
        elif answer.error:
            self._fail(answer.error)
        else:
            self.local = answer.local if answer.local.host else self.local
            self.stream = Remote(self._fd)

    def _fail(self, number: int) -> None:
        self.error = number
        passage.call(Close(self._fd))

    def give_up(self) -> None:
        """The socket is closed while it connects."""
        if not self.finished and self._fd:
            self._fail(errno.ECONNABORTED)
