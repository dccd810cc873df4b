"""A fail-over, told in plain words: the story that `llft demo` shows.

A bank of three replicas serves two clients. Its primary is killed; a backup takes over; a new replica
joins and gets the state; the host of the new primary loses its power; the next one takes over. Everything
happens in a deterministic world with the real core, so the same seed tells the same story, and the
same checkers as everywhere pronounce the verdict.

The story is made afterwards, of three sources: the faults that were performed, the journal records of all
replicas, and the few datagrams of an election or a recovery, seen by a tap on the network.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from llft.errors import PeerError
from llft.identifiers import BirthId
from llft.instant import MS
from llft.journal.record import (
    Delivered,
    Operated,
    Record,
    RoleChanged,
    Sent,
    StateApplied,
    StateTaken,
    Suspected,
)
from llft.simulator.demonstration import BANK, CLIENTS, REPLICAS, Demonstration, Tapped, judge
from llft.simulator.faults import CrashPrimary
from llft.simulator.topology import SERVER_GROUP
from llft.wire.codec import decode, decode_body
from llft.wire.messages import MessageType

KILL_COUNT = 2
SAMPLE_COUNT = 5
"""So many glimpses of the ordinary traffic."""

BOLD, RED, GREEN, DIM, PLAIN = "\033[1m", "\033[31m", "\033[32m", "\033[2m", "\033[0m"


class Line(NamedTuple):
    at_ns: int
    text: str
    tone: str = ""


@dataclass
class Story:
    """Puts what happened into words. Every method yields lines; `tell` sorts them by time."""

    run: Demonstration
    names: dict[BirthId, str] = field(default_factory=dict)
    crashes: list[tuple[int, BirthId]] = field(default_factory=list)
    gaps_ns: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        for process in self.run.cluster.processes:
            name = process.name if process.group.spec.name == BANK else process.group.spec.name
            self.names[process.birth_id] = name
        self.crashes = [
            (fault.at_ns, fault.victims[0][1])
            for fault in self.run.injector.performed
            if isinstance(fault.fault, CrashPrimary)
        ]

    @property
    def records(self) -> list[Record]:
        return self.run.cluster.records

    def tell(self) -> list[Line]:
        parts = (
            self._suspicions(),
            self._roles(),
            self._traffic(),
            self._faults(),
            self._votes(),
            self._questions(),
            self._checkpoints(),
            self._first_replies(),
        )
        return sorted((line for part in parts for line in part), key=lambda line: line.at_ns)

    def _bank(self, kind: type[Any]) -> Iterator[Any]:
        return (one for one in self.records if type(one) is kind and one.stamp.group_id == SERVER_GROUP)

    def _name(self, birth_id: BirthId) -> str:
        return self.names.get(birth_id, str(birth_id))

    def _name_of_number(self, number: int) -> str:
        return self._name(self.run.cluster.processes[number].birth_id)

    def _roles(self) -> Iterator[Line]:
        for record in self._bank(RoleChanged):
            at_ns, name = record.stamp.time_ns, self._name(record.stamp.birth_id)
            if record.reason == "first member":
                yield Line(at_ns, f"{name} is the first member of the group: it is the primary.", BOLD)
            elif record.role == "backup":
                yield Line(at_ns, f"{name} is accepted as a backup; now it needs the state.")
            elif record.role == "proposing":
                yield Line(at_ns, f"{name} proposes itself as the new primary (ProposePrimary).")
            elif record.role == "recovering":
                yield Line(at_ns, f"{name} is elected: all surviving members have acknowledged.")
            elif record.role == "primary":
                yield Line(
                    at_ns,
                    f"{name} has reached the virtual synchrony point, where its predecessor's work ends: "
                    "it is the primary.",
                    BOLD,
                )
            elif record.role == "left":
                yield Line(at_ns, f"{name} resets and joins anew: {record.reason}.")

    def _suspicions(self) -> Iterator[Line]:
        for record in self._bank(Suspected):
            how = "its kernel closed the connection" if record.reason == "certificate" else "it is silent"
            suspect = self._name(record.suspect)
            yield Line(
                record.stamp.time_ns, f"{self._name(record.stamp.birth_id)} finds {suspect} dead: {how}."
            )

    def _traffic(self) -> Iterator[Line]:
        """Glimpses of ordinary operation: what the primary has done, and how far its backups are."""
        performed: dict[BirthId, int] = {}
        replies = 0
        every = max(sum(self._is_reply(one) for one in self.records) // (SAMPLE_COUNT + 1), 1)
        for record in self.records:
            if type(record) is Operated and record.stamp.group_id == SERVER_GROUP:
                performed[record.stamp.birth_id] = record.order_seq_num
            if self._is_reply(record):
                replies += 1
                if replies % every == 0:
                    yield self._glimpse(record, replies, performed)

    def _is_reply(self, record: Record) -> bool:
        """A message of the bank, where its primary of that time wrote it."""
        stamp = record.stamp
        written = type(record) is Sent and record.size > 0
        return written and stamp.group_id == SERVER_GROUP and stamp.view.birth_id == stamp.birth_id

    def _glimpse(self, record: Any, replies: int, performed: dict[BirthId, int]) -> Line:
        primary, now_ns = record.stamp.birth_id, record.stamp.time_ns
        gone = {birth_id for at_ns, birth_id in self.crashes if at_ns <= now_ns}
        followers = [
            f"{self._name(birth_id)} {count}"
            for birth_id, count in performed.items()
            if birth_id != primary and birth_id not in gone
        ]
        client = CLIENTS[record.connection.client_group_id - 1]
        done = f"{performed.get(primary, 0)} operations" + (f" ({', '.join(followers)})" if followers else "")
        return Line(now_ns, f"{self._name(primary)} sends reply {replies}, to {client}, after {done}.", DIM)

    def _faults(self) -> Iterator[Line]:
        for index, (at_ns, victim) in enumerate(self.crashes):
            how = "is killed (kill -9)" if index == 0 else "is gone: its host has lost power"
            yield Line(at_ns, f"The primary {self._name(victim)} {how}.", RED)
        for fault in self.run.injector.performed:
            if fault.kind == "Restart" and fault.victims:
                yield Line(
                    fault.at_ns, f"{self._name(fault.victims[0][1])} is started and asks to join.", BOLD
                )

    def _votes(self) -> Iterator[Line]:
        for seen in self._first_of(MessageType.PROPOSE_PRIMARY_ACK):
            voter, candidate = self._name_of_number(seen.sender), self._name_of_number(seen.receiver)
            yield Line(
                seen.at_ns, f"{voter} acknowledges {candidate}, and takes no more orders of the old one."
            )

    def _questions(self) -> Iterator[Line]:
        for seen in self._first_of(MessageType.NEW_PRIMARY_VIEW):
            asker, client = self._name_of_number(seen.sender), self._name_of_number(seen.receiver)
            yield Line(seen.at_ns, f"{asker} asks {client}: what did my predecessor tell you?")
        for seen in self._first_of(MessageType.NEW_PRIMARY_VIEW_ACK):
            client, known = self._name_of_number(seen.sender), _held_bytes(seen.data)
            what = f"{known} bytes of order information" if known else "nothing that you cannot know"
            yield Line(seen.at_ns, f"{client} answers: {what}.")
        for seen in self._first_of(MessageType.KEEP_ALIVE):
            yield Line(
                seen.at_ns, f"{self._name_of_number(seen.sender)} answers: I have closed that connection."
            )

    def _first_of(self, message_type: MessageType) -> Iterator[Tapped]:
        """The first such datagram from one process to another after each crash, for they are repeated until
        answered; only those to or from the new primary before it is one: the rest is aftermath."""
        told: list[tuple[int, int, int]] = []
        primaries = [one.stamp for one in self._bank(RoleChanged) if one.role == "primary"]
        for seen in self.run.tap.tapped:
            era = sum(at_ns <= seen.at_ns for at_ns, _ in self.crashes)
            if not 0 < era < len(primaries) or seen.at_ns > primaries[era].time_ns:
                continue
            ends = [self.run.cluster.processes[end].birth_id for end in (seen.sender, seen.receiver)]
            news = seen.message_type is message_type and primaries[era].birth_id in ends
            if news and (era, seen.sender, seen.receiver) not in told:
                told.append((era, seen.sender, seen.receiver))
                yield seen

    def _checkpoints(self) -> Iterator[Line]:
        for record in self._bank(StateTaken):
            name = self._name(record.stamp.birth_id)
            yield Line(
                record.stamp.time_ns, f"{name} sends its state as of operation {record.order_seq_num}."
            )
        for record in self._bank(StateApplied):
            name = self._name(record.stamp.birth_id)
            yield Line(
                record.stamp.time_ns, f"{name} has the state ({record.size} bytes) and follows from there."
            )

    def _first_replies(self) -> Iterator[Line]:
        installed = [one for one in self._bank(RoleChanged) if one.role == "primary"][1:]
        for (crash_ns, _), primary in zip(self.crashes, installed, strict=False):
            for record in self.records:
                is_delivery = type(record) is Delivered and record.stamp.group_id != SERVER_GROUP
                if is_delivery and record.stamp.time_ns > primary.stamp.time_ns:
                    gap_ns = record.stamp.time_ns - crash_ns
                    self.gaps_ns.append(gap_ns)
                    client, name = self._name(record.stamp.birth_id), self._name(primary.stamp.birth_id)
                    text = f"{client} reads the first reply of {name}, {gap_ns / MS:.1f} ms after the crash."
                    yield Line(record.stamp.time_ns, text, GREEN)
                    break


def _held_bytes(data: bytes) -> int:
    try:
        message = decode(data)
        body: Any = decode_body(message.header.message_type, message.payload)
    except PeerError:
        return 0  # one of several fragments
    return sum(len(piece.data) for piece in body.held)


def main(seed: int = 1) -> int:
    """Tell the story of a seed; 0 if the verdict is clean."""
    run = Demonstration(seed)
    run.run()
    story, verdict = Story(run), judge(run)
    clients = " and ".join(CLIENTS)
    print(f"A bank of {REPLICAS} replicas ({BANK}.1 to {BANK}.{REPLICAS}) and its clients {clients}.")
    print(f"Simulated time in milliseconds; seed {seed}.\n")
    _print_lines(story.tell())
    gaps = " and ".join(f"{gap_ns / MS:.1f} ms" for gap_ns in story.gaps_ns)
    print(f"\nrequests   {verdict.requests}")
    print(f"replies    {verdict.replies}, and {verdict.confirmed} one-way requests confirmed")
    print(f"lost       {verdict.lost}")
    print(f"duplicated {verdict.duplicated}")
    print(f"changed    {verdict.changed}")
    print(f"broken     {verdict.broken} connections")
    print(f"gap        {gaps or 'for ever'}, from the crash to the first reply\n")
    for finding in verdict.findings:
        print(f"VIOLATION: {finding}")
    happy = verdict.clean and len(story.gaps_ns) == len(story.crashes) == KILL_COUNT
    print("The clients noticed nothing but the delay." if happy else "This must not happen.")
    return 0 if happy else 1


def _print_lines(lines: list[Line]) -> None:
    colours = sys.stdout.isatty()
    for line in lines:
        text = f"{line.tone}{line.text}{PLAIN}" if colours and line.tone else line.text
        print(f"{line.at_ns / MS:10.3f}  {text}")
