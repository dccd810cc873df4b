"""Passing on without a step of the core for each message (D-76): connections that talk are lent to C, for a
moment at a time.

Whoever has nothing else to do in its turn waits here, instead of in the loop. What C passes on needs no
virtual thread: those of the connection wait where they would wait if they had done it themselves, the one for
the stream, the other one in its Receive. Laws:

1. A connection is lent while both wait so, and its stream is open, has nothing unsent, and takes more.
2. Before anything else happens to the core, or to a stream, all of it is taken back: journal, core, streams,
   in this order, and then what came besides is seen to.
3. On whose connection nothing was said for `QUIET_NS` is not lent, so an idle gateway lends nothing. One that
   is disturbed after a message or two costs more than it saves: where that happens the next ones are not
   lent, for longer and longer.
"""

from __future__ import annotations

from _thread import get_ident
from collections.abc import Callable
from itertools import islice
from typing import Any, Final, NamedTuple

from llft.core.dialogue_lent import CONNECTIONS_MAX
from llft.core.dialogue_made import Made, made_of
from llft.core.dialogue_relayed import Answerer, Relayed
from llft.core.dialogue_remote import Remote
from llft.identifiers import BirthId, ThreadId
from llft.instant import MS
from llft.journal.record import Stamp
from llft.runtime.dialogue_line import Line
from llft.runtime.gateway.relay import RECEIVE_BYTES, Relay
from llft.runtime.gateway.shell import Shell
from llft.runtime.transport.envelope import Channel

native: Any
try:
    from llft import reading_on
except ImportError:
    native = None
else:
    native = reading_on

WriteFrame = Callable[[bytes, int, Stamp], None]
Ready = list[tuple[int, int]]
"""Descriptors, and what has happened to them."""

QUIET_NS: Final = 500 * MS
WORTH_IT: Final = 4
"""Messages."""
SKIPPED_MAX: Final = 256
_NO_DESCRIPTOR: Final = -1


class _Lent(NamedTuple):
    relay: Relay
    fd: int
    """Of the virtual connection."""
    stream: tuple[int, ThreadId, ThreadId]
    """Its descriptor, the thread that says, and the one that hears."""


