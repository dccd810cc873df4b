"""Who founds the group, when the others may follow, and whether anybody can still have its state.

A group is founded by one replica, and again only when no process that could have its state is alive. A
process's last word counts while it lives, and one that has not answered since the last member died is waited
for: it may have become a member in the meantime. Where members may live on other hosts nobody founds again.

The others start when the founder's program listens, or after a head start if it never does: a founder
that is busy importing its program on few processors looks dead to impatient backups that have no state yet.
"""

from __future__ import annotations

from collections.abc import Collection

from llft.runtime.supervisor.slot import BackOff, Slot

STATELESS_PATIENCE_S = 1.0
UNHEARD_PATIENCE_S = 10.0
QUICK_GROUP_DEATH_S = 15.0
"""A group that lost all its members so soon, several times, would do so for ever."""


class Founding:
    def __init__(self, founder: int | None, *, may_found_again: bool, head_start_s: float) -> None:
        self._founder = founder
        """The replica whose next process founds the group; None: it is founded."""
        self._may_found_again = may_found_again
        self._head_start_s = head_start_s
        self._founded_s = self._hope_s = 0.0
        self._back_off = BackOff(QUICK_GROUP_DEATH_S)

    @property
    def hopeless_deaths(self) -> int:
        """How often in a row the group died soon after its founding, if that is too often; else 0."""
        return self._back_off.quick_deaths if self._back_off.hopeless else 0

    def begin(self, slots: Collection[Slot], due_s: float) -> None:
        """All are to start: the founder and the gateway then, the other replicas when the founder serves."""
        for slot in slots:
            slot.held = slot.kind == "replica" and self._founder not in (None, slot.number)
            slot.restart_at_s = due_s + self._head_start_s if slot.held else due_s

    def take(self, slot: Slot, now_s: float) -> bool:
        """A process is about to start in this slot: is it the founder?"""
        slot.held = False
        if slot.kind != "replica" or slot.number != self._founder:
            return False
        self._founder = None
        self._founded_s = self._hope_s = now_s
        return True

    def release(self, replicas: Collection[Slot], now_s: float) -> None:
        """The founder serves: who was held back may start."""
        if any(slot.role == "primary" and (slot.status or {}).get("listening") for slot in replicas):
            for slot in replicas:
                if slot.held:
                    slot.held, slot.restart_at_s = False, now_s

    def is_state_lost(self, replicas: Collection[Slot], now_s: float) -> bool:
        if not self._may_found_again or self._founder is not None:
            return False
        alive = [slot for slot in replicas if slot.process is not None]
        founding = any(slot.founds and slot.status is None for slot in alive)
        if founding or any(slot.is_member for slot in alive):
            self._hope_s = now_s
            return False
        unheard = any(slot.status_at_s <= self._hope_s for slot in alive)
        return not alive or now_s - self._hope_s > (UNHEARD_PATIENCE_S if unheard else STATELESS_PATIENCE_S)

    def found_again(self, replicas: Collection[Slot], now_s: float) -> float:
        """The next process of the first replica founds; returns when it may start."""
        self._founder = min(slot.number for slot in replicas)
        pause_s = self._back_off.pause_after(now_s - self._founded_s)
        return max(now_s + pause_s, *(slot.restart_at_s or now_s for slot in replicas))
