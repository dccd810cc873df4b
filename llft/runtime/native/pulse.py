"""The Python side of the pulse (`pulse.c`): keeps it supplied with sealed copies of the last Heartbeat.

To the protocol a pulse is a Heartbeat that the network has duplicated and delayed, by at most the bound. It
bears that anyway: what a Heartbeat says (beat, echo, order end, watermark) only grows, and holds for its view
alone. A receiver counts it as a sign of life and learns nothing new.

What is repeated, and when not:

 - Heartbeats of this process only. A superseded one passes on the winner's, which is not its own.
 - None that wants something (an answer, a switch, to leave): those are said by Python or not at all.
 - A change of role, of view or of membership, and whatever is sent when one begins, empties the ring before
   anything of the change leaves. It fills again with the beats of the new role.

The first beat of a role fills the ring. Then every fourth beat SEALED_AT_ONCE copies take the place of the
oldest: to seal all of them with every beat would cost a tenth of a millisecond.
"""

from __future__ import annotations

import ctypes
import os
import struct
from _socket import inet_aton
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from llft import originals
from llft.config import BACKUP_INTERVALS, Timeouts
from llft.identifiers import BirthId, GroupId
from llft.journal.record import MembershipChanged, Record, RoleChanged, Superseded
from llft.runtime.native.build import build
from llft.runtime.transport.interface import Address, Transport
from llft.wire.header import HEADER_BYTES, PREFIX_BYTES, flags_of
from llft.wire.messages import MessageFlag, MessageType

SLOTS = 64
DESTINATIONS = 64
"""Both as in pulse.c. A larger group without multicast does without a pulse, and status counts that."""
SEALED_AT_ONCE = 8
BEATS_PER_SUPPLY = 4
TYPE_PLACE = 1
"""Of the message type in a datagram (`wire.header`); the flags follow the prefix, the sender the header."""

_HEARTBEAT = int(MessageType.HEARTBEAT)
_ASKING = int(MessageFlag.ANSWER_AT_ONCE | MessageFlag.ONE_ANSWERS)
_REPEATABLE = int(MessageFlag.WITHOUT_PAST | MessageFlag.ON_DISK)
"""Who joins fetches much, so it needs a pulse; that a repeated beat still says so afterwards does no harm
(D-70). How far it has performed may be old in it, and is true (D-71)."""
_TURNS = (
    int(MessageType.PROPOSE_PRIMARY),
    int(MessageType.PROPOSE_PRIMARY_ACK),
    int(MessageType.PROPOSE_BACKUP),
)
NOTED = frozenset((_HEARTBEAT, *_TURNS))
"""The kinds of datagrams that `note` is for; of others it learns nothing."""
TURNING = (RoleChanged, MembershipChanged, Superseded)
"""The kinds of records that `record` is for."""
_GOING = MessageFlag.SWITCH | MessageFlag.LEAVING
_BIRTH = struct.Struct("<IIQ")
_COUNTS = ("sent", "lost", "silences", "realtime", "held")
_NOTHING = b"\0"
"""No datagram begins with it."""


