"""What a primary did while it had no backup: nothing waits for an output commit then (D-10).

Who joins has that to catch up with. If the primary fails before it has, together with a client without whose
messages nobody can repeat it, it is lost, and clients may have had replies to it.
"""

from __future__ import annotations

from llft.identifiers import ViewId
from llft.instant import MS
from llft.simulator.checkers.survey import Group

HEARD_NS = 20 * MS
"""So long after a joiner has its state the primary surely knows, and waits for it: a few heartbeats."""


def lacks_what_was_done_alone(group: Group, view: ViewId) -> bool:
    """Whether the primary of the view took over without all that the one before had performed when it had
    not joined yet."""
    before = group.predecessors.get(view)
    states = [life.applied[0] for life in group.lives if life.birth_id == view.birth_id and life.applied]
    if before is None or not states or view not in group.starts:
        return False
    until_ns = states[-1].stamp.time_ns + HEARD_NS
    performed = [
        record.order_seq_num
        for life in group.lives
        if life.birth_id == before.birth_id
        for record in life.milestones
        if record.stamp.time_ns <= until_ns
    ]
    return group.starts[view] <= max(performed, default=0)
