"""The surviving branch of a group's views (paper, Theorem 1, case 2).

After a partition a group may have had two branches of primary views. The one that survives is the chain of
views that ends in the view which supersedes all others (D-06); a view's predecessor is the view in which its
primary was before. An operation is of the surviving branch if the view in which it was numbered is, and
if the next view of the chain begins after it. All else was pruned, or done by a primary that died unheard.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from llft.identifiers import NO_VIEW, ViewId
from llft.pipeline.audit.lives import NO_LIMIT, Life


@dataclass(slots=True)
class Branches:
    chain: list[ViewId] = field(default_factory=list)
    """The surviving branch, oldest view first."""
    starts: dict[ViewId, int] = field(default_factory=dict)
    """The order number at which each view was installed, by its primary's word if that is known."""
    predecessors: dict[ViewId, ViewId] = field(default_factory=dict)


def split_epochs(lives: Sequence[Life]) -> list[list[Life]]:
    """A group all of whose members died is founded again under its old id, with a new history: a founder who
    begins after the last word of all before."""
    epochs: list[list[Life]] = [[]]
    silent_ns = None
    for life in sorted(lives, key=lambda one: (one.first_wall_ns, one.process, one.life)):
        if epochs[-1] and life.founds and silent_ns is not None and silent_ns < life.first_wall_ns:
            epochs.append([])
        silent_ns = max(silent_ns or life.last_wall_ns, life.last_wall_ns)
        life.epoch = len(epochs) - 1
        epochs[-1].append(life)
    return epochs


def trace(lives: Sequence[Life]) -> Branches:
    """Of one history; sets the limits of its lives."""
    branches = Branches()
    for life in lives:
        _note_predecessors(branches, life)
        _note_starts(branches, life)
    view: ViewId | None = _end_view(lives)
    while view is not None and view != NO_VIEW and view not in branches.chain:
        branches.chain.insert(0, view)
        view = branches.predecessors.get(view)
    was_split = any(life.superseded for life in lives)
    for life in lives:
        life.limit = _limit(branches, life)
        life.pruned = life.superseded or (bool(life.views) and life.views[-1] not in branches.chain)
        life.split_off = life.pruned and was_split
    return branches


def _note_predecessors(branches: Branches, life: Life) -> None:
    for earlier, later in pairwise(life.views):
        if earlier.primary_view_num >= later.primary_view_num:
            continue
        if later.birth_id == life.birth_id:
            branches.predecessors[later] = earlier
        else:
            branches.predecessors.setdefault(later, earlier)


def _note_starts(branches: Branches, life: Life) -> None:
    for row in life.of_kind("ViewInstalled"):
        assert row.order_seq_num is not None
        if row.view.birth_id == life.birth_id:
            branches.starts[row.view] = row.order_seq_num
        else:
            branches.starts.setdefault(row.view, row.order_seq_num)


def _end_view(lives: Sequence[Life]) -> ViewId:
    best = NO_VIEW
    for life in lives:
        for view in life.views[-1:]:
            if best == NO_VIEW or view.supersedes(best):
                best = view
    return best


def _limit(branches: Branches, life: Life) -> int:
    views = life.views
    view: ViewId | None = views[-1] if views else None
    limit = NO_LIMIT
    while view is not None and view not in branches.chain:
        limit = min(limit, branches.starts.get(view, NO_LIMIT))
        view = branches.predecessors.get(view)
    if view is None:
        return 1
    index = branches.chain.index(view)
    if index + 1 < len(branches.chain):
        limit = min(limit, branches.starts.get(branches.chain[index + 1], NO_LIMIT))
    return limit
