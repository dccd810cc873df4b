"""How the watch ends, without Spark: by itself, or by a signal, which interrupts no call."""

from __future__ import annotations

import os
import signal

import pytest

from llft.cli.watch import wait_until


class Query:
    """Ends at the third call, or is signalled in the middle of the second one."""

    def __init__(self, signal_number: int | None = None) -> None:
        self.signal_number = signal_number
        self.calls = 0
        self.whole_calls = 0

    def ended(self, timeout_s: int) -> bool:
        assert timeout_s > 0
        self.calls += 1
        if self.calls == 2 and self.signal_number is not None:
            os.kill(os.getpid(), self.signal_number)
        self.whole_calls += 1
        return self.calls == 3


def test_it_ends_when_the_stream_does() -> None:
    query = Query()
    wait_until(query.ended)
    assert query.calls == 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_between_two_calls(number: int) -> None:
    before = signal.getsignal(number)
    query = Query(number)
    wait_until(query.ended)
    assert query.calls == query.whole_calls == 2
    assert signal.getsignal(number) is before
