"""Golden scripts: what several cores say to one another when somebody else decides what arrives.

A script is a list of commands, each followed by "----" and by what happened:

    join s1 alone | join s2        a new process, or a name reborn
    connect c s                    the client group opens a connection, the server group accepts it
    send c hello                   the group's program writes these bytes
    read s 5                       the group's program reads up to so many bytes
    deliver drop=(s2)              what is in flight arrives, and what that causes, until nothing is left
    tick 25 drop=(s1>c, NACK)      so many milliseconds pass, everything arrives
    drop                           what is in flight is lost
    crash s1                       the process is gone
    partition s1 | s2 c1           nothing passes between the sides; `partition` alone heals
    view                           who believes what

`drop=(...)` lists receivers (s2), paths (s1>c) and message types (NACK). Time passes in `tick` and `connect`,
(40 ms) alone. What happened: messages (each kind once for each path, no Heartbeats), records of the
journal that concern the group as a whole, results that programs got.

    LLFT_REWRITE=1 python -m pytest tests/interaction    writes the golden part anew; read the difference
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from llft.core.determinizer.operations import Accept, Connect, Receive, Send
from llft.journal.record import (
    ConnectionEnded,
    Diverged,
    MembershipChanged,
    Record,
    RoleChanged,
    StateApplied,
    Superseded,
    Suspected,
    ViewInstalled,
)
from llft.wire.messages import MessageType
from tests.paper.playbook import GROUP_IDS, Playbook, Rule

SCRIPTS = sorted(Path(__file__).parent.glob("*.txt"))
DROP = re.compile(r"drop=\(([^)]*)\)")
SEPARATOR = "----"
UNSAID = (MessageType.HEARTBEAT,)


class Stage:
    """A playbook that is told what to do by words."""

    def __init__(self) -> None:
        self.play = Playbook()
        self.verbs: dict[str, Callable[[list[str]], None]] = {
            "join": lambda words: void(self.play.join(words[0], alone="alone" in words)),
            "connect": self.connect,
            "send": lambda words: self.play.act(words[0], Send(1, words[1].encode())),
            "read": lambda words: self.play.act(words[0], Receive(1, int(words[1]))),
            "deliver": lambda words: self.play.until(lambda: not self.play.in_flight, ms=0),
            "tick": lambda words: self.play.run(float(words[0])),
            "drop": lambda words: self.play.drop(),
            "crash": lambda words: self.play.crash(words[0]),
            "partition": self.partition,
            "view": lambda words: None,
        }

    def perform(self, command: str) -> list[str]:
        """Do it, and say what happened."""
        play = self.play
        results = {name: len(play.results(name)) for name in play.applications}
        play.mark()
        dropped = DROP.search(command)
        verb, *words = DROP.sub("", command).split()
        rules = [rule_of(item.strip()) for item in dropped[1].split(",")] if dropped else []
        with play.dropping(*rules):
            self.verbs[verb](words)
        return [
            *self.said(),
            *self.recorded(),
            *self.got(results),
            *(self.views() if verb == "view" else ()),
        ]

    def connect(self, words: list[str]) -> None:
        client, server = words
        self.play.act(server, Accept())
        self.play.act(client, Connect(GROUP_IDS[server]))
        self.play.run(40)

    def partition(self, words: list[str]) -> None:
        sides = [tuple(side.split()) for side in " ".join(words).split("|") if side.strip()]
        self.play.partition(*sides)

    # -- what happened -----------------------------------------------------------------------------

    def said(self) -> Iterator[str]:
        seen = []
        for kind in MessageType:
            for datagram in self.play.sent(kind):
                line = f"{datagram.source} -> {datagram.to}: {kind.name}"
                if kind not in UNSAID and (datagram.time_ns, line) not in seen:
                    seen.append((datagram.time_ns, line))
        yield from dict.fromkeys(line for _, line in sorted(seen, key=lambda item: item[0]))

    def recorded(self) -> Iterator[str]:
        first = self.play.record_count_at_mark
        self.play.recorded(object)  # the golden text asks about all of them
        for name, record in self.play.records[first:]:
            text = self.describe(record)
            if text:
                yield f"{name}: {text}"

    def describe(self, record: Record) -> str:
        match record:
            case RoleChanged(_, role, reason):
                return f"is {role} ({reason})"
            case MembershipChanged(_, number, members):
                names = " ".join(f"{self.play.name_of(one.birth_id)}/p{one.precedence}" for one in members)
                return f"membership {number}: {names}"
            case ViewInstalled(stamp, _, _):
                return f"installs {stamp.view}"
            case Suspected(_, suspect, reason):
                return f"suspects {self.play.name_of(suspect)} ({reason})"
            case Superseded(_, by):
                return f"is superseded by {by}"
            case ConnectionEnded(_, connection, how, reason):
                return f"connection {connection} {how} {reason}".rstrip()
            case Diverged():
                return "diverged"
            case StateApplied():
                return "has the state"
        return ""

    def got(self, before: dict[str, int]) -> Iterator[str]:
        for name in sorted(self.play.applications):
            for result in self.play.results(name)[before.get(name, 0) :]:
                yield f"{name} got {result!r}"

    def views(self) -> Iterator[str]:
        for name, core in sorted(self.play.cores.items()):
            state = "" if core.has_state else ", no state"
            yield f"{name}: {core.role} {core.view} of {' '.join(self.play.members(name)) or 'nobody'}{state}"


def void(_: object) -> None:
    """For verbs whose value nobody wants."""


def rule_of(item: str) -> Rule:
    if item in MessageType.__members__:
        return Rule((MessageType[item],))
    by, arrow, to = item.partition(">")
    return Rule(by=by, to=to) if arrow else Rule(to=item)


def blocks(text: str) -> Iterator[tuple[list[str], str, list[str]]]:
    """(comments, command, golden lines) of each paragraph."""
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        lines = paragraph.splitlines()
        comments = [line for line in lines if line.startswith("#")]
        rest = [line for line in lines if not line.startswith("#")]
        if rest:
            yield comments, rest[0], rest[2:]
        else:
            yield comments, "", []


def run_script(path: Path) -> Iterator[tuple[list[str], str, list[str], list[str]]]:
    stage = Stage()
    for comments, command, golden in blocks(path.read_text(encoding="utf-8")):
        yield comments, command, golden, stage.perform(command) if command else []
    stage.play.check_finished()


def rewrite(path: Path) -> None:
    paragraphs = []
    for comments, command, _, happened in run_script(path):
        body = [command, SEPARATOR, *happened] if command else []
        paragraphs.append("\n".join([*comments, *body]))
    path.write_text("\n\n".join(paragraphs) + "\n", encoding="utf-8")


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script(path: Path) -> None:
    if os.environ.get("LLFT_REWRITE"):
        rewrite(path)
    commands = 0
    for _, command, golden, happened in run_script(path):
        commands += bool(command)
        assert happened == golden, f"{path.name}: {command}"
    assert commands


def test_there_are_scripts() -> None:
    assert SCRIPTS
