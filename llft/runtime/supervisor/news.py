"""What people are told of what the replicas say: their roles, and where the program's states come from."""

from __future__ import annotations

from collections.abc import Callable

from llft.runtime.control_client import Answer
from llft.runtime.supervisor.slot import Slot

ACCOUNTS_MAX = 20


class News:
    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._accounts: set[str] = set()
        """Each is told once, whichever replica gave it, and however often."""

    def take(self, slot: Slot, former: Answer | None) -> None:
        """The slot's process has answered; `former` is what it had said before."""
        status, before = slot.status or {}, former or {}
        if slot.kind != "replica":
            return
        told, now = (before.get("role", ""), before.get("view")), (slot.role, status.get("view"))
        if slot.role and told != now:
            self._tell(f"{slot.title} is {slot.role}, view {status.get('view')}")
        account = str(status.get("checkpoints", {}).get("account", ""))
        if account and account not in self._accounts and len(self._accounts) < ACCOUNTS_MAX:
            self._accounts.add(account)
            self._tell(account)
