"""Client histories of a simulated world: when each request was called, when its reply came, what it said.

The programs have no clock of their own, so a notebook stands beside them: the clients that a world is given
write into it, all replicas of a client into the same. Of several replicas the first word counts, for the
call and for the reply alike: before it nobody had asked, after it somebody knew. Nothing that a replica does
depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass, field

from llft.identifiers import NO_BIRTH, NO_VIEW
from llft.journal.record import Called, Stamp
from llft.simulator.interfaces import Program
from llft.simulator.parts import make_program
from llft.simulator.topology import CLIENT, GroupSpec
from llft.simulator.workloads.bank_client import BankClient, ClientThread
from llft.simulator.workloads.protocol import Reply


@dataclass(slots=True)
class Note:
    """One request of a client group."""

    group_id: int
    server_id: int
    call_ns: int
    return_ns: int = 0
    reply: Reply | None = None
    disputed: bool = False
    """Two replicas have different replies: branches of the client."""


@dataclass(slots=True)
class Notebook:
    notes: dict[int, Note] = field(default_factory=dict)
    """By request id."""
    now: Callable[[], int] = lambda: 0

    def program(self, spec: GroupSpec) -> Program:
        """A program for a world: clients write down what they do."""
        if spec.kind != CLIENT:
            return make_program(spec)
        program = _noting(self)(group_id=spec.group_id, servers=spec.servers, requests=spec.requests)
        found: Program = program
        return found

    def call(self, request_id: int, group_id: int, server_id: int) -> None:
        if request_id not in self.notes:
            self.notes[request_id] = Note(group_id, server_id, self.now())

    def reply(self, request_id: int, reply: Reply) -> None:
        note = self.notes.get(request_id)
        if note is None:
            return
        if note.reply is None:
            note.reply, note.return_ns = reply, self.now()
        elif note.reply != reply:
            note.disputed = True

    def called(self, known: Container[int]) -> list[Called]:
        """As records. `known` are the requests whose reply the client still has: one that a member read and
        took with it when it died is as good as none."""
        return [_as_record(note, known=request_id in known) for request_id, note in self.notes.items()]


def _as_record(note: Note, *, known: bool) -> Called:
    """An operation of a bank takes the next number of the server's one sequence."""
    sequence = note.reply.sequence if note.reply is not None and known else 0
    return_ns = note.return_ns if sequence else 0
    return Called(
        stamp=Stamp(return_ns or note.call_ns, note.server_id, NO_BIRTH, NO_VIEW),
        client=f"group {note.group_id}",
        target=f"tickets:{note.server_id}",
        operation="TAKE",
        result=str(sequence) if sequence else "",
        call_ns=note.call_ns,
        return_ns=return_ns,
        call_order=sequence,
    )


def _noting(notebook: Notebook) -> type[BankClient]:
    """A client class that writes into this notebook. A class and no attribute: programs are captured by their
    attributes, and the notebook is not the program's."""

    class NotingClient(BankClient):
        def take(self, thread: ClientThread) -> None:
            super().take(thread)
            server = self.servers[thread.worker % len(self.servers)]
            for request_id in (*thread.awaited, *thread.unconfirmed):
                notebook.call(request_id, self.group_id, server)

        def on_reply(self, thread: ClientThread, body: bytes) -> None:
            before = len(thread.outcomes)
            super().on_reply(thread, body)
            for request_id, outcome in thread.outcomes[before:]:
                if isinstance(outcome, Reply):
                    notebook.reply(request_id, outcome)

    return NotingClient
