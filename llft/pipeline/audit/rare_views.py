"""Checks of views and memberships, in plain Python: Theorem 1, virtual synchrony, ranks, coverage."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from llft.identifiers import Member, ViewId
from llft.pipeline.audit.findings import WARNING, Finding
from llft.pipeline.audit.history import Check, History, names
from llft.pipeline.audit.lives import PRIMARY, Life, Row

THEOREM1 = "theorem1"
VIRTUAL_SYNCHRONY = "virtual_synchrony"
MEMBERSHIP = "membership"
COVERAGE = "coverage"


def single_primaries(history: History) -> list[Finding]:
    """Theorem 1: nobody but the process that a view is named after acts as its primary."""
    return [
        history.finding(
            THEOREM1,
            life,
            row,
            other_replica=str(row.view.birth_id),
            expected=str(row.view.birth_id),
            found=str(life.birth_id),
            explanation=f"{life.name.capitalize()} became primary in view {row.view}, whose primary is "
            f"{row.view.birth_id}.",
        )
        for life in history.lives
        for row in life.of_kind("RoleChanged")
        if row.role == PRIMARY and row.view.birth_id != life.birth_id
    ]


def consecutive_views(history: History) -> list[Finding]:
    """Theorem 1: view numbers of the surviving branch are consecutive. One may be missing if somebody adopted
    that view and it died before its order entry was passed."""
    adopted = {
        row.view.primary_view_num
        for life in history.lives
        for row in life.of_kind("RoleChanged", "MembershipChanged")
    }
    found = []
    for earlier, later in pairwise(history.branches.chain):
        between = range(earlier.primary_view_num + 1, later.primary_view_num)
        if all(number in adopted for number in between) or history.partial:
            continue
        found.append(
            history.finding(
                THEOREM1,
                None,
                None,
                view=str(later),
                order_seq_num=history.branches.starts.get(later),
                replica=str(later.birth_id),
                expected=f"v{earlier.primary_view_num + 1}",
                found=f"v{later.primary_view_num}",
                explanation=f"Group {history.group_id} went from view {earlier} to view {later}, and nobody "
                "knows a view in between.",
            )
        )
    return found


def same_points(history: History) -> list[Finding]:
    """Virtual synchrony: whoever passes into a view does so at the same order number, and as a member of it.
    Memberships need not be the same: backups join and leave between one replica's passing and another's."""
    starts = history.branches.starts
    found = []
    for life, row in _primaries_first(history, "ViewInstalled"):
        if row.order_seq_num != starts[row.view]:
            found.append(_other_point(history, life, row, starts[row.view]))
        if life.birth_id not in [member.birth_id for member in row.membership or ()]:
            found.append(_no_member(history, life, row))
    return found


def _primaries_first(history: History, kind: str) -> list[tuple[Life, Row]]:
    """Where values differ, those of the view's primary are the right ones."""
    rows = [(life, row) for life in history.lives for row in life.of_kind(kind)]
    return sorted(rows, key=lambda one: one[1].view.birth_id != one[0].birth_id)


def _other_point(history: History, life: Life, row: Row, start: int) -> Finding:
    return history.finding(
        VIRTUAL_SYNCHRONY,
        life,
        row,
        order_seq_num=row.order_seq_num,
        other_replica=str(row.view.birth_id),
        expected=str(start),
        found=str(row.order_seq_num),
        explanation=f"{life.name.capitalize()} installed view {row.view} at order number "
        f"{row.order_seq_num}, its primary at {start}.",
    )


def _no_member(history: History, life: Life, row: Row) -> Finding:
    members = names(row.membership or ())
    return history.finding(
        VIRTUAL_SYNCHRONY,
        life,
        row,
        order_seq_num=row.order_seq_num,
        expected=str(life.birth_id),
        found=members,
        explanation=f"{life.name.capitalize()} installed view {row.view}, whose members are {members}.",
    )


def all_performed(history: History) -> list[Finding]:
    """Virtual synchrony: every operation before the view change was performed. A semi-passive backup
    performs nothing; Theorem 4 speaks for it."""
    if history.semi_passive:
        return []
    return [finding for life in history.lives for finding in _first_unperformed(history, life)]


def _first_unperformed(history: History, life: Life) -> list[Finding]:
    latest: int | None = 0
    seen: int | None = 0
    for row in life.of_kind("Operated", "ViewInstalled", "StateApplied"):
        if row.performed != seen:
            latest = seen = row.performed
        number = row.order_seq_num
        assert number is not None
        if row.kind == "ViewInstalled" and latest is not None and latest not in (number - 1, number):
            text = (
                f"passed into view {row.view} at order number {number} when its last operation was {latest}."
            )
            more = {"expected": str(number - 1), "found": str(latest)}
            explanation = f"{life.name.capitalize()} {text}"
            return [
                history.finding(
                    VIRTUAL_SYNCHRONY, life, row, order_seq_num=number, explanation=explanation, **more
                )
            ]
        latest = number
        if row.kind == "Operated":
            seen = number
    return []


def memberships(history: History) -> list[Finding]:
    """In order of precedence, which gives the ranks, with the view's primary first; and the same for all who
    adopt the same change of the same view."""
    agreed: dict[tuple[ViewId, int], tuple[Member, ...]] = {}
    found: dict[int, Finding] = {}
    for life, row in _primaries_first(history, "MembershipChanged"):
        assert row.membership is not None and row.change_num is not None
        precedences = [member.precedence for member in row.membership]
        in_order = precedences == sorted(precedences) and precedences[:1] == [row.view.precedence]
        known = agreed.setdefault((row.view, row.change_num), row.membership) if in_order else None
        if known != row.membership:
            found.setdefault(id(life), _bad_membership(history, life, row, known))
    return list(found.values())


def _bad_membership(history: History, life: Life, row: Row, known: tuple[Member, ...] | None) -> Finding:
    assert row.membership is not None
    wanted = names(known) if known else f"precedences that rise, from p{row.view.precedence} on"
    return history.finding(
        MEMBERSHIP,
        life,
        row,
        expected=wanted,
        found=names(row.membership),
        explanation=f"{life.name.capitalize()} adopted the membership {names(row.membership)} as change "
        f"{row.change_num} of view {row.view}; expected: {wanted}.",
    )


def coverage(history: History) -> list[Finding]:
    """Agreement says nothing about a member whose journal is not here."""
    missing: dict[object, tuple[Life, Row]] = {}
    for life, row in _memberships(history):
        for member in row.membership or ():
            if member.birth_id not in history.known:
                missing.setdefault(member.birth_id, (life, row))
    return [
        history.finding(
            COVERAGE,
            life,
            row,
            severity=WARNING,
            other_replica=str(birth_id),
            explanation=f"Member {birth_id} of group {history.group_id} is in view {row.view}, and its "
            "journal is not here: whether it agrees is not known.",
        )
        for birth_id, (life, row) in missing.items()
    ]


def _memberships(history: History) -> Iterator[tuple[Life, Row]]:
    for life in history.lives:
        for row in life.of_kind("ViewInstalled", "MembershipChanged"):
            yield life, row


CHECKS: tuple[Check, ...] = (
    single_primaries,
    consecutive_views,
    same_points,
    all_performed,
    memberships,
    coverage,
)
