"""What a replica answers on its control socket (docs/RUNTIME.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llft import originals
from llft.config import Replication
from llft.core import events
from llft.core.standing import BACKUP, PRIMARY
from llft.runtime.control_server import Handler
from llft.runtime.dialogues import dialogue_statistics
from llft.runtime.priority import PATIENCE_NS
from llft.runtime.stacks import stacks

if TYPE_CHECKING:
    from llft.runtime.driver import Driver
    from llft.runtime.replica_process import ReplicaProcess

Answer = dict[str, Any]
CAUGHT_UP_ENTRIES = 64
"""So many entries of the order log a backup may have to perform still: some ten requests."""


def answers_of(process: ReplicaProcess) -> dict[str, Handler]:
    def wish(event: events.Event) -> Answer:
        process.wishes.append(event)
        return {}

    return {
        "status": lambda question: _status(process),
        "switch": lambda question: wish(events.SwitchRequested()),
        "leave": lambda question: wish(events.LeaveRequested()),
        "stop": lambda question: wish(events.LeaveRequested()),
        "threads": lambda question: _threads(process),
    }


def _threads(process: ReplicaProcess) -> Answer:
    known = stacks()
    found = []
    for thread in list(process.driver.application.threads.values()):
        stack = known.get(thread.ident, [])
        found.append({"thread": thread.number, "runs": bool(thread.out_since_ns), "stack": stack})
    return {"threads": found}


def is_caught_up(process: ReplicaProcess) -> bool:
    """Whether it could take over, and soon."""
    return _is_whole(process) and _behind(process) <= CAUGHT_UP_ENTRIES


def follows(process: ReplicaProcess) -> bool:
    """It is a backup that no output waits for."""
    if process.core.role != BACKUP or process.durable is not None:
        return False
    return originals.monotonic_ns() - process.core.intra.asked_ns > PATIENCE_NS


def _behind(process: ReplicaProcess) -> int:
    """Entries of the order log that it has passed on to the program, which has not performed them."""
    core = process.core
    return 0 if core.cursor is None else core.cursor.passed_count - core.performed_count


def _is_whole(process: ReplicaProcess) -> bool:
    """Whether it could take over: it runs the program, or holds what it needs to begin it."""
    core = process.core
    if core.config.replication is Replication.SEMI_PASSIVE and core.role == BACKUP:
        return core.has_state and process.storing.stored is not None
    return core.has_state and not process.driver.application.replaying


def _of_dialogues(driver: Driver) -> Answer:
    """And of calls that went through the core, by kinds."""
    return {**dialogue_statistics(), "refused": driver.dialogues.refused, "outside": driver.calling.made}


def _status(process: ReplicaProcess) -> Answer:
    process.tell_changes()
    core = process.core
    statistics = core.statistics()
    end = max(statistics["order_end"], core.own_watermark())
    members = [
        {"birth": str(member.birth_id), "precedence": member.precedence, "rank": rank}
        for rank, member in enumerate(core.membership, start=1)
    ]
    return {
        "group": process.specification["group"],
        "replica": process.specification["replica"],
        "pid": process.birth_id.pid,
        "birth": str(process.birth_id),
        "role": core.role,
        "has_state": _is_whole(process),
        "replication": core.config.replication.value,
        "stored": process.storing.statistics(),
        "view": str(core.view),
        "precedence": core.standing.precedence,
        "rank": core.standing.rank,
        "members": members,
        "performed": core.performed_count,
        "order_end": end,
        "lag": 0 if core.role == PRIMARY else max(0, end - core.own_watermark()),
        "behind": _behind(process),
        "suspicions": process.timeline.suspicions,
        "views": list(process.timeline.views),
        "listening": [list(address) for address in process.listening_at],
        "log_bytes": process.storing.log.length,
        "log_kept_bytes": process.storing.log.kept_bytes,
        "checkpoints": process.checkpoints.statistics(),
        "transport": process.transport.statistics(),
        "pulse": process.pulse.statistics(),
        "dialogues": _of_dialogues(process.driver),
        "statistics": statistics,
        "uptime_s": (originals.monotonic_ns() - process.started_ns) / 1e9,
    }
