"""Coverage marks: the tests of this folder and a few seeds take every branch of the paper's pseudocode.

A branch is known by a line of source text in a function: it is taken when that line runs, or the line
that *follows* it, and, where a line alone does not show it, when a condition on the function's variables
holds. A line that is not found any more is a failure, too: then the table has to follow the code.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from types import CodeType, FrameType
from typing import Any, NamedTuple

import pytest

from llft.simulator.options import SimulationOptions
from llft.simulator.runner import run_seed
from tests.paper import test_backup_change, test_messaging, test_primary_change

SEEDS = (
    (1, SimulationOptions(threads="ordered")),
    (2, SimulationOptions(threads="token")),
    (3, SimulationOptions(threads="ordered")),
)


class Branch(NamedTuple):
    name: str
    place: str
    """module:Class.method, below llft.core."""
    marker: str
    following: bool = False
    when: Callable[[dict[str, Any]], bool] = lambda variables: True


def taken(name: str, place: str, marker: str) -> Branch:
    return Branch(name, place, marker)


def after(name: str, place: str, marker: str) -> Branch:
    return Branch(name, place, marker, following=True)


def _performing_with_more_to_do(variables: dict[str, Any]) -> bool:
    replica = variables["self"].replica
    return variables["recovery"].phase == "performing" and not (
        replica.cursor.at_end and replica.determinizer.caught_up
    )


CONNECTION = "messaging.connection:Connection."
ACKNOWLEDGMENT = "messaging.acknowledgment:Acknowledgment."
RETENTION = "messaging.retention:Retention."
SOCKETS = "virtual_sockets:VirtualSockets."
PRIMARY = "membership.primary_change:PrimaryChange."
JOINING = "membership.backup_change:Joining."
COMMIT = "membership.backup_change:Commit."
CHANGE = "membership.backup_change:on_membership_change"
GATE = "determinizer.replay_gate:ReplayGate."
NOT_GENERATED = "if not self.has_generated(connection, position):"

MESSAGING = (
    taken("7 yes", "replica:Replica.record", "lane.record(entry)"),
    taken("7 no", f"{SOCKETS}write", "lane.clock.on_deliver(timestamp)"),
    taken("15 yes", "messaging.messaging:Messaging.push", "self.transmit(connection, message)"),
    taken("18 yes", "inbox:Inbox._superseded", 'reset_and_rejoin(f"superseded'),
    taken("18 no", "inbox:Inbox._dispatch", "self._on_remote(message, data)"),
    taken("22", f"{CONNECTION}accept", "self.pending[position] = message"),
    taken("26, 27 yes", f"{CONNECTION}_close_gap", "self._append_received(message)"),
    taken("26, 27 no", "messaging.messaging:Messaging._accept", "return  # line 30"),
    taken("26 no", "messaging.lane:Lane._take", "connection.received_up_to = position"),
    taken("35 yes", "messaging.offering:offered", "return min(limit, available)"),
    taken("35 no", "messaging.offering:offered", "return 0 if connection.at_end"),
    taken("36", f"{SOCKETS}take", "first = connection.received[0]"),
    taken("38", "replica:Replica.follow_log", "to.follow(entry)"),
    taken("40 yes", "messaging.ordering:Cursor._order_read", "message = connection.find_received("),
    taken("40 no", "messaging.ordering:Cursor._order_read", "self._want_more(connection)"),
    taken("42", f"{CONNECTION}_move_to_delivered", "self.delivered.append(message)"),
    taken("45 yes", f"{RETENTION}retransmit_unacked", "messaging.transmit(connection, message)"),
    after("45 no", f"{RETENTION}retransmit_unacked", "if connection.acked >= connection.transmitted"),
    taken("47 yes", f"{ACKNOWLEDGMENT}send_first_ack", "MessageType.FIRST_ACK"),
    taken("47 no", f"{ACKNOWLEDGMENT}send_first_ack", "connection.ack_due_ns = NEVER"),
    taken("49", f"{RETENTION}send_nacks", "messaging.send_control(connection, MessageType.NACK"),
    after("49, 51 no", f"{RETENTION}send_nacks", "if not connection.nacks:"),
    taken("51", f"{RETENTION}send_nacks", "self.send_local(MessageType.NACK"),
    taken("54", "periodic:PeriodicProcessing._keep_alive", "MessageType.KEEP_ALIVE"),
    taken("56 yes", "intra_group:IntraGroup.send_heartbeat", "self.beat += 1"),
    taken("56 no", "intra_group:IntraGroup.send_heartbeat", "_send_heartbeat(self.replica.own_watermark()"),
    Branch(
        "64 yes",
        f"{ACKNOWLEDGMENT}on_first_ack",
        NOT_GENERATED,
        when=lambda variables: variables["position"] <= variables["connection"].generated,
    ),
    after("64 no", f"{ACKNOWLEDGMENT}on_first_ack", NOT_GENERATED),
    taken("65 yes", f"{ACKNOWLEDGMENT}on_first_ack", "on_too_many_first_acks()"),
    taken("65 no, 67 yes", f"{ACKNOWLEDGMENT}on_first_ack", "self._send_second_ack("),
    Branch(
        "65 no, 67 no",
        f"{ACKNOWLEDGMENT}on_first_ack",
        "if standing.am_the_only_primary or",
        when=lambda variables: variables["standing"].am_primary and bool(variables["standing"].backups),
    ),
    taken("70 yes", f"{ACKNOWLEDGMENT}on_second_ack", "connection.second_acked = max("),
    taken("70 no", f"{ACKNOWLEDGMENT}on_second_ack", "connection.want(position)"),
    taken("74 yes, sent", f"{RETENTION}on_remote_nack", "messaging.transmit(connection, message)"),
    taken("74 no, sent", f"{RETENTION}on_remote_nack", "continue"),
    taken("74 yes, received", f"{RETENTION}on_local_nack", "self._pass_on("),
    taken("74 no, received", f"{RETENTION}on_local_nack", "connection.want("),
    taken("79, 80 yes", f"{CONNECTION}collect_sent", "message = sent.popleft()"),
    Branch(
        "79, 80 no",
        f"{CONNECTION}collect_sent",
        "sent = self.sent",
        when=lambda variables: (
            bool(variables["self"].sent) and variables["self"].sent[-1].timestamp > variables["watermark"]
        ),
    ),
    taken("82, 83 yes", f"{CONNECTION}collect_delivered", "delivered.popleft()"),
    Branch(
        "82, 83 no",
        f"{CONNECTION}collect_delivered",
        "return 0",
        when=lambda variables: bool(variables["self"].delivered),
    ),
)

PRIMARY_CHANGE = (
    taken("3 yes", f"{PRIMARY}on_primary_timeout", "self.propose(reason)"),
    taken("3 no", f"{PRIMARY}_acknowledge_again", "self.detector.restart(body.sender"),
    taken("8 yes", f"{PRIMARY}on_retransmission_timer", "self.multicast_proposal()"),
    taken("8 no", f"{PRIMARY}on_retransmission_timer", "self.retransmission_count += 1"),
    taken("14 yes", f"{PRIMARY}_conclude_if_complete", "standing.role = RECOVERING"),
    after("14 no", f"{PRIMARY}_conclude_if_complete", "if any(backup not in self.acked"),
    taken("18, 20 no", f"{PRIMARY}on_propose_primary", "return  # line 20"),
    taken("18, 19, 20 yes", f"{PRIMARY}on_propose_primary", "self._accept_proposal("),
    taken("19 no, 25", f"{PRIMARY}on_propose_primary", '"excluded by a new primary"'),
    taken("28", "view_change:ViewChange.ask", "send_question(self.replica, connection)"),
    taken("30", "view_change:ViewChange.on_new_primary_view_ack", "connection.want(body.last_sent)"),
    taken("32 yes", "view_change:ViewChange.progress", "self._settle_view()"),
    Branch(
        "32 no",
        "view_change:ViewChange.progress",
        "if self._performed_everything(recovery)",
        when=_performing_with_more_to_do,
    ),
    taken("36", "view_change:ViewChange.on_new_primary_view", "self._flush_undelivered(connection)"),
)

BACKUP_CHANGE = (
    taken("10 yes", f"{JOINING}on_retransmission_timer", "self.become_first_member()"),
    taken("10 no", f"{JOINING}on_retransmission_timer", "self.retransmission_count += 1"),
    taken("15 yes", f"{JOINING}on_accept_backup", "standing.role = BACKUP"),
    after("15 no", f"{JOINING}on_accept_backup", "if all(member.birth_id != standing.birth_id"),
    taken("22 yes", f"{COMMIT}on_propose_backup", "self._enqueue(MessageType.ACCEPT_BACKUP"),
    taken("22 no", f"{COMMIT}on_propose_backup", "self._resend_to(joiner)"),
    taken("27", f"{COMMIT}remove", "self._enqueue(MessageType.REMOVE_BACKUP"),
    taken("33 yes", f"{COMMIT}on_retransmission_timer", "self._exclude_silent()"),
    taken("33 no", f"{COMMIT}on_retransmission_timer", "self.retransmission_count += 1"),
    taken("39 yes", f"{COMMIT}_conclude_if_complete", "self.port.membership_committed("),
    after("39 no", f"{COMMIT}_conclude_if_complete", "if any(b not in self.acked"),
    taken("43 yes", CHANGE, "port.send_local(MessageType.MEMBERSHIP_ACK"),
    taken("43 no", CHANGE, 'port.reset_and_rejoin("removed'),
)

DETERMINIZER = (
    taken("29 yes", f"{GATE}append", "queue = self._order_info[operation_id] = deque()"),
    Branch("29 no", f"{GATE}append", "queue.append(turn)", when=lambda variables: bool(variables["queue"])),
    taken("33 yes", "determinizer.ordered:OrderedEngine._reproduce", "operation_id = self.reproduction"),
    after("33 no", "determinizer.ordered:OrderedEngine._reproduce", "if operation is None:"),
    after("38 yes, not available", f"{GATE}intercept", "if own is None:"),
    after("38 yes, not its turn", f"{GATE}intercept", "if self._order_info[operation_id][0] is not turn:"),
    taken("38 no", f"{GATE}intercept", "self._consume(turn, 1)"),
)

FIGURES = {
    "messaging": MESSAGING,
    "primary-change": PRIMARY_CHANGE,
    "backup-change": BACKUP_CHANGE,
    "determinizer": DETERMINIZER,
}


def locate(branch: Branch) -> tuple[CodeType, int]:
    """The code object and the line number of a branch's mark."""
    module, _, path = branch.place.partition(":")
    found: Any = import_module(f"llft.core.{module}")
    for part in path.split("."):
        found = getattr(found, part)
    lines, first = inspect.getsourcelines(found)
    numbers = [first + index for index, line in enumerate(lines) if branch.marker in line]
    assert numbers, f"{branch.name}: {branch.place} has no line with {branch.marker!r}"
    return found.__code__, numbers[0] + branch.following


