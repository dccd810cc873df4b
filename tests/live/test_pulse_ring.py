"""What the native thread says, when it falls silent, and what it must never say; heard by a transport."""

from __future__ import annotations

import ctypes
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from llft.identifiers import BirthId, ViewId
from llft.instant import MS
from llft.journal.record import MembershipChanged, RoleChanged, Stamp, Superseded
from llft.runtime.native.build import build
from llft.runtime.native.pulse import NativePulse, Rhythm
from llft.runtime.transport.envelope import HEADER_BYTES, Channel, Opener, Sealer
from llft.runtime.transport.keys import KeyRing, keyed_hash
from llft.runtime.transport.replay import WIDTH
from llft.runtime.transport.udp import UdpTransport
from llft.runtime.transport.unicast import UnicastAddressing
from llft.wire.codec import encode, encode_body
from llft.wire.messages import Header, HeartbeatBody, Message, MessageFlag, MessageType, NackBody
from tests.live.native import needs_native

GROUP = 0x5151
ME, OTHER = BirthId(1, 1, 1), BirthId(1, 2, 2)
KEYS = KeyRing({1: b"k" * 32})
RHYTHM = Rhythm(
    beat_ns=20 * MS, patience_ns=30 * MS, spacing_ns=10 * MS, bound_ns=400 * MS, supply_ns=0, most=12
)
ALL_S = 0.4
"""Long enough for all that the ring holds to leave."""
VIEW = ViewId(1, 1, ME)
STAMP = Stamp(0, GROUP, ME, VIEW)

pytestmark = needs_native


def heartbeat(
    beat: int, *, sender: BirthId = ME, flags: MessageFlag = MessageFlag.NONE, view: ViewId = VIEW
) -> bytes:
    header = Header(MessageType.HEARTBEAT, GROUP, GROUP, source_view=view, dest_view=view, flags=flags)
    return encode(Message(header, payload=encode_body(HeartbeatBody(sender, beat))))


class World:
    """A process with a pulse, and one that hears it."""

    def __init__(self, directory: Path) -> None:
        self.ear = self._open(OTHER, UnicastAddressing({}))
        self.mouth = self._open(ME, UnicastAddressing({GROUP: [self.ear.address]}))
        # A copy is a library of its own, with a thread and a ring of its own.
        copy = shutil.copy(build(os.environ)[0], directory)
        self.library = ctypes.PyDLL(copy)
        self.pulse = NativePulse(self.library, self.mouth, ME, RHYTHM)

    def _open(self, birth_id: BirthId, addressing: UnicastAddressing) -> UdpTransport:
        return UdpTransport(
            keys=KEYS, group_id=GROUP, birth_id=birth_id, interface="127.0.0.1", addressing=addressing
        )

    def heard(self, seconds: float) -> list[bytes]:
        found: list[bytes] = []
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            found += self.ear.receive()
            time.sleep(0.005)
        return found

    def close(self) -> None:
        self.pulse.stop()
        self.mouth.close()
        self.ear.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    found = World(tmp_path)
    yield found
    found.close()


def test_a_silence_is_filled_with_copies_of_the_last_beat_and_then_it_is_quiet(world: World) -> None:
    world.pulse.note(GROUP, heartbeat(1))
    assert world.heard(ALL_S) == RHYTHM.most * [heartbeat(1)]
    assert world.heard(0.1) == []
    assert world.ear.statistics()["dropped_replayed"] == 0
    assert world.pulse.statistics()["silences"] == 1
    world.pulse.note(GROUP, heartbeat(2))
    assert set(world.heard(ALL_S)) == {heartbeat(2)}


@pytest.mark.parametrize("flags", [MessageFlag.WITHOUT_PAST, MessageFlag.ON_DISK])
def test_beats_of_joiners_and_of_durable_backups_are_repeated(world: World, flags: MessageFlag) -> None:
    world.pulse.note(GROUP, heartbeat(1, flags=flags))
    assert set(world.heard(ALL_S)) == {heartbeat(1, flags=flags)}


def test_who_beats_needs_no_pulse(world: World) -> None:
    for beat in range(100):
        world.pulse.note(GROUP, heartbeat(beat))
        time.sleep(0.001)
    statistics = world.pulse.statistics()
    assert statistics["sent"] <= 5 * statistics["silences"], "only where this test itself was kept waiting"
    assert statistics["held"] > 0


