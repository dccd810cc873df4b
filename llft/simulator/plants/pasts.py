"""Plants in what is done with a program's past: updates, checkpoints, joining."""

from __future__ import annotations

from typing import Any

from llft.core.replica import Replica
from llft.core.semi_passive import SemiPassive
from llft.past.birth_log import BirthLog
from llft.past.checkpoint import Base, Checkpoint
from llft.past.keeper import Keeper
from llft.simulator.plants.plant import Patch, Plant, does_nothing
from llft.simulator.state import checkpoints
from llft.simulator.state.remembering import Remembering

BUFFER_BYTES = 512

# -- updates ------------------------------------------------------------------------------------------------


def _performs_one_again(original: Any) -> Any:
    def execute_log(self: SemiPassive) -> None:
        if self.logged:
            self.logged.insert(1, self.logged[0])
        original(self)

    return execute_log


# -- checkpoints --------------------------------------------------------------------------------------------


def _drops_at_once(original: Any) -> Any:
    def rest(self: Keeper, now_ns: int) -> None:
        original(self, now_ns)
        captured = self._captured
        if captured is not None:
            self._application.log.drop_before(captured.position, captured.digest)

    return rest


def _whatever_it_says(original: Any) -> Any:
    def verify(self: Keeper, now_ns: int) -> None:
        assert self._scratch is not None
        verdict = self._scratch.verdict()
        if verdict is not None:
            self._take_as_base(verdict, now_ns)

    return verify


def _where_it_was_verified(original: Any) -> Any:
    def take_as_base(self: Keeper, verdict: Any, now_ns: int) -> None:
        log = self._application.log
        assert self._captured is not None
        self._captured = self._captured._replace(position=log.length, digest=log.digest)
        original(self, verdict, now_ns)

    return take_as_base


# -- joining ------------------------------------------------------------------------------------------------


def _no_lease(original: Any) -> Any:
    def lend(self: Keeper, position: int, now_ns: int) -> str:
        kept = self._states.get(position)
        return kept.path if kept is not None else ""

    return lend


def _only_states(original: Any) -> Any:
    def tell(self: Keeper, now_ns: int) -> Base | None:
        return original(self, now_ns) if self.base is not None else None

    return tell


def _nobody_was_out(original: Any) -> Any:
    def pack(checkpoint: Checkpoint, log: BirthLog, *, carried_bytes: int) -> bytes:
        packed: bytes = original(checkpoint._replace(out=[]), log, carried_bytes=carried_bytes)
        return packed

    return pack


def _has_state_when_accepted(original: Any) -> Any:
    def accepted(self: Replica) -> None:
        original(self)
        self.standing.has_state = True

    return accepted


def _has_past_with_the_state(original: Any) -> Any:
    def become(self: Replica, state: dict[str, Any]) -> None:
        original(self, state)
        self.standing.has_past = True

    return become


def _gives_in_the_midst_of_the_past(original: Any) -> Any:
    def replay(self: Remembering, *past: Any, **named: Any) -> None:
        original(self, *past, **named)
        self.replaying = False

    return replay


PLANTS = (
    Plant(
        "apply-update-twice",
        "a promoted semi-passive backup performs the first operation after its newest state twice",
        (Patch(SemiPassive, "execute_log", _performs_one_again),),
        profile="join-storm",
        seed=1,
    ),
    Plant(
        "drop-before-verification",
        "a keeper drops the log before a state that it has captured and not verified",
        (Patch(Keeper, "_rest", _drops_at_once),),
        profile="join-storm",
    ),
    Plant(
        "verdict-not-compared",
        "a keeper counts on a state whatever the trial process called",
        (Patch(Keeper, "_verify", _whatever_it_says),),
        profile="join-storm",
    ),
    Plant(
        "restore-at-wrong-number",
        "a state is named after the position at which it was verified, not that at which it was captured",
        (Patch(Keeper, "_take_as_base", _where_it_was_verified),),
        profile="join-storm",
    ),
    Plant(
        "forget-lease",
        "a member does not keep the state that a joiner is just fetching",
        (Patch(Keeper, "lend", _no_lease),),
        profile="join-storm",
        seed=18,
    ),
    Plant(
        "forget-lease-of-the-log",
        "a member that has no state yet does not keep the log from birth for whoever joins with that",
        (Patch(Keeper, "tell", _only_states),),
        profile="restart",
        seed=34,
    ),
    Plant(
        "forget-who-was-out",
        "a checkpoint does not say which thread had a result and had not called yet",
        (Patch(checkpoints, "pack", _nobody_was_out),),
        profile="join-storm",
        seed=21,
    ),
    Plant(
        "late-results-not-named",
        "what a joiner's core gave while its log was under way stays in its log without the call's kind",
        (Patch(BirthLog, "name", does_nothing),),
        profile="join-storm",
    ),
    Plant(
        "joiner-counts-at-once",
        "a joiner counts as one that has the state when it is accepted",
        (Patch(Replica, "accepted", _has_state_when_accepted),),
        profile="join-storm",
    ),
    Plant(
        "joiner-counts-without-past",
        "a joiner counts as a backup while it is still fetching its program's past",
        (Patch(Replica, "_become_what_the_state_says", _has_past_with_the_state),),
        profile="join-storm",
        seed=484,
    ),
    Plant(
        "joiner-serves-early",
        "a joiner's program is given what is new in the midst of its past",
        (Patch(Remembering, "replay", _gives_in_the_midst_of_the_past),),
        profile="join-storm",
    ),
)