class Marks:
    """The branches that were not taken yet, by code object and line."""

    def __init__(self) -> None:
        self.watched: dict[CodeType, list[tuple[int, str, Branch]]] = {}
        for figure, branches in FIGURES.items():
            for branch in branches:
                code, number = locate(branch)
                name = f"{figure} {branch.name}"
                self.watched.setdefault(code, []).append((number, name, branch))

    def missing(self) -> list[str]:
        return sorted(name for marks in self.watched.values() for _, name, _ in marks)

    def on_call(self, frame: FrameType, event: str, argument: object) -> Any:
        return self.on_line if self.watched.get(frame.f_code) else None

    def on_line(self, frame: FrameType, event: str, argument: object) -> Any:
        if event == "line":
            marks = self.watched[frame.f_code]
            for mark in [mark for mark in marks if mark[0] == frame.f_lineno]:
                if mark[2].when(frame.f_locals):
                    marks.remove(mark)
        return self.on_line

    @contextmanager
    def watching(self) -> Iterator[None]:
        before = sys.gettrace()
        sys.settrace(self.on_call)
        try:
            yield
        finally:
            sys.settrace(before)


def scenarios() -> Iterator[Callable[[], object]]:
    """All tests of the three figures, then the seeds."""
    for module in (test_messaging, test_primary_change, test_backup_change):
        for _, group in inspect.getmembers(module, inspect.isclass):
            if group.__name__.startswith("Test"):
                tests = inspect.getmembers(group(), inspect.ismethod)
                yield from (test for name, test in tests if name.startswith("test"))
    for seed, options in SEEDS:
        yield lambda seed=seed, options=options: run_seed(seed, options)  # type: ignore[misc]


@pytest.mark.reference
def test_every_branch_of_the_paper_is_taken() -> None:
    marks = Marks()
    for scenario in scenarios():
        if not marks.missing():
            break
        with suppress(AssertionError), marks.watching():  # a test that fails says so itself
            scenario()
    assert marks.missing() == [], "never taken"