def test_copies_of_old_beats_give_way_to_new_ones(world: World) -> None:
    for beat in range(3):
        world.pulse.note(GROUP, heartbeat(beat))
    assert heartbeat(0) not in world.heard(ALL_S)


def test_a_copy_is_new_however_much_was_sent_since_it_was_sealed() -> None:
    sealer, opener = Sealer(KEYS, GROUP, ME), Opener(KEYS, OTHER)
    early = sealer.seal(b"pulse", Channel.PULSE)
    for channel in (Channel.TO_GROUP, Channel.TO_PROCESS):
        for _ in range(WIDTH + 1):
            assert opener.open(sealer.seal(b"another", channel)) is not None
    assert opener.open(early) is not None
    assert opener.open(early) is None, "and once only"


TURNS: dict[str, Callable[[NativePulse], None]] = {
    "role": lambda pulse: pulse.record(RoleChanged(STAMP, "proposing", "timeout")),
    "membership": lambda pulse: pulse.record(MembershipChanged(STAMP, 1, ())),
    "superseded": lambda pulse: pulse.record(Superseded(STAMP, VIEW)),
    "leaving": lambda pulse: pulse.note(OTHER, heartbeat(2, flags=MessageFlag.LEAVING)),
    "switching": lambda pulse: pulse.note(GROUP, heartbeat(2, flags=MessageFlag.SWITCH)),
    "proposal": lambda pulse: pulse.note(GROUP, bytes((1, MessageType.PROPOSE_PRIMARY)) + bytes(200)),
    "acknowledged": lambda pulse: pulse.note(OTHER, bytes((1, MessageType.PROPOSE_PRIMARY_ACK)) + bytes(200)),
    "end": lambda pulse: pulse.stop(),
}


@pytest.mark.parametrize("turn", TURNS)
def test_a_turn_ends_what_was_said_before(world: World, turn: str) -> None:
    world.pulse.note(GROUP, heartbeat(1))
    world.heard(0.06)  # in the middle of a pulse
    TURNS[turn](world.pulse)
    world.ear.receive()
    assert world.heard(0.15) == []
    assert world.pulse.statistics()["held"] == 0


@pytest.mark.parametrize("turn", ["superseded", "end"])
def test_after_the_end_nothing_is_taken(world: World, turn: str) -> None:
    TURNS[turn](world.pulse)
    world.pulse.note(GROUP, heartbeat(1))
    assert world.heard(0.1) == []


def test_only_beats_of_its_own_that_ask_for_nothing_are_repeated(world: World) -> None:
    winner = heartbeat(7, sender=OTHER, view=ViewId(2, 2, OTHER))
    world.pulse.note(GROUP, winner)
    world.pulse.note(GROUP, heartbeat(1, flags=MessageFlag.ANSWER_AT_ONCE))
    header = Header(MessageType.NACK, GROUP, GROUP, source_view=VIEW, dest_view=VIEW)
    world.pulse.note(GROUP, encode(Message(header, payload=encode_body(NackBody(ME)))))
    assert world.heard(0.1) == []


def test_a_new_view_speaks_at_once_and_alone(world: World) -> None:
    world.pulse.note(GROUP, heartbeat(1))
    new = heartbeat(2, view=ViewId(1, 2, ME))
    world.pulse.note(GROUP, new)
    assert world.heard(ALL_S) == RHYTHM.most * [new]


def test_nothing_leaves_after_the_bound(world: World) -> None:
    """As when the process was stopped: the thread finds that its time is over."""
    world.pulse.note(GROUP, heartbeat(1))
    life = ctypes.c_int64.in_dll(world.library, "pulse_beat_ns")
    life.value -= RHYTHM.bound_ns
    assert world.heard(0.15) == []
    assert world.pulse.statistics()["held"] == 0


def test_it_starts_once(world: World) -> None:
    with pytest.raises(OSError, match="already"):
        NativePulse(world.library, world.mouth, ME, RHYTHM)


def test_an_unknown_channel_is_malformed() -> None:
    datagram = Sealer(KEYS, GROUP, ME).seal(b"", Channel.PULSE)
    body = datagram[: HEADER_BYTES - 8] + (3 << 62 | 1).to_bytes(8, "big")
    mac = keyed_hash(b"k" * 32, b"llft-datagram")
    mac.update(body)
    opener = Opener(KEYS, OTHER)
    assert opener.open(body + mac.digest()) is None
    assert (opener.dropped["malformed"], len(opener.senders)) == (1, 0)