class Relaying:
    def __init__(
        self, shell: Shell, line: Line | None, *, read_bytes: int, write_frame: WriteFrame | None
    ) -> None:
        """`line`: the transport, if C can hear and speak there. `write_frame`: into the journal, if there is
        one."""
        self._shell, self._line, self._write_frame = shell, line, write_frame
        self._read_bytes = read_bytes
        self._relayed = Relayed(shell.core)
        self._talking: dict[int, tuple[Relay, int]] = {}
        """By their numbers, whoever has talked last at the end; and when."""
        self._skipping = self._skipped = 0

    # -- who talks -----------------------------------------------------------------------------------

    def note(self, relay: Relay) -> None:
        """Something was passed on there."""
        self._talking.pop(relay.number, None)
        self._talking[relay.number] = (relay, self._shell.clock())

    def forget(self, relay: Relay) -> None:
        self._talking.pop(relay.number, None)

    def _forget_quiet(self, now_ns: int) -> None:
        while self._talking:
            number, (_, at_ns) = next(iter(self._talking.items()))
            if now_ns - at_ns < QUIET_NS:
                return
            del self._talking[number]

    # -- a turn --------------------------------------------------------------------------------------

    def wait(self, epoll_fileno: int, until_ns: int) -> Ready | None:
        """Pass on what comes, at most until then; what else is ready. None: nothing can be lent."""
        line = self._line
        if native is None or line is None or not self._talking or self._shell.runs:
            return None
        if self._skipped < self._skipping:
            self._skipped += 1
            return None
        now_ns = self._shell.clock()
        self._forget_quiet(now_ns)
        lent = self._lendable()
        return self._wait(lent, line, epoll_fileno, now_ns, until_ns) if lent else None

    def _lendable(self) -> list[_Lent]:
        found = []
        for relay, _ in islice(reversed(self._talking.values()), CONNECTIONS_MAX):
            fd, hearer = relay.virtual_fileno, 0
            stream = relay.quiet_stream()
            if stream is not None:
                hearer = self._relayed.hearer(fd)
            if stream is not None and hearer:
                found.append(_Lent(relay, fd, (stream.fileno(), stream.readable.waiting, hearer)))
        return found

    def _wait(
        self, lent: list[_Lent], line: Line, epoll_fileno: int, now_ns: int, until_ns: int
    ) -> Ready | None:
        connections = self._relayed.lend([each.fd for each in lent], now_ns)
        if connections is None:
            return None
        remotes = connections.remotes
        lines = [line.line(remote.birth_id, remote.group_id) for remote in remotes]
        if None in lines:
            return None
        datagrams, hearing_fileno, *_ = lines[0]  # type: ignore[misc]
        numbers = (
            *(epoll_fileno, _NO_DESCRIPTOR, hearing_fileno, line.sending_fileno),
            *(0, 0, 0, 0, 0),
            *connections.numbers,
        )
        answerers = self._relayed.answerers([remote.group_id for remote in remotes])
        native.lend_dialogue(
            *(get_ident(), numbers, b"", connections.orders, connections.entries, datagrams),
            [_on_line(remote, each) for remote, each in zip(remotes, lines, strict=True)],
            connections.connections,
            None,
            None,
            None,
        )
        streams = [(each.stream[0], place, *each.stream[1:]) for place, each in enumerate(lent)]
        known = [_answering(each, line) for each in answerers]
        told = native.relay(streams, known, until_ns, self._read_bytes, RECEIVE_BYTES)
        return self._take_back(lent, line, [remote.birth_id for remote in remotes], answerers, told)

    def _take_back(
        self,
        lent: list[_Lent],
        line: Line,
        births: list[BirthId],
        answerers: list[Answerer | None],
        told: tuple[Ready, list[Any], list[list[tuple[int, int]]]],
    ) -> Ready:
        ready, streams, answered = told
        made = made_of(native.take_dialogue_back()[0])
        self._judge(made.calls, disturbed=bool(ready or made.foreign))
        for remote in made.remotes:
            line.heard_on_line(births[remote.place], remote.taken, Channel.TO_GROUP)
        for answerer, taken in zip(answerers, answered, strict=True):
            if answerer is not None:
                line.heard_on_line(answerer.birth_id, taken, Channel.TO_GROUP)
        self._tell_core(made)
        for each, now in zip(lent, streams, strict=True):
            if now[0] or now[1]:
                self.note(each.relay)
            each.relay.passed_on(*now)
        for data in line.open_all(made.foreign) if made.foreign else ():
            self._shell.hear(data)
        return ready

    def _tell_core(self, made: Made) -> None:
        core = self._shell.core
        standing = core.standing
        for frame, records, first_ns in made.journal:
            assert self._write_frame is not None, "or nothing is journalled"
            stamp = Stamp(first_ns, standing.group_id, standing.birth_id, standing.view)
            self._write_frame(frame, records, stamp)
        self._relayed.take_back(made)
        self._shell.perform(core.drain())

    def _judge(self, calls: int, *, disturbed: bool) -> None:
        """Whether more are to be lent. To have waited in vain costs nobody anything."""
        if calls >= WORTH_IT:
            self._skipping = 0
        elif disturbed:
            self._skipping = min(2 * self._skipping + 1, SKIPPED_MAX)
        self._skipped = 0


def _on_line(remote: Remote, line: Any) -> tuple[bytes, int, tuple[int, ...], bytes, Any]:
    _, _, newest, birth, destinations = line
    return birth, newest, remote.numbers, remote.held, destinations


def _answering(answerer: Answerer | None, line: Line) -> tuple[bytes, int, bytes] | None:
    if answerer is None:
        return None
    found = line.line(answerer.birth_id, answerer.group_id)
    return None if found is None else (found[3], found[2], answerer.prefix)


def relay_statistics() -> dict[str, int]:
    """How often connections were lent, what was heard and said, and why that ended."""
    found: dict[str, int] = {} if native is None else native.dialogue_statistics()
    return found
