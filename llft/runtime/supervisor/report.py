"""A group as people and machines see it: one object, the same for `llft status --json`, the panel and
Prometheus.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

from llft.runtime.supervisor.listening import Address
from llft.runtime.supervisor.plan import Plan
from llft.runtime.supervisor.run_directory import RunDirectory
from llft.runtime.supervisor.slot import Slot

SILENT_AFTER_S = 1.0
DOWN, STARTING = "down", "starting"

MEMBER_FIELDS = (
    "birth",
    "role",
    "view",
    "precedence",
    "rank",
    "performed",
    "order_end",
    "lag",
    "suspicions",
    "listening",
    "log_bytes",
    "replication",
    "stored",
    "transport",
    "pulse",
    "dialogues",
    "checkpoints",
    "uptime_s",
    "members",
    "views",
)


def group_object(
    plan: Plan, directory: RunDirectory, replicas: Sequence[Slot], gateway: Slot, listening: Sequence[Address]
) -> dict[str, Any]:
    """The group on this host. `members` has one object for each replica's place, whoever is in it."""
    now_s = time.monotonic()
    gateways = [{**_place(gateway, now_s), **(gateway.status or {})}] if plan.gateway else []
    return {
        "group": plan.group,
        "group_id": plan.group_id,
        "supervisor_pid": os.getpid(),
        "directory": str(directory.path),
        "program": [plan.program.interpreter, *plan.program.flags, *plan.program.words],
        "listening": [list(address) for address in listening],
        "members": [member_object(slot, now_s) for slot in replicas],
        "gateways": gateways,
    }


def member_object(slot: Slot, now_s: float) -> dict[str, Any]:
    place = {"replica": slot.number, **_place(slot, now_s)}
    status = slot.status or {}
    described = {field: status.get(field) for field in MEMBER_FIELDS}
    if slot.status is None:
        described["role"] = DOWN if slot.process is None else STARTING
    return {**place, **described}


def _place(slot: Slot, now_s: float) -> dict[str, Any]:
    """What the supervisor itself knows of a process."""
    silent_s = now_s - (slot.status_at_s or slot.started_s)
    return {
        "name": slot.name,
        "pid": slot.pid,
        "lives": slot.lives,
        "silent_s": round(silent_s, 3) if slot.process is not None and silent_s > SILENT_AFTER_S else 0,
        "last_end": slot.last_end,
        "log": str(slot.log),
    }
