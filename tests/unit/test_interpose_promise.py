"""A program that was told it can read is not told that it cannot because the primary died in between."""

from __future__ import annotations

import pytest

from llft.core.determinizer.operations import WOULD_BLOCK, Operation, Receive, Result
from llft.interpose import passage
from llft.interpose.descriptors import Answered
from llft.interpose.streams import Remote

FD = 3


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Operation]:
    made: list[Operation] = []

    def call(operation: Operation) -> Result:
        made.append(operation)
        assert isinstance(operation, Receive)
        return b"x" if operation.blocking else WOULD_BLOCK

    monkeypatch.setattr(passage, "call", call)
    monkeypatch.setattr(passage, "ordered", False)
    return made


def told_readable(remote: Remote) -> None:
    assert remote.settle(True, False, Answered((FD,))) == (True, False)


def test_it_waits_for_what_was_promised_and_only_for_that(calls: list[Operation]) -> None:
    remote = Remote(FD)
    with pytest.raises(BlockingIOError):
        remote.receive(10, 0)
    told_readable(remote)
    assert remote.receive(10, 0) == b"x"
    with pytest.raises(BlockingIOError):
        remote.receive(10, 0)
    blocking = [call.blocking for call in calls if isinstance(call, Receive)]
    assert blocking == [False, True, False]


def test_writability_promises_nothing(calls: list[Operation]) -> None:
    remote = Remote(FD)
    assert remote.settle(True, True, Answered((-FD,))) == (False, True)
    with pytest.raises(BlockingIOError):
        remote.receive(10, 0)


def test_nothing_is_promised_while_another_thread_reads(
    calls: list[Operation], monkeypatch: pytest.MonkeyPatch
) -> None:
    remote = Remote(FD)
    receive = passage.call

    def disturbed(operation: Operation) -> Result:
        monkeypatch.setattr(passage, "call", receive)
        told_readable(remote)  # by a thread that looks while this one waits, and may get all there is
        return receive(operation)

    monkeypatch.setattr(passage, "call", disturbed)
    assert remote.receive(10, -1) == b"x"
    with pytest.raises(BlockingIOError):
        remote.receive(10, 0)


def test_nothing_is_promised_to_threads_side_by_side(
    calls: list[Operation], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passage, "ordered", True)
    remote = Remote(FD)
    told_readable(remote)
    with pytest.raises(BlockingIOError):
        remote.receive(10, 0)
