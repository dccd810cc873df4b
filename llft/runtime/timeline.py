"""What a replica lived through, for status lines and logs: suspicions, roles, and how long each stage of a
change of the primary took."""

from __future__ import annotations

from collections import deque
from typing import Any

from llft import originals
from llft.instant import MS
from llft.journal.record import MembershipChanged, Record, RoleChanged, Superseded, Suspected, ViewInstalled

VIEWS_KEPT = 256


class Timeline:
    """The stages of a change, as its new primary sees them: suspected -> proposing -> recovering ->
    primary. Stages of one step of the core have one time; `performed_ns` is when the step's effects had
    come so far, by the clock."""

    def __init__(self) -> None:
        self.suspicions = {"timeout": 0, "certificate": 0, "stopped": 0}
        self.views: deque[dict[str, Any]] = deque(maxlen=VIEWS_KEPT)
        self.last_reason = ""
        self._since: dict[str, int] = {}

    def take(self, record: Record) -> str:
        """Note a record; returns a line for the log, "" for what nobody wants to read."""
        if isinstance(record, Suspected):
            self.suspicions[record.reason] = self.suspicions.get(record.reason, 0) + 1
            self._since = {"suspected": record.stamp.time_ns}
            return f"suspects {record.suspect}: {record.reason}"
        if isinstance(record, RoleChanged):
            self.last_reason = record.reason
            self._since[record.role] = record.stamp.time_ns
            if record.role == "primary":
                self._note_view(record)
            return f"is {record.role} in {record.stamp.view}: {record.reason}"
        if isinstance(record, MembershipChanged):
            members = ", ".join(f"{m.birth_id.pid} (precedence {m.precedence})" for m in record.membership)
            return f"membership {record.change_num}: {members}"
        if isinstance(record, Superseded):
            return f"is superseded by {record.by}"
        if isinstance(record, ViewInstalled):
            return f"passed the beginning of {record.stamp.view} at entry {record.order_seq_num}"
        return ""

    def _note_view(self, record: RoleChanged) -> None:
        since = self._since
        now_ns = record.stamp.time_ns
        suspected = since.get("suspected", now_ns)
        recovering = since.get("recovering", now_ns)
        self.views.append(
            {
                "view": str(record.stamp.view),
                "at_ns": now_ns,
                "performed_ns": originals.monotonic_ns(),
                "suspected_at_ns": suspected,
                "stages_ms": {
                    "view_change": (recovering - suspected) / MS,
                    "synchrony": (now_ns - recovering) / MS,
                },
            }
        )
        self._since = {}
