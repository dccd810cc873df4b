"""The present state of a running group: the supervisor's list, and each replica's own fresh answer.

The supervisor's picture is up to a fraction of a second old. Who decides something by it (whom to kill,
whether all have joined) asks the replicas themselves, all at once and within a bound: a stopped one cannot
answer.
"""

from __future__ import annotations

from typing import Any

from llft.errors import MisuseError
from llft.runtime.control_client import ask, ask_all
from llft.runtime.replica_answers import CAUGHT_UP_ENTRIES
from llft.runtime.supervisor.report import MEMBER_FIELDS
from llft.runtime.supervisor.run_directory import RunDirectory

REPLICA_TIMEOUT_S = 0.5
STATUS = {"do": "status"}

Group = dict[str, Any]
Member = dict[str, Any]


def survey(directory: RunDirectory, *, timeout_s: float = REPLICA_TIMEOUT_S) -> Group:
    """The group as in `llft status --json`. A replica that does not answer is shown as last heard."""
    group = ask(directory.supervisor_socket, STATUS)
    group.pop("ok")
    sockets = {
        member["replica"]: (directory.socket(member["name"]), STATUS)
        for member in group["members"]
        if member["pid"] is not None
    }
    answers = ask_all(sockets, timeout_s=timeout_s)
    for member in group["members"]:
        inquiry = answers.get(member["replica"])
        fresh = inquiry is not None and inquiry.answer is not None
        member["answers"] = fresh
        if inquiry is not None and inquiry.answer is not None:
            member["has_state"] = inquiry.answer.get("has_state")
            member["behind"] = inquiry.answer.get("behind")
            member["pid"] = inquiry.answer.get("pid", member["pid"])
            member.update({field: inquiry.answer.get(field) for field in MEMBER_FIELDS})
    return group


def primary_of(group: Group) -> Member | None:
    """The primary. If two say so, one of them is about to learn that it is superseded."""
    primaries = [member for member in group["members"] if member["role"] == "primary" and member["answers"]]
    return max(primaries, key=lambda member: member["precedence"] or 0, default=None)


def require_primary(group: Group) -> Member:
    found = primary_of(group)
    if found is None:
        raise MisuseError("no-primary", "wait until one is; see llft status", group=group["group"])
    return found


def all_joined(group: Group, count: int) -> bool:
    """Whether so many replicas are members with state, in one view, their primary knows them all, and they
    have performed what they know of: one that still catches up would be long in taking over."""
    members = [member for member in group["members"] if member["answers"] and member.get("has_state")]
    primary = primary_of(group)
    if primary is None or len(members) < count or len(group["members"]) < count:
        return False
    births = {member["birth"] for member in primary["members"] or []}
    return all(
        member["birth"] in births
        and member["view"] == primary["view"]
        and member["role"] in ("primary", "backup")
        and (member.get("behind") or 0) <= CAUGHT_UP_ENTRIES
        for member in members
    )
