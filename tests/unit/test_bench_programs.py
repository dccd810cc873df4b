"""The measured programs, without LLFT: what is asked is answered, and a wrong answer is noticed."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from llft.cli.group_run import TrialFailure
from llft.cli.measure.comparison import Manner, compare
from llft.cli.measure.network import Network
from llft.cli.measure.operations import OPERATIONS
from llft.cli.measure.side import Side, Workload
from llft.cli.measure.sides import ECHO, plain_side

MANNER = Manner(
    rounds=1,
    seconds=0.01,
    placements=("one-core",),
    backups="other",
    lane="reference",
    config=None,
    network=Network(),
    tell=print,
)


@pytest.fixture(scope="module", params=ECHO)
def side(request: pytest.FixtureRequest) -> Iterator[Side]:
    with plain_side(MANNER, ECHO[request.param]) as started:
        yield started


@pytest.mark.parametrize("size", [1, 64, 65_536, 1_000_000])
def test_requests_of_any_size_are_answered(side: Side, size: int) -> None:
    side.connect(1)
    sample = side.sample(Workload({"size": size}), 8)
    assert sample.us > 0
    assert len(sample.each_us) == 2
    assert sample.cpu_us > 0
    assert sample.backup_cpu_us is None


def test_replies_may_have_another_size(side: Side) -> None:
    side.connect(1)
    assert side.sample(Workload({"size": 10, "reply_size": 3000}), 4).us > 0
    assert side.sample(Workload({"size": 3000, "reply_size": 10}), 4).us > 0


@pytest.mark.parametrize("operation", OPERATIONS)
def test_each_operation_can_be_asked_for(side: Side, operation: str) -> None:
    side.connect(1)
    request = {"size": 64, "operation": OPERATIONS[operation].number, "count": 3}
    assert side.sample(Workload(request), 4).us > 0


def test_a_crowd_asks_on_all_connections(side: Side) -> None:
    workload = Workload({"size": 64}, connections=5, crowd=True)
    assert side.requests_in(workload, 0.01) >= 8
    assert side.sample(workload, 23).us > 0


def test_two_like_sides_make_a_point(side: Side) -> None:
    with plain_side(MANNER) as other:
        point = compare(side, other, Workload({"size": 64}), "one-core", MANNER)
    assert point["tcp_us"] > 0
    assert point["ratio"] > 0
    assert 1 <= point["rounds"] <= 2


def test_a_wrong_reply_is_noticed(side: Side) -> None:
    with socket.create_server(("127.0.0.1", 0)) as liar:

        def lie() -> None:
            connection, _ = liar.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(b"x" * 64)

        thread = threading.Thread(target=lie)
        thread.start()
        side.control.order(do="connect", port=liar.getsockname()[1], connections=1)
        with pytest.raises(TrialFailure, match="not what was asked for"):
            side.control.order(do="each", requests=1, request={"size": 64})
        thread.join()
    side.control.order(do="connect", port=side.port, connections=1)
