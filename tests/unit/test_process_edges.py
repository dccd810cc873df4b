"""What ends with a life of a replica; and a gateway's connection that breaks as soon as it is made."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any, cast

import pytest

from llft import originals
from llft.core.determinizer.operations import Receive
from llft.runtime.birthplace import born_here
from llft.runtime.gateway.relay import Relay, Surroundings
from llft.runtime.gateway.stream import Stream
from llft.wire.preamble import Address, Outbound, pack


def test_a_new_life_begins_where_the_first_one_did(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    begun: list[tuple[str, int]] = []
    birthplace = born_here()

    def execve(path: str, words: list[str], environment: dict[str, str]) -> None:
        mask = os.umask(0o077)
        os.umask(mask)
        begun.append((os.getcwd(), mask))

    monkeypatch.setattr(originals, "execve", execve)
    before, mask = os.getcwd(), os.umask(0o027)
    os.chdir(tmp_path)  # as a program may
    try:
        cast(Any, birthplace.start_anew)({})
    finally:
        os.chdir(before)
        os.umask(mask)
    assert begun == [(birthplace.directory, birthplace.umask)]


class _Alarm:
    def cancel(self) -> None: ...


class _Around:
    """A gateway of which a relay sees this much."""

    def __init__(self) -> None:
        self.loop = self.shell = self
        self.counts = self
        self.ends: Counter[str] = Counter()
        self.begun: list[object] = []

    def alarm(self, delay_ns: int, action: object) -> _Alarm:
        return _Alarm()

    def begin(self, steps: object) -> None:
        self.begun.append(steps)

    def ended(self, relay: Relay) -> None: ...


class _Broken:
    """A stream that was connected, and is closed when its thread comes to look."""

    connecting = True
    error = 0
    unsent_bytes = 0
    readable = object()

    def close(self, *, reset: bool) -> None:
        self.connecting = False

    def local_address(self) -> Address:
        raise OSError(9, "Bad file descriptor")


@pytest.mark.reference
def test_a_connection_that_breaks_before_its_thread_has_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    around = _Around()
    relay = Relay(cast(Surroundings, around), "group 5", 1)
    stream = _Broken()

    def connect(self: Relay, destination: Address) -> int:
        self.stream = cast(Stream, stream)
        return 0

    monkeypatch.setattr(Relay, "_connect", connect)
    steps = relay.requested(3)
    assert isinstance(next(steps), Receive)
    assert steps.send(pack(Outbound(Address("192.0.2.1", 80)))) is stream.readable
    relay.end("client: ECONNRESET")
    with pytest.raises(StopIteration):
        steps.send(None)
    assert len(around.begun) == 1  # the virtual connection is closed
