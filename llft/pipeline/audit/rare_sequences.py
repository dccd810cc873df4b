"""Checks of what each replica did in a row, in plain Python: Theorems 3 and 4, its own findings, gaps."""

from __future__ import annotations

from llft.identifiers import BirthId
from llft.pipeline.audit.findings import Finding
from llft.pipeline.audit.history import Check, History
from llft.pipeline.audit.lives import Life, Row

THEOREM3 = "theorem3"
THEOREM4 = "theorem4"
DIGESTS = "digests"
GAP = "gap"


def consecutive_operations(history: History) -> list[Finding]:
    """Theorem 3, also on pruned branches: a side branch is a sequence too."""
    return [finding for life in history.lives for finding in _first_jump(history, life)]


def _first_jump(history: History, life: Life) -> list[Finding]:
    """A life begins with operation 1 or behind the state it adopted. Passing a view change counts as
    performing its entry; a state may be followed by a view change at once."""
    performed, passed, state, seen = 0, -1, -1, 0
    for row in life.of_kind("Operated", "ViewInstalled", "StateApplied"):
        number = row.order_seq_num
        assert number is not None
        if row.performed is None:  # a gap: what came before is not known
            performed = seen = number if row.kind == "Operated" else number - 1
            state = -1
        elif row.performed != seen:
            performed = seen = row.performed
            state = -1
        if row.kind == "StateApplied":
            state = number
        elif row.kind == "ViewInstalled":
            passed = number
            if number == performed + 1:
                performed = number
        else:
            follows = number in (performed + 1, state + 1) or number == passed == performed
            if not (row.performed is None or follows or (number == passed + 1 and passed == state + 1)):
                return [_jump(history, life, row, performed, state)]
            performed = seen = number
            state = -1
    return []


def _jump(history: History, life: Life, row: Row, performed: int, state: int) -> Finding:
    after = f"after operation {performed}" + (f" and a state of {state}" if state >= 0 else "")
    return history.finding(
        THEOREM3,
        life,
        row,
        order_seq_num=row.order_seq_num,
        expected=str(max(performed, state) + 1),
        found=str(row.order_seq_num),
        explanation=f"{life.name.capitalize()} performed operation {row.order_seq_num} in view "
        f"{row.view} {after}.",
    )


def adopted_states(history: History) -> list[Finding]:
    """Theorem 4: a state that a replica adopts is one that a member took there; and states only advance. A
    primary that was killed may have taken the last one beyond the end of its journal: nobody can tell."""
    taken: dict[int, list[int]] = {}
    for life in history.lives:
        for row in life.of_kind("StateTaken"):
            assert row.order_seq_num is not None and row.digest is not None
            taken.setdefault(row.order_seq_num, []).append(row.digest)
    reached = {life.birth_id: life.last_number for life in history.lives}
    return [finding for life in history.lives for finding in _first_bad_state(history, life, taken, reached)]


def _first_bad_state(
    history: History, life: Life, taken: dict[int, list[int]], reached: dict[BirthId, int]
) -> list[Finding]:
    newest = -1
    for row in life.of_kind("StateApplied"):
        number, digest = row.order_seq_num, row.digest
        assert number is not None and digest is not None
        digests = taken.get(number, [])
        told = reached.get(row.view.birth_id, 0) >= number
        if digest not in digests and (digests or (told and not history.partial)):
            expected, found = " or ".join(f"{one:#x}" for one in digests) or "none", f"{digest:#x}"
            text = f"adopted the state {found} of operation {number}; the state taken there is {expected}."
        elif number < newest:
            expected, found = f"a state of {newest} or later", str(number)
            text = f"went back from the state of operation {newest} to that of {number}."
        else:
            newest = number
            continue
        explanation = f"{life.name.capitalize()} {text}"
        more = {"expected": expected, "found": found, "explanation": explanation}
        return [history.finding(THEOREM4, life, row, order_seq_num=number, **more)]
    return []


def own_divergences(history: History) -> list[Finding]:
    """D-09: a backup found that its own output differs from the primary's."""
    return [
        history.finding(DIGESTS, life, row, explanation=f"{life.name.capitalize()} found that {row.text}.")
        for life in history.lives
        for row in life.of_kind("Diverged")
    ]


def gaps(history: History) -> list[Finding]:
    return [
        history.finding(
            GAP,
            life,
            row,
            order_seq_num=row.performed,
            found=str(row.lost_count),
            explanation=f"The journal of {life.name} lost {row.lost_count} records behind operation "
            f"{row.performed}: nothing is certain about it.",
        )
        for life in history.lives
        for row in life.of_kind("Gap")
    ]


CHECKS: tuple[Check, ...] = (consecutive_operations, adopted_states, own_divergences, gaps)
