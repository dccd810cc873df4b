"""What a primary did while it had no backup: nothing waits for an output commit then (D-10).

Who joins has that to catch up with. If the primary fails before it has, together with a client without whose
messages nobody can repeat it, it is lost, and clients may have had replies to it.
"""

from __future__ import annotations

from llft.identifiers import ConnectionId
from llft.instant import MS
from llft.simulator.checkers.life import Life
from llft.simulator.checkers.survey import Group

HEARD_NS = 20 * MS
"""So long after a joiner has its state the primary surely knows, and waits for it: a few heartbeats."""


def was_lost_alone(group: Group, connection: ConnectionId) -> bool:
    """Whether the first message on the connection that did not survive was written by a primary that had no
    backup, or had none yet when it performed later operations."""
    for life in group.lives:
        numbers = [sent.order_seq_num for sent in life.sent if sent.connection == connection]
        lost = [number for number in numbers if number >= life.limit]
        if lost and min(lost) <= _done_alone(group, life):
            return True
    return False


def _done_alone(group: Group, primary: Life) -> int:
    """The last operation that it performed while nobody else had a state; 0 if there is none."""
    others = [
        (_has_state_ns(other), other.stamp.time_ns)
        for other in group.lives
        if other is not primary and other.milestones
    ]
    return max(
        (
            record.order_seq_num
            for record in primary.milestones
            if record.stamp.view.birth_id == primary.birth_id
            and not any(since_ns < record.stamp.time_ns <= until_ns for since_ns, until_ns in others)
        ),
        default=0,
    )


def _has_state_ns(life: Life) -> int:
    """Since when its primary has waited for it. Who was there from the beginning needs no state."""
    return life.applied[0].stamp.time_ns + HEARD_NS if life.applied else life.milestones[0].stamp.time_ns
