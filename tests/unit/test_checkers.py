"""Each checker finds exactly its own violation in a story with one planted fault, and none in the clean one.

The story: server group 100 starts with A (primary), B and C. A performs operation 5, of which nobody
hears, and crashes. B becomes the primary of view 2 at order number 5; D joins with the state of
operation 6. Client group 1 has one replica, K, which sends two requests and gets two replies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any
from zlib import crc32

import pytest

from llft.config import GroupConfig, Replication
from llft.identifiers import BirthId, ConnectionId, Member, ViewId
from llft.instant import MS
from llft.journal.record import (
    ClockRead,
    ConnectionEnded,
    Delivered,
    Diverged,
    MembershipChanged,
    Operated,
    Record,
    RoleChanged,
    Sent,
    Stamp,
    StateApplied,
    StateTaken,
    Superseded,
    ViewInstalled,
)
from llft.simulator.checkers import CHECKERS, check_all, losses
from llft.simulator.checkers.alone import HEARD_NS
from llft.simulator.checkers.generations import generations
from llft.simulator.evidence import Evidence, ProcessState
from llft.simulator.faults import CrashPrimaries, CrashPrimary, Partition, PerformedFault, PowerLoss
from llft.simulator.options import SimulationOptions
from llft.simulator.profiles import PROFILES
from llft.simulator.topology import CLIENT, SERVER, GroupSpec, Topology
from llft.simulator.workloads import BankClient, BankServer
from llft.simulator.workloads.protocol import (
    ACCEPTED_OUTCOME,
    INDEFINITE_OUTCOME,
    NOT_DONE_OUTCOME,
    Reply,
    make_request_id,
)

A, B, C, D = (BirthId(host_id, 7, host_id * 1000) for host_id in (1, 2, 3, 4))
K, L = (BirthId(host_id, 7, host_id * 1000) for host_id in (9, 10))
SERVERS, CLIENTS = 100, 1
VIEW_1 = ViewId(1, 1, A)
VIEW_2 = ViewId(2, 2, B)
CLIENT_VIEW = ViewId(1, 1, K)
CLIENT_VIEW_2 = ViewId(2, 2, L)
LINK = ConnectionId(CLIENTS, SERVERS, 1)
SIDE_LINK = ConnectionId(CLIENTS, SERVERS, 2)
CONNECT_FLAG = 1
REQUESTS = (b"first request", b"second")
REPLIES = (b"first reply", b"second reply")
IDS = tuple(make_request_id(group_id=CLIENTS, nonce=5, number=number) for number in (1, 2))
ANSWERS = tuple(Reply(request_id, 0, index + 1, 50, 60 + index) for index, request_id in enumerate(IDS))


@dataclass
class Story:
    records: list[Record] = field(default_factory=list)
    processes: list[ProcessState] = field(default_factory=list)
    faults: list[PerformedFault] = field(default_factory=list)
    profile: str = "crash"
    plant: str | None = None
    quiesced: bool = True
    replication: Replication = Replication.SEMI_ACTIVE
    time_ns: int = 0
    former: list[ProcessState] = field(default_factory=list)

    def stamp(self, birth_id: BirthId, view: ViewId) -> Stamp:
        self.time_ns += 1000
        return Stamp(self.time_ns, CLIENTS if birth_id in (K, L) else SERVERS, birth_id, view)

    def operate(self, birth_id: BirthId, view: ViewId, number: int, entry: str = "") -> None:
        self.records.append(Operated(self.stamp(birth_id, view), number, entry or f"entry {number}"))

    def evidence(self) -> Evidence:
        config = GroupConfig(SERVERS, replication=self.replication)
        server = GroupSpec(SERVERS, "S", SERVER, (), 3, 0, "locked", config)
        client = GroupSpec(CLIENTS, "C1", CLIENT, (SERVERS,), 1, 2, "locked", GroupConfig(CLIENTS))
        return Evidence(
            records=self.records,
            processes=self.processes,
            faults=tuple(self.faults),
            profile=PROFILES[self.profile],
            options=SimulationOptions(profile=self.profile, plant=self.plant),
            topology=Topology("one-client", (server, client)),
            simulated_ns=self.time_ns,
            quiesced=self.quiesced,
            former=tuple(self.former),
        )

    def end(self, birth_id: BirthId, view: ViewId, how: str, link: ConnectionId | None = None) -> None:
        stamp = self.stamp(birth_id, view)
        self.records.append(ConnectionEnded(stamp, link or LINK, how, "superseded" if how == "reset" else ""))

    def change(self, wanted: Callable[[Any], bool], **fields: Any) -> None:
        """Changes the one record, or all records, that are wanted."""
        indices = [index for index, record in enumerate(self.records) if wanted(record)]
        assert indices, "the plant does not fit the story"
        for index in indices:
            self.records[index] = self.records[index]._replace(**fields)

    def drop(self, wanted: Callable[[Any], bool]) -> None:
        assert any(map(wanted, self.records)), "the plant does not fit the story"
        self.records = [record for record in self.records if not wanted(record)]

    def process(self, birth_id: BirthId, **fields: Any) -> None:
        index = next(i for i, one in enumerate(self.processes) if one.birth_id == birth_id)
        self.processes[index] = replace(self.processes[index], **fields)

    def program(self, birth_id: BirthId) -> Any:
        return next(one.program for one in self.processes if one.birth_id == birth_id)


def digests(payloads: tuple[bytes, ...], start: int = 0) -> list[int]:
    values = [start]
    for payload in payloads:
        values.append(crc32(payload, values[-1]))
    return values


REQUEST_DIGESTS = digests(REQUESTS, CONNECT_FLAG)
REPLY_DIGESTS = digests(REPLIES)


def send(
    story: Story,
    birth_id: BirthId,
    view: ViewId,
    position: int,
    size: int,
    digest: int,
    number: int,
    link: ConnectionId = LINK,
) -> None:
    """The descriptor of a connection is its number."""
    story.operate(birth_id, view, number)
    stamp = story.stamp(birth_id, view)
    fd = link.conn_seq_num
    story.records.append(Sent(stamp, link, fd, position, 10 + number, size, digest, number))


def read(
    story: Story,
    birth_id: BirthId,
    view: ViewId,
    payloads: tuple[bytes, ...],
    number: int,
    cut: int = 0,
    link: ConnectionId = LINK,
) -> None:
    """Reads the last of these payloads, in two parts if cut; the second is performed as `number` + 1."""
    before, last = sum(map(len, payloads[:-1])), payloads[-1]
    digest = digests(payloads[:-1])[-1]
    for part in filter(None, (last[:cut], last[cut:])):
        before, digest = before + len(part), crc32(part, digest)
        stamp = story.stamp(birth_id, view)
        story.records.append(Delivered(stamp, link, link.conn_seq_num, len(part), before, digest))
        story.operate(birth_id, view, number)
        number += 1


def read_clock(story: Story, birth_id: BirthId, view: ViewId, number: int, value_ns: int) -> None:
    story.records.append(ClockRead(story.stamp(birth_id, view), 0, value_ns, number))
    story.operate(birth_id, view, number)


def tell_server(story: Story) -> None:
    records, stamp = story.records, story.stamp
    everybody = (Member(A, 1), Member(B, 2), Member(C, 3))
    records.append(RoleChanged(stamp(A, VIEW_1), "primary", "first"))
    for one in (A, B, C):
        records.append(MembershipChanged(stamp(one, VIEW_1), 1, everybody))
        read(story, one, VIEW_1, REQUESTS[:1], 1, cut=4)
        read_clock(story, one, VIEW_1, 3, 50)
        send(story, one, VIEW_1, 1, len(REPLIES[0]), REPLY_DIGESTS[1], 4)
    story.operate(A, VIEW_1, 5, "unheard")
    records.append(RoleChanged(stamp(B, VIEW_2), "primary", "elected"))
    for one in (B, C):
        records.append(ViewInstalled(stamp(one, VIEW_2), 5, everybody[1:]))
        read(story, one, VIEW_2, REQUESTS, 6)
    records.append(StateTaken(stamp(B, VIEW_2), 6, 100, 0xABC))
    records.append(StateApplied(stamp(D, VIEW_2), 6, 100, 0xABC))
    for one in (B, C, D):
        read_clock(story, one, VIEW_2, 7, 70)
        send(story, one, VIEW_2, 2, len(REPLIES[1]), REPLY_DIGESTS[2], 8)


def tell_client(story: Story) -> None:
    send(story, K, CLIENT_VIEW, 1, 0, REQUEST_DIGESTS[0], 1)
    send(story, K, CLIENT_VIEW, 2, len(REQUESTS[0]), REQUEST_DIGESTS[1], 2)
    send(story, K, CLIENT_VIEW, 3, len(REQUESTS[1]), REQUEST_DIGESTS[2], 3)
    read(story, K, CLIENT_VIEW, REPLIES[:1], 4)
    read(story, K, CLIENT_VIEW, REPLIES, 5)


def server_program() -> BankServer:
    program = BankServer(group_id=SERVERS, variant="locked")
    program.started = True
    program.replies = dict(zip(IDS, ANSWERS, strict=True))
    return program


def client_program() -> BankClient:
    program = BankClient(group_id=CLIENTS, servers=(SERVERS,), requests=2)
    program.started = True
    program.outcomes = list(zip(IDS, ANSWERS, strict=True))
    program.descriptors = dict.fromkeys(IDS, 1)
    return program


def clean() -> Story:
    story = Story()
    tell_server(story)
    tell_client(story)
    survivors = (Member(B, 2), Member(C, 3), Member(D, 4))
    statistics = {"messaging": {"sent_list": 0, "peak_window_messages": 12}}

    def state(birth_id: BirthId, role: str, view: ViewId, program: Any) -> ProcessState:
        group_id, members = (CLIENTS, (Member(K, 1),)) if birth_id == K else (SERVERS, survivors)
        return ProcessState(
            group_id, birth_id, "x", birth_id != A, role, view, members, program, dict(statistics)
        )

    story.processes = [
        state(A, "primary", VIEW_1, server_program()),
        state(B, "primary", VIEW_2, server_program()),
        state(C, "backup", VIEW_2, server_program()),
        state(D, "backup", VIEW_2, server_program()),
        state(K, "primary", CLIENT_VIEW, client_program()),
    ]
    story.faults = [PerformedFault(CrashPrimary(1, SERVERS), 1, ((SERVERS, A),), 1)]
    return story


def of(kind: type[Record], birth_id: BirthId, **fields: Any) -> Callable[[Any], bool]:
    def wanted(record: Any) -> bool:
        return (
            isinstance(record, kind)
            and record.stamp.birth_id == birth_id
            and all(getattr(record, name) == value for name, value in fields.items())
        )

    return wanted


def found(story: Story) -> list[str]:
    violations = check_all(story.evidence())
    assert all(violation.explanation.endswith(".") for violation in violations)
    return sorted({violation.property for violation in violations})


def test_the_clean_story_is_clean() -> None:
    assert check_all(clean().evidence()) == []
    assert losses(clean().evidence()) == {"unheard_operations": 1}


# The plants, by the property that each one breaks. A plant changes the story in place.


def second_primary_of_a_view(story: Story) -> None:
    story.records.append(RoleChanged(story.stamp(C, VIEW_2), "primary", "mistaken"))


def two_primaries_at_the_end(story: Story) -> None:
    story.process(C, role="primary")


def view_number_skipped(story: Story) -> None:
    skipped = VIEW_2._replace(primary_view_num=4)
    for index, record in enumerate(story.records):
        if record.stamp.view == VIEW_2:
            story.records[index] = record._replace(stamp=record.stamp._replace(view=skipped))
    for one in (B, C, D):
        story.process(one, view=skipped)


def other_operation(story: Story) -> None:
    story.change(of(Operated, C, order_seq_num=7), entry="something else")


def operation_skipped(story: Story) -> None:
    story.drop(of(Operated, C, order_seq_num=7))


def operation_repeated(story: Story) -> None:
    story.operate(C, VIEW_2, 8)


def joiner_begins_too_late(story: Story) -> None:
    story.drop(of(Operated, D, order_seq_num=7))


def state_differs(story: Story) -> None:
    story.change(of(StateApplied, D), digest=0xDEF)


def state_goes_back(story: Story) -> None:
    story.records.append(StateTaken(story.stamp(B, VIEW_2), 3, 100, 0x123))
    story.records.append(StateApplied(story.stamp(D, VIEW_2), 3, 100, 0x123))


def passed_into_view_unprepared(story: Story) -> None:
    """C lacks operation 4 when it passes into view 2, and dies before this shows otherwise."""
    index = next(i for i, record in enumerate(story.records) if of(ViewInstalled, C)(record))
    before = [r for r in story.records[:index] if not of(Operated, C, order_seq_num=4)(r)]
    after = [r for r in story.records[index + 1 :] if r.stamp.birth_id != C]
    story.records = [*before, story.records[index], *after]
    story.process(C, alive=False)
    for one in (B, D):
        story.process(one, membership=(Member(B, 2), Member(D, 4)))


def passed_at_another_point(story: Story) -> None:
    story.change(of(ViewInstalled, C), order_seq_num=4)
    story.records = [r for r in story.records if not (r.stamp.birth_id == C and r.stamp.view == VIEW_2)] + [
        r for r in story.records if of(ViewInstalled, C)(r)
    ]


def read_with_a_gap(story: Story) -> None:
    story.drop(of(Delivered, B, stream_offset=4))


def read_twice(story: Story) -> None:
    stamp = story.stamp(K, CLIENT_VIEW)
    size = len(REPLIES[1])
    end = len(REPLIES[0]) + size
    story.records.append(Delivered(stamp, LINK, 1, size, end, crc32(REPLIES[1], REPLY_DIGESTS[1])))


def read_what_was_not_written(story: Story) -> None:
    story.change(of(Delivered, K, stream_offset=len(REPLIES[0])), digest=0xBAD)


def read_differently(story: Story) -> None:
    """Inside a message, where only the replicas of the reader can be compared."""
    story.change(of(Delivered, C, stream_offset=4), digest=0xBAD)


def read_more_than_was_written(story: Story) -> None:
    end = sum(map(len, REPLIES)) + 3
    story.records.append(Delivered(story.stamp(K, CLIENT_VIEW), LINK, 1, 3, end, 0xBAD))


def left_unread(story: Story) -> None:
    story.drop(of(Delivered, K, stream_offset=sum(map(len, REPLIES))))


def reply_differs(story: Story) -> None:
    story.program(K).outcomes[1] = (IDS[1], ANSWERS[1]._replace(digest=1))


def reply_without_operation(story: Story) -> None:
    for one in (B, C, D):
        del story.program(one).replies[IDS[1]]


def accepted_but_not_performed(story: Story) -> None:
    reply_without_operation(story)
    story.program(K).outcomes[1] = (IDS[1], ACCEPTED_OUTCOME)


def not_done_but_performed(story: Story) -> None:
    story.program(K).outcomes[1] = (IDS[1], NOT_DONE_OUTCOME)


def performed_twice(story: Story) -> None:
    story.program(B).duplicates.append(IDS[0])


def number_missing(story: Story) -> None:
    answer = ANSWERS[1]._replace(sequence=3)
    for one in (B, C, D):
        story.program(one).replies[IDS[1]] = answer
    story.program(K).outcomes[1] = (IDS[1], answer)


def performed_unasked(story: Story) -> None:
    for one in (B, C, D):
        story.program(one).replies[77] = Reply(77, 0, 3, 80, 90)


def malformed_reply(story: Story) -> None:
    story.program(K).malformed.append("request 0x1 was answered with None")


def backup_has_another_history(story: Story) -> None:
    story.program(C).replies[IDS[1]] = ANSWERS[1]._replace(clock_ns=51)


def clock_goes_back(story: Story) -> None:
    for one in (B, C, D):
        story.change(of(ClockRead, one, order_seq_num=7), value_ns=49)


def clock_differs(story: Story) -> None:
    story.change(of(ClockRead, C, order_seq_num=7), value_ns=71)


def output_differs(story: Story) -> None:
    story.change(of(Sent, C, order_seq_num=8), digest=0xBAD)


def timestamp_differs(story: Story) -> None:
    story.change(of(Sent, C, order_seq_num=8), timestamp=99)


def divergence_found(story: Story) -> None:
    story.records.append(Diverged(story.stamp(C, VIEW_2), LINK, 2, 1, 2))


def ranks_differ(story: Story) -> None:
    story.process(C, membership=(Member(B, 2), Member(D, 3), Member(C, 4)))


def dead_member(story: Story) -> None:
    story.process(D, alive=False)


def client_unfinished(story: Story) -> None:
    story.program(K).requests = 3


def nobody_leads(story: Story) -> None:
    story.process(B, role="recovering")


def backup_in_an_old_view(story: Story) -> None:
    story.process(C, view=VIEW_1)


def list_not_emptied(story: Story) -> None:
    story.process(C, statistics={"messaging": {"sent_list": 2}})


def bound_exceeded(story: Story) -> None:
    story.process(C, statistics={"peak_window_messages": 257})


def reset_without_reason(story: Story) -> None:
    story.records.append(ConnectionEnded(story.stamp(K, CLIENT_VIEW), LINK, "reset", "lost"))


def member_has_another_log(story: Story) -> None:
    for one in (B, C, D):
        story.process(one, log=(900, 7))
    story.process(C, log=(900, 8))


def tell_of_a_former_client(story: Story, *, clock_ns: int) -> Reply:
    """The power went after it had this answer; the server has gone on from disk."""
    request_id = make_request_id(group_id=CLIENTS, nonce=4, number=1)
    answer = Reply(request_id, 0, 3, clock_ns, 90)
    program = client_program()
    program.outcomes, program.descriptors = [(request_id, answer)], {request_id: 1}
    story.former = [replace(story.processes[-1], alive=False, program=program)]
    for one in (B, C, D):
        story.program(one).replies[request_id] = answer
    return answer


def acknowledged_and_lost(story: Story) -> None:
    answer = tell_of_a_former_client(story, clock_ns=40)
    for one in (B, C, D):
        del story.program(one).replies[answer.request_id]


def acknowledged_and_changed(story: Story) -> None:
    answer = tell_of_a_former_client(story, clock_ns=40)
    for one in (B, C, D):
        story.program(one).replies[answer.request_id] = answer._replace(digest=91)


def clock_forgotten_at_a_restart(story: Story) -> None:
    tell_of_a_former_client(story, clock_ns=60)


PLANTS: dict[str, tuple[Callable[[Story], None], ...]] = {
    "theorem1": (second_primary_of_a_view, two_primaries_at_the_end, view_number_skipped),
    "theorem2": (other_operation,),
    "theorem3": (operation_skipped, operation_repeated, joiner_begins_too_late),
    "theorem4": (state_differs, state_goes_back),
    "virtual_synchrony": (passed_into_view_unprepared, passed_at_another_point),
    "exactly_once": (
        read_with_a_gap,
        read_twice,
        read_what_was_not_written,
        read_differently,
        read_more_than_was_written,
        left_unread,
    ),
    "replies": (
        reply_differs,
        reply_without_operation,
        accepted_but_not_performed,
        not_done_but_performed,
        performed_twice,
        number_missing,
        performed_unasked,
        malformed_reply,
        backup_has_another_history,
    ),
    "clock": (clock_goes_back, clock_differs),
    "digests": (output_differs, timestamp_differs, divergence_found),
    "membership": (ranks_differ, dead_member),
    "progress": (client_unfinished, nobody_leads, backup_in_an_old_view),
    "buffers": (list_not_emptied, bound_exceeded),
    "resets": (reset_without_reason,),
    "past": (member_has_another_log,),
    "restart": (acknowledged_and_lost, acknowledged_and_changed, clock_forgotten_at_a_restart),
}

CASES = [(name, plant) for name, plants in PLANTS.items() for plant in plants]


def test_every_checker_has_a_plant() -> None:
    assert PLANTS.keys() == CHECKERS.keys()


@pytest.mark.parametrize(("name", "plant"), CASES, ids=[plant.__name__ for _, plant in CASES])
def test_a_plant_raises_exactly_its_violation(name: str, plant: Callable[[Story], None]) -> None:
    story = clean()
    plant(story)
    assert found(story) == [name]


def test_what_a_client_was_told_before_the_power_went_is_no_violation() -> None:
    story = clean()
    tell_of_a_former_client(story, clock_ns=40)
    assert found(story) == []


def test_generations_are_told_apart_by_when_the_power_went() -> None:
    story = clean()
    assert generations(story.evidence()) == [story.evidence()]
    loss_ns = story.records[20].stamp.time_ns
    story.faults.append(PerformedFault(PowerLoss(loss_ns, 5, amid_change=False), loss_ns))
    story.processes[-1] = replace(story.processes[-1], birth_id=K._replace(start_ns=loss_ns + 10))
    before, after = generations(story.evidence())
    assert before.records + after.records == story.records
    assert before.records[-1].stamp.time_ns == loss_ns
    assert [one.birth_id for one in before.processes] == [A, B, C, D]
    assert after.former == tuple(before.processes)
    assert len(after.processes) == 1
    assert (before.quiesced, after.quiesced) == (False, True)


# Side branches, and what the model excuses


PARTITION = PerformedFault(Partition(1, SERVERS, "primary-with-clients", 50 * MS), 1)


def partitioned(*, heard: bool, client: str = "", server: str = "") -> Story:
    """A goes on in view 1 behind a partition, until it learns of view 2. With `heard` its reply
    reaches the client. `client` and `server`: how the connection ended there, if it did."""
    story = clean()
    story.faults = [PARTITION]
    send(story, A, VIEW_1, 2, 3, crc32(b"bad", REPLY_DIGESTS[1]), 6)
    story.records.append(Superseded(story.stamp(A, VIEW_1), VIEW_2))
    if heard:
        read_more_than_was_written(story)
    if client:
        story.end(K, CLIENT_VIEW, client)
    if server:
        story.end(B, VIEW_2, server)
    return story


def test_a_pruned_branch_is_a_loss_and_no_violation() -> None:
    story = partitioned(heard=False)
    assert found(story) == []
    assert losses(story.evidence()) == {"pruned_operations": 2}


ENDS = (
    ("reset", "reset", True),
    ("closed", "reset", True),
    ("reset", "closed", True),
    ("", "", False),
    ("closed", "", False),
    ("closed", "closed", False),
    ("", "reset", False),
)
"""How the connection ended at the client and at the server, and whether that excuses what was lost."""


@pytest.mark.parametrize(("client", "server", "is_excused"), ENDS)
def test_bytes_from_a_pruned_branch_need_a_reset(client: str, server: str, is_excused: bool) -> None:
    story = partitioned(heard=True, client=client, server=server)
    assert found(story) == ([] if is_excused else ["exactly_once"])


def test_a_reset_by_a_pruned_branch_tells_nobody() -> None:
    story = partitioned(heard=True, client="closed")
    story.end(A, VIEW_1, "reset")
    assert found(story) == ["exactly_once"]


@pytest.mark.parametrize(("client", "server", "is_excused"), ENDS)
def test_a_pruned_reply_needs_a_reset(client: str, server: str, is_excused: bool) -> None:
    story = partitioned(heard=False, client=client, server=server)
    reply_differs(story)
    assert found(story) == ([] if is_excused else ["replies"])
    if is_excused:
        assert losses(story.evidence())["pruned_replies"] == 1


def test_without_a_partition_the_client_itself_must_have_been_reset() -> None:
    for client, expected in (("closed", ["replies"]), ("reset", [])):
        story = partitioned(heard=False, client=client, server="reset")
        reply_differs(story)
        story.faults = [PerformedFault(CrashPrimaries(1, (SERVERS, CLIENTS)), 1, (), 2)]
        assert found(story) == expected


def finished_on_the_side(story: Story) -> None:
    """K opens a second connection, to A behind the partition; the request is answered, the
    connection is closed, and then A learns that it was superseded."""
    read(story, A, VIEW_1, REQUESTS[:1], 6, link=SIDE_LINK)
    send(story, A, VIEW_1, 1, len(REPLIES[0]), REPLY_DIGESTS[1], 7, link=SIDE_LINK)
    send(story, K, CLIENT_VIEW, 1, 0, REQUEST_DIGESTS[0], 6, link=SIDE_LINK)
    send(story, K, CLIENT_VIEW, 2, len(REQUESTS[0]), REQUEST_DIGESTS[1], 7, link=SIDE_LINK)
    read(story, K, CLIENT_VIEW, REPLIES[:1], 8, link=SIDE_LINK)
    story.operate(K, CLIENT_VIEW, 9, "forgotten")
    story.end(K, CLIENT_VIEW, "closed", SIDE_LINK)
    request_id = IDS[1] + 1
    client = story.program(K)
    client.requests = 3
    client.outcomes.append((request_id, Reply(request_id, 0, 2, 50, 77)))
    client.descriptors[request_id] = SIDE_LINK.conn_seq_num
    story.faults = [PARTITION]


def test_a_connection_that_only_a_pruned_branch_knew_is_a_loss() -> None:
    story = clean()
    finished_on_the_side(story)
    assert found(story) == []
    counts = losses(story.evidence())
    assert (counts["pruned_connections"], counts["pruned_replies"]) == (1, 1)


def never_partitioned(story: Story) -> None:
    story.faults = clean().faults


def never_closed(story: Story) -> None:
    story.drop(of(ConnectionEnded, K))


def nothing_pruned(story: Story) -> None:
    """A never did more than the others know: then nobody could have answered."""
    kinds = (Operated, Sent, Delivered)
    story.drop(of(Operated, A, entry="unheard"))
    index = next(i for i, record in enumerate(story.records) if of(RoleChanged, B)(record))
    late = [r for r in story.records[index:] if not (r.stamp.birth_id == A and isinstance(r, kinds))]
    story.records = story.records[:index] + late


def known_to_the_survivors(story: Story) -> None:
    read(story, B, VIEW_2, REQUESTS[:1], 9, link=SIDE_LINK)


@pytest.mark.parametrize("spoil", [never_partitioned, never_closed, nothing_pruned, known_to_the_survivors])
def test_a_connection_that_nobody_knew_needs_its_excuse(spoil: Callable[[Story], None]) -> None:
    story = clean()
    finished_on_the_side(story)
    spoil(story)
    assert found(story) == ["exactly_once", "replies"]


def client_branches(server: str = "closed") -> Story:
    """K, cut off from L, sends one more request on a second connection, and the servers perform it
    as their third operation. L, which takes over in view 2 with K's state of operation 5, wins.
    `server`: how the second connection ends there."""
    story = clean()
    story.faults = [PARTITION]
    records, stamp = story.records, story.stamp
    records.append(StateTaken(stamp(K, CLIENT_VIEW), 5, 10, 0x77))
    records.append(StateApplied(stamp(L, CLIENT_VIEW), 5, 10, 0x77))
    send(story, K, CLIENT_VIEW, 1, 0, REQUEST_DIGESTS[0], 6, link=SIDE_LINK)
    send(story, K, CLIENT_VIEW, 2, len(REQUESTS[0]), REQUEST_DIGESTS[1], 7, link=SIDE_LINK)
    records.append(RoleChanged(stamp(L, CLIENT_VIEW_2), "primary", "elected"))
    records.append(ViewInstalled(stamp(L, CLIENT_VIEW_2), 6, (Member(L, 2),)))
    records.append(Superseded(stamp(K, CLIENT_VIEW), CLIENT_VIEW_2))
    for one in (B, C, D):
        read(story, one, VIEW_2, REQUESTS[:1], 9, link=SIDE_LINK)
        story.operate(one, VIEW_2, 10, "the end")
    if server:
        story.end(B, VIEW_2, server, SIDE_LINK)
    state = next(one for one in story.processes if one.birth_id == K)
    heir = replace(
        state, birth_id=L, view=CLIENT_VIEW_2, membership=(Member(L, 2),), program=client_program()
    )
    story.processes.append(heir)
    story.process(K, alive=False)
    return story


def both_split(end_astray: bool) -> Story:
    """Both groups were split, and each surviving branch closed the connection with the other's pruned one: L
    read what A wrote, B read what K wrote. With `end_astray` that was no more than the end."""
    story = partitioned(heard=False, server="closed")
    records, stamp = story.records, story.stamp
    records.append(StateTaken(stamp(K, CLIENT_VIEW), 5, 10, 0x77))
    records.append(StateApplied(stamp(L, CLIENT_VIEW), 5, 10, 0x77))
    if end_astray:
        send(story, K, CLIENT_VIEW, 4, 0, REQUEST_DIGESTS[2], 6)
    records.append(RoleChanged(stamp(L, CLIENT_VIEW_2), "primary", "elected"))
    records.append(ViewInstalled(stamp(L, CLIENT_VIEW_2), 6, (Member(L, 2),)))
    records.append(Superseded(stamp(K, CLIENT_VIEW), CLIENT_VIEW_2))
    read(story, L, CLIENT_VIEW_2, (*REPLIES, b"stray"), 7)
    story.operate(L, CLIENT_VIEW_2, 8, "forgotten")
    story.end(L, CLIENT_VIEW_2, "closed")
    state = next(one for one in story.processes if one.birth_id == K)
    story.processes.append(replace(state, birth_id=L, view=CLIENT_VIEW_2, membership=(Member(L, 2),)))
    story.process(K, alive=False)
    return story


def test_a_connection_that_both_pruned_branches_ended_is_a_loss() -> None:
    assert found(both_split(end_astray=True)) == []
    assert found(both_split(end_astray=False)) == ["exactly_once"]
    crashed = both_split(end_astray=True)
    crashed.drop(of(Superseded, K))
    assert found(crashed) == ["exactly_once"]


def repeat_second_request(story: Story) -> None:
    """The stray request has the id of the second one, and hides its number."""
    for one in (B, C, D):
        story.program(one).replies[IDS[1]] = Reply(IDS[1], 0, 3, 80, 90)
        story.program(one).duplicates.append(IDS[1])


def refuse_second_request(story: Story) -> None:
    """The surviving branch could not connect; the stray request had the same id."""
    story.program(L).outcomes[1] = (IDS[1], NOT_DONE_OUTCOME)


def perform_stray_request(story: Story) -> None:
    stray = IDS[1] + 1
    for one in (B, C, D):
        story.program(one).replies[stray] = Reply(stray, 0, 3, 80, 90)


BRANCH_REQUESTS: tuple[tuple[Callable[[Story], None], dict[str, int]], ...] = (
    (repeat_second_request, {"repeated_by_a_branch": 2}),
    (refuse_second_request, {"repeated_by_a_branch": 1}),
    (perform_stray_request, {"pruned_requests": 1}),
)


@pytest.mark.parametrize(("ask", "expected"), BRANCH_REQUESTS)
@pytest.mark.parametrize("server", ["closed", "reset"])
def test_requests_of_a_pruned_client_branch_are_losses(
    ask: Callable[[Story], None], expected: dict[str, int], server: str
) -> None:
    story = client_branches(server)
    ask(story)
    assert found(story) == []
    assert expected.items() <= losses(story.evidence()).items()


@pytest.mark.parametrize("ask", [ask for ask, _ in BRANCH_REQUESTS])
def test_requests_of_a_client_branch_need_an_excuse(ask: Callable[[Story], None]) -> None:
    left_open = client_branches(server="")
    ask(left_open)
    assert found(left_open) == ["exactly_once", "replies"]
    no_partition = client_branches()
    no_partition.faults = clean().faults
    ask(no_partition)
    assert found(no_partition) == ["exactly_once", "replies"]
    no_branch = clean()
    no_branch.faults = [PARTITION]
    if ask is refuse_second_request:
        not_done_but_performed(no_branch)
    else:
        ask(no_branch)
    assert found(no_branch) == ["replies"]


def test_a_repeated_id_explains_one_number_only() -> None:
    story = client_branches()
    repeat_second_request(story)
    for one in (B, C, D):
        story.program(one).replies[IDS[1]] = Reply(IDS[1], 0, 4, 80, 90)
    assert found(story) == ["replies"]


def test_a_reply_from_nowhere_is_not_explained_by_a_repeated_id() -> None:
    story = client_branches()
    repeat_second_request(story)
    story.program(L).outcomes[1] = (IDS[1], ANSWERS[1]._replace(sequence=9))
    assert found(story) == ["replies"]


def test_two_servers_may_not_perform_one_request() -> None:
    story = clean()
    other = BankServer(group_id=101, variant="locked")
    other.replies = {IDS[1]: ANSWERS[0]._replace(request_id=IDS[1])}
    view = ViewId(1, 1, L)
    story.processes.append(ProcessState(101, L, "T", True, "primary", view, (Member(L, 1),), other, {}))
    story.faults = [PARTITION]
    assert found(story) == ["replies"]


def test_a_side_branch_with_a_view_of_its_own_is_pruned() -> None:
    """C proposed itself behind a partition: view 2 twice, of which the higher precedence survives."""
    story = clean()
    rival = ViewId(3, 2, C)
    story.drop(lambda record: record.stamp.birth_id == C and record.stamp.view == VIEW_2)
    story.records.append(ViewInstalled(story.stamp(C, rival), 5, (Member(C, 3),)))
    story.operate(C, rival, 6, "on the side")
    story.records.append(Superseded(story.stamp(C, rival), VIEW_2))
    story.process(C, alive=False)
    for one in (B, D):
        story.process(one, membership=(Member(B, 2), Member(D, 4)))
    assert found(story) == []
    assert losses(story.evidence()) == {"pruned_operations": 1, "unheard_operations": 1}


def test_a_replica_that_went_on_from_a_pruned_branch_is_found() -> None:
    """C performed what A alone had done, and passed into view 2 all the same."""
    story = clean()
    index = next(i for i, record in enumerate(story.records) if of(ViewInstalled, C)(record))
    story.records.insert(index, Operated(story.stamp(C, VIEW_1), 5, "unheard"))
    story.records.insert(index + 1, Operated(story.stamp(C, VIEW_1), 6, "unheard too"))
    assert "theorem2" in found(story)
    assert "virtual_synchrony" in found(story)


def test_resets_are_excused_by_a_double_failure_and_outside_the_model() -> None:
    story = clean()
    reset_without_reason(story)
    story.faults.append(PerformedFault(CrashPrimary(2, CLIENTS), 2, ((CLIENTS, K),), 1))
    assert found(story) == []
    story = clean()
    reset_without_reason(story)
    story.records.append(RoleChanged(story.stamp(K, CLIENT_VIEW), "primary", "first member"))
    story.records.append(RoleChanged(story.stamp(K, CLIENT_VIEW), "left", "superseded by v2/p2"))
    assert found(story) == ["resets"], "nothing is lost there that would explain it"
    story.profile = "loss"
    assert found(story) == [], "a primary that was superseded while it lived has failed like any other"
    story.records[-1] = story.records[-1]._replace(reason="it was asked to leave")
    assert found(story) == ["resets"]
    story = clean()
    reset_without_reason(story)
    story.profile = "lost-client"
    assert found(story) == []
    assert losses(story.evidence())["reset_connections"] == 1


def lost_with_output_commit(
    *, joined: int, profile: str = "lost-client-level1", client: str = "reset"
) -> Story:
    """A alone knew what it wrote last. `joined`: B had its state so long after that was written; if it is
    negative, so long before; 0: B was there from the beginning."""
    story = partitioned(heard=False, client=client)
    story.faults, story.profile = [], profile
    stamp = story.stamp(B, VIEW_2)
    story.records.append(ConnectionEnded(stamp, LINK, "reset", "lost: the remote group knows more"))
    if joined:
        at = next(i for i, one in enumerate(story.records) if of(Sent, A)(one) and one.order_seq_num == 6)
        state = Stamp(story.records[at].stamp.time_ns + joined, SERVERS, B, VIEW_1)
        story.records.insert(at + 1, StateApplied(state, 4, 9, 1))
    return story


def test_with_output_commit_only_what_was_done_alone_may_be_lost() -> None:
    assert "resets" in found(lost_with_output_commit(joined=-HEARD_NS - 50_000, client="closed"))
    assert "resets" not in found(lost_with_output_commit(joined=1, client="closed"))


@pytest.mark.parametrize("client", ["closed", "reset"])
def test_with_output_commit_no_client_has_a_reply_to_what_was_lost(client: str) -> None:
    """But to what A did alone; of which a client that had closed the connection cannot be told."""
    for profile, joined, excused in (
        ("lost-client", -HEARD_NS - 50_000, client == "reset"),
        ("lost-client-level1", -HEARD_NS - 50_000, False),
        ("lost-client-level1", 1, True),
    ):
        story = lost_with_output_commit(joined=joined, profile=profile, client=client)
        reply_differs(story)
        assert ("replies" in found(story)) is not excused


def test_divergence_is_expected_when_a_bug_was_planted() -> None:
    story = clean()
    divergence_found(story)
    story.plant = "a-bug"
    assert found(story) == []


def test_indefinite_requests_are_losses() -> None:
    story = clean()
    story.program(K).outcomes[1] = (IDS[1], INDEFINITE_OUTCOME)
    assert found(story) == []
    assert losses(story.evidence())["indefinite_requests"] == 1


def test_a_semi_passive_backup_performs_nothing_until_it_is_primary() -> None:
    """B stores the state of operation 2, and performs 3 and 4 again when it takes over."""
    story = clean()
    story.replication = Replication.SEMI_PASSIVE
    story.drop(lambda record: record.stamp.birth_id in (C, D) and type(record) is not ViewInstalled)
    story.drop(lambda record: record.stamp.birth_id == B and record.stamp.view == VIEW_1)
    taken: list[Record] = [
        StateTaken(story.stamp(A, VIEW_1), 2, 9, 1),
        StateApplied(story.stamp(B, VIEW_1), 2, 9, 1),
    ]
    again = Story(time_ns=story.time_ns)
    read_clock(again, B, VIEW_1, 3, 50)
    send(again, B, VIEW_1, 1, len(REPLIES[0]), REPLY_DIGESTS[1], 4)
    index = next(i for i, record in enumerate(story.records) if of(ViewInstalled, B)(record))
    story.records[index:index] = [*taken, *again.records]
    assert found(story) == []
