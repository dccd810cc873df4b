"""What was lost without being a violation: counted by category, so that a campaign can report it.

pruned_operations      performed on a side branch that was superseded
unheard_operations     performed by a primary that died before anybody heard of them
reset_connections      ended by a reset (D-07); also by reason, as "reset: <reason>"
indefinite_requests    clients were told "may have happened" (D-20)
requests_not_done      clients were told "did not happen"
pruned_connections     opened to a branch that was pruned, and closed before anybody could tell
pruned_replies         clients keep an answer that only a pruned branch gave
pruned_requests        performed for a branch of the client that was pruned
repeated_by_a_branch   two branches of a client sent the same request id, and both were performed
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from llft.identifiers import ViewId
from llft.journal.record import Operated
from llft.simulator.checkers.excuses import finished_connections
from llft.simulator.checkers.life import NO_LIMIT, Life
from llft.simulator.checkers.replies import examine, final_programs
from llft.simulator.checkers.resets import first_resets
from llft.simulator.checkers.survey import Group, Survey
from llft.simulator.workloads.protocol import INDEFINITE_OUTCOME, NOT_DONE_OUTCOME

OUTCOME_CATEGORIES = {INDEFINITE_OUTCOME: "indefinite_requests", NOT_DONE_OUTCOME: "requests_not_done"}


def count_losses(survey: Survey) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for group in survey.groups.values():
        counts.update(lost.category for lost in lost_operations(group))
    for record in first_resets(survey).values():
        counts["reset_connections"] += 1
        counts[f"reset: {record.reason}"] += 1
    for program in final_programs(survey).values():
        for _, outcome in program.history:
            if isinstance(outcome, str) and outcome in OUTCOME_CATEGORIES:
                counts[OUTCOME_CATEGORIES[outcome]] += 1
    counts["pruned_connections"] += len(finished_connections(survey))
    counts += examine(survey).excused
    return {category: count for category, count in sorted(counts.items()) if count}


class LostOperation(NamedTuple):
    category: str
    view: ViewId
    order_seq_num: int
    entry: str


def lost_operations(group: Group) -> list[LostOperation]:
    """Each operation of a branch once, however many replicas performed it."""
    lost: dict[tuple[ViewId, int], LostOperation] = {}
    for life in group.lives:
        if life.limit == NO_LIMIT or life.performed_count < life.limit:
            continue
        category = "pruned_operations" if _was_pruned(group, life) else "unheard_operations"
        for record in life.milestones:
            if type(record) is Operated and record.order_seq_num >= life.limit:
                view, number = record.stamp.view, record.order_seq_num
                lost.setdefault((view, number), LostOperation(category, view, number, record.entry))
    return list(lost.values())


def _was_pruned(group: Group, life: Life) -> bool:
    return life.superseded or life.views[-1] not in group.chain
