"""Plants in what replicas do alike: clocks, mutexes, reads, checkpoints, semi-passive updates."""

from __future__ import annotations

from typing import Any

from llft.core import state_transfer
from llft.core.determinizer.claims import Claims
from llft.core.determinizer.clock import GroupClock
from llft.core.determinizer.reproduction import Reproduction
from llft.core.determinizer.runs import Runs
from llft.core.semi_passive import SemiPassive
from llft.core.state_transfer import StateTransfer
from llft.core.virtual_sockets import VirtualSockets
from llft.simulator.plants.plant import Patch, Plant, does_nothing


def _keeps_own_offset(original: Any) -> Any:
    def observe(self: GroupClock, clock_id: int, value_ns: int, local_ns: int) -> None:
        self.last[clock_id] = value_ns

    return observe


def _no_floor(original: Any) -> Any:
    def read(self: GroupClock, clock_id: int, local_ns: int) -> int:
        self.last.pop(clock_id, None)
        value_ns: int = original(self, clock_id, local_ns)
        return value_ns

    return read


def _own_clock(original: Any) -> Any:
    def read_clock(self: Reproduction, thread: int, operation: Any, entry: Any) -> Any:
        original(self, thread, operation, entry)
        return self._outside.local_clock(operation.clock_id)

    return read_clock


def _own_random(original: Any) -> Any:
    def random(self: Reproduction, thread: int, operation: Any, entry: Any) -> Any:
        return self._outside._random_bytes(len(original(self, thread, operation, entry)))

    return random


def _claims_unrecorded(original: Any) -> Any:
    def claim(self: Claims, thread: int, operation: Any) -> Any:
        if self.mutexes.claim(operation.mutex, thread):
            return True
        return original(self, thread, operation)

    return claim


def _fails_unrecorded(original: Any) -> Any:
    def try_claim(self: Claims, thread: int, operation: Any) -> Any:
        if self.mutexes.is_held(operation.mutex):
            return False
        return original(self, thread, operation)

    return try_claim


def _selects_itself(original: Any) -> Any:
    def select(self: Reproduction, thread: int, operation: Any, entry: Any) -> Any:
        original(self, thread, operation, entry)
        return tuple(fd for fd in operation.fds if self._outside.descriptors.readable(fd))

    return select


def _reads_what_is_there(original: Any) -> Any:
    def receive(self: Reproduction, thread: int, operation: Any, entry: Any) -> Any:
        size = self._connections.offer(operation.fd, operation.limit)
        if isinstance(size, int) and size > entry[4]:
            return self._connections.take(operation.fd, size)
        return original(self, thread, operation, entry)

    return receive


def _the_one_before(original: Any) -> Any:
    """The application's part is that of the checkpoint before; the protocols' part is the present one."""

    def on_state_captured(self: Any, application: bytes) -> None:
        before = vars(self).get("captured_before", application)
        vars(self)["captured_before"] = application
        original(self, before)

    return on_state_captured


def _log_not_trimmed(original: Any) -> Any:
    def apply(self: SemiPassive) -> None:
        logged = self.logged.copy()
        original(self)
        self.logged = logged

    return apply


def _update_not_kept(original: Any) -> Any:
    def apply(self: SemiPassive) -> None:
        before = self.newest_state
        original(self)
        self.newest_state = before

    return apply


def _sends_nothing_again(original: Any) -> Any:
    return lambda connection: original(connection) | {"sent": []}


def _descriptors_lost(original: Any) -> Any:
    def apply_execution(self: StateTransfer, state: Any) -> None:
        next_fd = self.replica.sockets.next_fd
        original(self, state)
        self.replica.sockets.next_fd = next_fd

    return apply_execution


def _runs_at_random(original: Any) -> Any:
    def logged(self: Runs, thread: int) -> Any:
        codes, values = original(self, thread)
        draw = self._engine.outside._random_bytes
        return codes, [draw(len(value)) if isinstance(value, bytes) else value for value in values]

    return logged


_UNCHECKED = Patch(VirtualSockets, "_diverged", does_nothing)

PLANTS = (
    Plant(
        "run-not-taken-back",
        "calls that a thread made in a run never come to the log",
        (Patch(Runs, "take_back", does_nothing),),
        profile="crash",
        seed=7,
    ),
    Plant(
        "run-of-own-random",
        "a backup makes up the random bytes of a run itself, and output digests are not compared",
        (Patch(Runs, "logged", _runs_at_random), _UNCHECKED),
        profile="crash",
    ),
    Plant(
        "forget-clock-offset",
        "a backup does not keep the offset between the group clock and its own, and goes by its own later",
        (Patch(GroupClock, "observe", _keeps_own_offset), Patch(GroupClock, "read", _no_floor)),
        seed=1,
    ),
    Plant(
        "clock-not-monotone",
        "the group clock follows the primary's own clock when somebody sets that back",
        (Patch(GroupClock, "read", _no_floor),),
        profile="clock",
        seed=21,
    ),
    Plant(
        "clock-not-ordered",
        "a backup reads its own clock, and output digests are not compared",
        (Patch(Reproduction, "_read_clock", _own_clock), _UNCHECKED),
        seed=1,
    ),
    Plant(
        "random-not-ordered",
        "a backup draws its own random bytes, and output digests are not compared",
        (Patch(Reproduction, "_random", _own_random), _UNCHECKED),
        seed=4,
    ),
    Plant(
        "random-evicted",
        "a backup draws its own random bytes; the output digests evict it, again and again",
        (Patch(Reproduction, "_random", _own_random),),
        seed=1,
    ),
    Plant(
        "forget-mutex-entry",
        "a claim that succeeds at once makes no order entry",
        (Patch(Claims, "attempt_claim", _claims_unrecorded),),
        seed=1,
    ),
    Plant(
        "forget-trylock-entry",
        "a trylock that fails makes no order entry",
        (Patch(Claims, "attempt_try_claim", _fails_unrecorded),),
        profile="crash",
        seed=25,
    ),
    Plant(
        "select-not-ordered",
        "a backup's select finds what is readable there, and output digests are not compared",
        (Patch(Reproduction, "select", _selects_itself), _UNCHECKED),
        seed=4,
    ),
    Plant(
        "deliver-unordered",
        "a backup reads all that is there instead of what the order says, and digests are not compared",
        (Patch(Reproduction, "_receive", _reads_what_is_there), _UNCHECKED),
        seed=4,
    ),
    Plant(
        "stale-checkpoint",
        "the application's part of a checkpoint is the one that was captured before",
        (Patch(StateTransfer, "on_state_captured", _the_one_before),),
        seed=1,
    ),
    Plant(
        "checkpoint-without-sent-list",
        "a checkpoint does not carry the messages that were sent and may have to be sent again",
        (Patch(state_transfer, "_export", _sends_nothing_again),),
        profile="crash",
        seed=14,
    ),
    Plant(
        "descriptors-not-transferred",
        "a checkpoint does not carry the next file descriptor",
        (Patch(StateTransfer, "apply_execution", _descriptors_lost),),
    ),
    Plant(
        "log-not-trimmed",
        "a semi-passive backup performs again what its newest state contains already",
        (Patch(SemiPassive, "apply_pending_update", _log_not_trimmed),),
    ),
    Plant(
        "update-not-kept",
        "a semi-passive backup drops the log up to an update, but does not keep the update",
        (Patch(SemiPassive, "apply_pending_update", _update_not_kept),),
    ),
)