class Rhythm(NamedTuple):
    """When the native thread speaks."""

    beat_ns: int
    patience_ns: int
    spacing_ns: int
    bound_ns: int
    supply_ns: int
    most: int

    @staticmethod
    def of(timeouts: Timeouts) -> Rhythm:
        """It begins when a beat is half an interval late, and speaks three times in the shortest timeout at
        least; of a long bound the ring covers what it can."""
        beat_ns = timeouts.heartbeat_interval_ns
        shortest_ns = min(timeouts.primary_timeout_ns, timeouts.backup_timeout_ns)
        spacing_ns = max(1, min(max(beat_ns, timeouts.pulse_bound_ns // SLOTS), shortest_ns // 3))
        most = min(SLOTS, timeouts.pulse_bound_ns // spacing_ns)
        patience_ns, bound_ns = beat_ns * 3 // 2, timeouts.pulse_bound_ns
        return Rhythm(beat_ns, patience_ns, spacing_ns, bound_ns, BEATS_PER_SUPPLY * beat_ns, most)


class Pulse(Protocol):
    """All of it under the driver's lock."""

    def note(self, to: GroupId | BirthId, data: bytes) -> None:
        """The core has sent this datagram."""

    def record(self, record: Record) -> None:
        """This has happened: a record of one of the kinds in TURNING."""

    def stop(self) -> None:
        """This life ends."""

    def life(self) -> tuple[int, int]:
        """Where whoever beats without Python writes when it did (0: nowhere), and how much later it says."""

    def statistics(self) -> dict[str, int]: ...


class NoPulse:
    """Without the library: nothing, with a reason."""

    def note(self, to: GroupId | BirthId, data: bytes) -> None:
        pass

    def record(self, record: Record) -> None:
        pass

    def stop(self) -> None:
        pass

    def life(self) -> tuple[int, int]:
        return 0, 0

    def statistics(self) -> dict[str, int]:
        return {"native": 0}


def open_pulse(transport: Transport, birth_id: BirthId, timeouts: Timeouts) -> tuple[Pulse, str]:
    """The pulse of this process, and why there is none if so, for people."""
    rhythm = Rhythm.of(timeouts)
    if rhythm.most < 1:
        return NoPulse(), "no native pulse: timeouts.pulse_bound_ms is less than a beat"
    path, reason = build(os.environ)
    if not path:
        return NoPulse(), f"no native pulse: {reason}"
    try:
        return NativePulse(ctypes.PyDLL(path), transport, birth_id, rhythm), ""
    except OSError as error:
        return NoPulse(), f"no native pulse: {error}"


class NativePulse:
    __slots__ = (
        *("_library", "_clear", "_transport", "_sender", "_rhythm"),
        *("_life", "_beat_ns", "_again_ns", "_leave_ns", "_spent"),
        *("_prefix", "_to", "_route", "_over", "_unrouted"),
    )

    def __init__(
        self, library: ctypes.PyDLL, transport: Transport, birth_id: BirthId, rhythm: Rhythm
    ) -> None:
        """PyDLL keeps the interpreter's lock: to get it back would take longer than these calls."""
        library.pulse_start.argtypes = [ctypes.c_int, *3 * [ctypes.c_int64]]
        library.pulse_route.argtypes = [ctypes.c_char_p, ctypes.c_uint32]
        library.pulse_supply.argtypes = [ctypes.c_char_p, *3 * [ctypes.c_uint32]]
        self._library = library
        self._clear = library.pulse_clear  # to look it up takes longer than it does, when clients wait
        self._transport = transport
        self._sender = _BIRTH.pack(*birth_id)
        self._rhythm = rhythm
        self._life = ctypes.c_int64.in_dll(library, "pulse_beat_ns")
        self._beat_ns = 0
        self._again_ns = 0
        self._spent = 0
        self._leave_ns = 0
        """So much longer than a primary it may be silent."""
        self._prefix = _NOTHING
        self._to: GroupId | BirthId = 0
        self._route: Sequence[Address] = ()
        self._over = False
        self._unrouted = 0
        failed = library.pulse_start(
            transport.sending_fileno, rhythm.patience_ns, rhythm.spacing_ns, rhythm.bound_ns
        )
        if failed:
            raise OSError(failed, os.strerror(failed))

    def note(self, to: GroupId | BirthId, data: bytes) -> None:
        kind = data[TYPE_PLACE]
        if kind == _HEARTBEAT:
            flags = flags_of(data)
            if to != self._to or flags & ~(_ASKING | _REPEATABLE) or not data.startswith(self._prefix):
                self._consider(to, data)
            elif flags & _ASKING:
                self._live(originals.monotonic_ns())
            else:
                self._beaten(data)
        elif kind in _TURNS:
            self._forget()

    def record(self, record: Record) -> None:
        if isinstance(record, Superseded):
            self.stop()
        else:
            self._forget()

    def stop(self) -> None:
        self._over = True
        self._forget()

    def life(self) -> tuple[int, int]:
        return ctypes.addressof(self._life), self._leave_ns

    def _forget(self) -> None:
        if self._prefix is not _NOTHING:  # else the ring is empty
            self._clear()
            self._prefix = _NOTHING

    def _consider(self, to: GroupId | BirthId, data: bytes) -> None:
        """A Heartbeat unlike the last one."""
        flags = flags_of(data)
        if flags & _GOING:
            self._forget()
        if flags & ~_REPEATABLE or self._over or not data.startswith(self._sender, HEADER_BYTES):
            return
        self._to = to
        self._set_route(self._transport.route(to))
        self._prefix = data[:PREFIX_BYTES]
        is_backup = isinstance(to, BirthId)
        self._leave_ns = (BACKUP_INTERVALS - 1) * self._rhythm.beat_ns if is_backup else 0
        self._beat_ns = self._life.value = originals.monotonic_ns() + self._leave_ns
        self._supply(data, self._rhythm.most)

    def _set_route(self, route: Sequence[Address]) -> None:
        """Nothing that was sealed before is sent any more, to anybody."""
        self._route = route
        if len(route) > DESTINATIONS:
            self._unrouted += 1
            route = ()
        addresses = b"".join(inet_aton(host) + port.to_bytes(2, "big") for host, port in route)
        failed = self._library.pulse_route(addresses, len(route))
        assert not failed, f"pulse_route: {failed}"

    def _live(self, now_ns: int) -> None:
        late_ns = now_ns - max(self._beat_ns, self._life.value) - self._rhythm.patience_ns
        self._beat_ns = self._life.value = now_ns + self._leave_ns
        if late_ns > 0:  # so many were sent instead
            self._spent += late_ns // self._rhythm.spacing_ns + 1

    def _beaten(self, data: bytes) -> None:
        """A Heartbeat like those that are repeated."""
        now_ns = originals.monotonic_ns()
        self._live(now_ns)
        if self._spent:
            self._supply(data, self._spent)
        elif now_ns >= self._again_ns:
            self._supply(data, SEALED_AT_ONCE)

    def _supply(self, data: bytes, count: int) -> None:
        rhythm = self._rhythm
        self._again_ns, self._spent = self._beat_ns + rhythm.supply_ns, 0
        route = self._transport.route(self._to)
        if route != self._route:
            self._set_route(route)
            count = rhythm.most
        seal = self._transport.seal_pulse
        sealed = [seal(data) for _ in range(min(count, rhythm.most))]
        failed = self._library.pulse_supply(b"".join(sealed), len(sealed[0]), len(sealed), rhythm.most)
        assert not failed, f"pulse_supply: {failed}"

    def statistics(self) -> dict[str, int]:
        found = (ctypes.c_uint64 * len(_COUNTS))()
        self._library.pulse_statistics(found)
        return {"native": 1, **dict(zip(_COUNTS, found, strict=True)), "unrouted": self._unrouted}
