"""What a replica lived through, for status lines and logs: suspicions, roles, and how long each stage of a
change of the primary took.

What happens is noted at once, and put into words when there is time for it: at a change of the primary
clients wait.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from llft.core.standing import PRIMARY
from llft.instant import MS
from llft.journal.record import MembershipChanged, Record, RoleChanged, Superseded, Suspected, ViewInstalled

VIEWS_KEPT = 256


class Timeline:
    """The stages of a change, as its new primary sees them: suspected -> proposing -> recovering ->
    primary. Stages of one step of the core have one time; `acts_ns` is when all that the last one wanted done
    was done, by the clock: messages sent, threads resumed. Then what had happened was noted, and by
    `performed_ns` it was. All with the driver's lock held."""

    def __init__(self) -> None:
        self.suspicions = {"timeout": 0, "certificate": 0, "stopped": 0}
        self.views: deque[dict[str, Any]] = deque(maxlen=VIEWS_KEPT)
        self.last_reason = ""
        self._since: dict[str, int] = {}
        self.noted: list[Record] = []
        """What is to be told: whoever writes it down adds to it."""

    def tell(self, acts_since_ns: int, noted_ns: int) -> list[tuple[int, str]]:
        """Of all that was noted since: when, and a line for the log. `acts_since_ns`: as the primary, and
        `noted_ns`: when its becoming that was noted."""
        acts_ns = (acts_since_ns, noted_ns)
        told = [(record.stamp.time_ns, self._take(record, acts_ns)) for record in self.noted]
        self.noted.clear()
        return [(time_ns, line) for time_ns, line in told if line]

    def _take(self, record: Record, acts_ns: tuple[int, int]) -> str:
        """The line; "" for what nobody wants to read."""
        if isinstance(record, Suspected):
            self.suspicions[record.reason] = self.suspicions.get(record.reason, 0) + 1
            self._since = {"suspected": record.stamp.time_ns}
            return f"suspects {record.suspect}: {record.reason}"
        if isinstance(record, RoleChanged):
            self.last_reason = record.reason
            self._since[record.role] = record.stamp.time_ns
            if record.role == PRIMARY:
                self._note_view(record, *acts_ns)
            return f"is {record.role} in {record.stamp.view}: {record.reason}"
        if isinstance(record, MembershipChanged):
            members = ", ".join(f"{m.birth_id.pid} (precedence {m.precedence})" for m in record.membership)
            return f"membership {record.change_num}: {members}"
        if isinstance(record, Superseded):
            return f"is superseded by {record.by}"
        if isinstance(record, ViewInstalled):
            return f"passed the beginning of {record.stamp.view} at entry {record.order_seq_num}"
        return ""

    def _note_view(self, record: RoleChanged, acts_since_ns: int, noted_ns: int) -> None:
        since = self._since
        now_ns = record.stamp.time_ns
        suspected = since.get("suspected", now_ns)
        recovering = since.get("recovering", now_ns)
        self.views.append(
            {
                "view": str(record.stamp.view),
                "at_ns": now_ns,
                "acts_ns": max(acts_since_ns, now_ns),
                "performed_ns": max(noted_ns, now_ns),
                "suspected_at_ns": suspected,
                "stages_ms": {
                    "view_change": (recovering - suspected) / MS,
                    "synchrony": (now_ns - recovering) / MS,
                },
            }
        )
        self._since = {}
