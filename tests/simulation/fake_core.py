"""A toy replica for tests of the world: it beats, joins, takes over, and completes every operation at once.

It has the outside of a core (step, next_deadline, the observers' attributes) and none of the paper.
"""

from __future__ import annotations

import pickle
import random
from ast import literal_eval
from collections.abc import Callable
from typing import Any, Literal

from llft.config import GroupConfig
from llft.core import effects, events
from llft.core.determinizer.operations import Operation, ReadClock, Result
from llft.core.determinizer.outside import BLOCKED, Stage
from llft.errors import PeerError
from llft.identifiers import NO_VIEW, BirthId, Member, ViewId
from llft.instant import MS, NEVER
from llft.journal.record import RoleChanged, Stamp
from llft.simulator.topology import GroupSpec
from llft.wire.codec import decode, encode
from llft.wire.messages import Header, Message, MessageType

BEAT_NS = 5 * MS
SILENCE_NS = 25 * MS


class FakeReplica:
    def __init__(
        self, config: GroupConfig, birth_id: BirthId, local_clock: Callable[[int], int], rng: random.Random
    ) -> None:
        self.config = config
        self.birth_id = birth_id
        self.role = "joining"
        self.view = NO_VIEW
        self.membership: tuple[Member, ...] = ()
        self.has_state = True
        self.executed = 0
        self.events: list[events.Event] = []
        self._clock = local_clock
        self._heard: dict[BirthId, int] = {}
        self._next_beat_ns = NEVER
        self._application_runs = False
        self._effects: list[effects.Effect] = []

    def next_deadline(self) -> int:
        return self._next_beat_ns

    def statistics(self) -> dict[str, Any]:
        return {"events": len(self.events)}

    def at_once(self, thread: int, operation: Operation, now_ns: int) -> Literal[Stage.BLOCKED]:
        """Every call is an event."""
        return BLOCKED

    def drain(self) -> list[effects.Effect]:
        return []

    def step(self, event: events.Event, now_ns: int) -> list[effects.Effect]:
        self.events.append(event)
        self._effects = []
        match event:
            case events.Started(alone):
                self._next_beat_ns = now_ns + 1
                if alone:
                    self._lead(1, (Member(self.birth_id, 1),), now_ns)
            case events.MessageReceived(data):
                self._hear(data, now_ns)
            case events.DeadlinePassed():
                self._beat(now_ns)
            case events.OperationInvoked(thread, operation):
                result: Result = self._clock(0) if isinstance(operation, ReadClock) else None
                self._effects.append(effects.ResumeThread(thread, result))
            case events.PeerDied(birth_id):
                self._heard[birth_id] = -SILENCE_NS * 10
                self._look_round(now_ns)
            case events.LeaveRequested():
                self._set_role("left", now_ns)
                self._effects.append(effects.Stop("asked to"))
            case _:
                pass
        return self._effects

    def _set_role(self, role: str, now_ns: int) -> None:
        if role != self.role:
            self.role = role
            stamp = Stamp(now_ns, self.config.group_id, self.birth_id, self.view)
            self._effects.append(effects.WriteRecord(RoleChanged(stamp, role, "")))
        if role in ("primary", "backup") and not self._application_runs:
            self._application_runs = True
            self._effects.append(effects.StartApplication())

    def _lead(self, view_num: int, membership: tuple[Member, ...], now_ns: int) -> None:
        self.view = ViewId(view_num, view_num, self.birth_id)
        self.membership = membership
        self._set_role("primary", now_ns)

    def _beat(self, now_ns: int) -> None:
        self._next_beat_ns = now_ns + BEAT_NS
        self._look_round(now_ns)
        group_id = self.config.group_id
        header = Header(MessageType.KEEP_ALIVE, group_id, group_id, source_view=self.view)
        payload = pickle.dumps((self.birth_id, self.role, self.view, self.membership))
        self._effects.append(effects.Multicast(group_id, encode(Message(header, payload=payload))))

    def _hear(self, data: bytes, now_ns: int) -> None:
        try:
            sender, role, view, membership = pickle.loads(decode(data).payload)
        except PeerError:
            return
        self._heard[sender] = now_ns
        if self.role == "primary" and role == "joining" and sender not in self._births():
            self.membership += (Member(sender, len(self.membership) + 1),)
        elif role == "primary":
            self._hear_primary(view, membership, now_ns)

    def _hear_primary(self, view: ViewId, members: tuple[Member, ...], now_ns: int) -> None:
        if self.view.supersedes(view):
            return
        if self.birth_id in [member.birth_id for member in members]:
            self.view, self.membership = view, members
            self._set_role("backup", now_ns)
        elif self.role != "joining":
            self._effects.append(effects.ResetApplication())

    def _look_round(self, now_ns: int) -> None:
        """Take over when all before me are silent; as a primary, forget who is silent."""
        silent = [one for one in self._births() if one != self.birth_id and self._is_silent(one, now_ns)]
        left = tuple(member for member in self.membership if member.birth_id not in silent)
        if self.role == "primary":
            self.membership = left
        elif self.role == "backup" and left[0].birth_id == self.birth_id:
            self._lead(self.view.primary_view_num + 1, left, now_ns)

    def _births(self) -> list[BirthId]:
        return [member.birth_id for member in self.membership]

    def _is_silent(self, birth_id: BirthId, now_ns: int) -> bool:
        return now_ns - self._heard.setdefault(birth_id, now_ns) > SILENCE_NS


class FakeProgram:
    """Reads the clock so many times."""

    def __init__(self, spec: GroupSpec) -> None:
        self.wanted_count = 50 if spec.kind == "client" else 0
        self.history: list[Result] = []

    @property
    def finished(self) -> bool:
        return len(self.history) >= self.wanted_count

    def start_thread(self, thread: int, argument: object) -> Operation | None:
        return None if self.finished else ReadClock()

    def resume(self, thread: int, result: Result) -> Operation | None:
        self.history.append(result)
        return None if self.finished else ReadClock()

    def capture(self) -> bytes:
        return repr(self.history).encode()

    def restore(self, state: bytes) -> None:
        self.history = literal_eval(state.decode())
