"""Buffers: at rest every list is empty, and none ever grew beyond its bound (paper, buffer management).

The names are the contract with the core's `statistics()`, which may be nested: a value whose name ends in
`_list` is the length of a list; `peak_<limit>` is the largest value ever of what the field
`<limit>` of `llft.config.Limits` bounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from llft.config import Limits
from llft.simulator.checkers.survey import Survey
from llft.simulator.checkers.violation import Violation
from llft.simulator.evidence import ProcessState

PROPERTY = "buffers"
LIST_SUFFIX = "_list"
PEAK_PREFIX = "peak_"


def check(survey: Survey) -> list[Violation]:
    found: list[Violation] = []
    limits = {spec.group_id: spec.config.limits for spec in survey.evidence.topology.groups}
    for group in survey.groups.values():
        for process in group.living:
            if survey.evidence.quiesced:
                found += _emptied(process)
            found += _bounded(process, limits.get(group.group_id, Limits()))
    return found


def _emptied(process: ProcessState) -> list[Violation]:
    return [
        Violation(PROPERTY, f"{_name(process)} still holds {value} entries in {name} at rest.")
        for name, value in _flat(process.statistics)
        if name.endswith(LIST_SUFFIX) and value
    ]


def _bounded(process: ProcessState, limits: Limits) -> list[Violation]:
    found = []
    for name, value in _flat(process.statistics):
        leaf = name.rpartition(".")[2]
        bound = getattr(limits, leaf.removeprefix(PEAK_PREFIX), None)
        if leaf.startswith(PEAK_PREFIX) and bound is not None and value > bound:
            found.append(
                Violation(PROPERTY, f"{_name(process)} had {name} = {value}, beyond the bound {bound}.")
            )
    return found


def _name(process: ProcessState) -> str:
    return f"Replica {process.birth_id} of group {process.group_id} ({process.role}, view {process.view})"


def _flat(statistics: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in statistics.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
