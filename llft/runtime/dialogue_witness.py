"""What a witness is told of calls that were made in a dialogue, as `Application.called` tells of others."""

from __future__ import annotations

from llft.core.determinizer.operations import Operation, RandomBytes, ReadClock, Receive, Select, Send
from llft.core.dialogue_made import Made
from llft.identifiers import ThreadId
from llft.past.witness import Witness, detail
from llft.runtime.dialogue_kinds import RANDOM_BYTES, RECEIVE, SELECT, SEND


def be_told(witness: Witness, thread: ThreadId, fds: list[int], made: Made) -> None:
    """`fds`: of the connections that were lent."""
    said = {fds[each.place]: iter([message.payload for message in each.sent]) for each in made.connections}
    selected = iter(made.selected)
    known: dict[tuple[int, int, int, bool], int] = {}
    """Of reads, clocks and draws: a program asks for the same again and again."""
    for call in made.witnessed:
        kind, fd, about, looked = call
        if kind == SEND:
            asked = detail(Send(fd, next(said[fd]), True))
        elif kind == SELECT:
            asked = detail(Select(*next(selected)))
        else:
            asked = known.get(call, -1)
            if asked < 0:
                asked = known[call] = detail(_plain(kind, fd, about, looked))
        witness.called(thread, kind, asked)


def _plain(kind: int, fd: int, about: int, looked: bool) -> Operation:
    """Of a call that is neither a Send nor a Select."""
    if kind == RECEIVE:
        return Receive(fd, about, not looked, False)
    return RandomBytes(about) if kind == RANDOM_BYTES else ReadClock(about)
