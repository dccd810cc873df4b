"""The group clock: never goes back along the order, and reads alike at all replicas (D-18)."""

from __future__ import annotations

from llft.journal.record import ClockRead
from llft.simulator.checkers.survey import Group, Survey
from llft.simulator.checkers.violation import Violation

PROPERTY = "clock"


def check(survey: Survey) -> list[Violation]:
    found: list[Violation] = []
    for group in survey.groups.values():
        readings, differing = _readings(group)
        found += differing
        found += _monotone(group, readings)
    return found


def _readings(group: Group) -> tuple[dict[int, ClockRead], list[Violation]]:
    """The readings of the surviving branch by order number, and where replicas disagree."""
    readings: dict[int, ClockRead] = {}
    found: list[Violation] = []
    for life in group.lives:
        for record in life.clock_reads:
            if record.order_seq_num >= life.limit:
                continue
            known = readings.setdefault(record.order_seq_num, record)
            if (known.clock_id, known.value_ns) != (record.clock_id, record.value_ns):
                found.append(
                    Violation(
                        PROPERTY,
                        f"Clock {record.clock_id} of group {group.group_id} read {known.value_ns} ns at "
                        f"operation {record.order_seq_num} of replica {known.stamp.birth_id} and "
                        f"{record.value_ns} ns at replica {life.birth_id}.",
                    )
                )
                break
    return readings, found


def _monotone(group: Group, readings: dict[int, ClockRead]) -> list[Violation]:
    latest: dict[int, ClockRead] = {}
    for number in sorted(readings):
        record = readings[number]
        before = latest.get(record.clock_id, record)
        if record.value_ns < before.value_ns:
            return [
                Violation(
                    PROPERTY,
                    f"Clock {record.clock_id} of group {group.group_id} went back from {before.value_ns} ns "
                    f"at operation {before.order_seq_num} (view {before.stamp.view}) to {record.value_ns} ns "
                    f"at operation {number} (view {record.stamp.view}).",
                )
            ]
        latest[record.clock_id] = record
    return []
