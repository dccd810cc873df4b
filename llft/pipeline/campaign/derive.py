"""What is derived from the places of records, for many processes at once: `decode.ProcessState.derive` column
by column. A test holds one against the other.

Rows are taken process by process, each in the order of its journal. A *life* of a process begins where it
begins to join again after it had done something; a *span* where a life does, or behind a gap: what came
before a span is none of its business.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llft.journal.record import RECORD_TYPES, Called, Gap, Operated, Record, RoleChanged, StateApplied
from llft.pipeline.audit.prints import Numbers, run_starts
from llft.pipeline.campaign.gathered import KIND_CODES, Gathered
from llft.pipeline.decode import JOINING, MILESTONES, RARE


@dataclass(frozen=True, slots=True)
class Derived:
    """All in the order of processes and their journals but `order`: which record each row is."""

    order: Numbers
    kind: Numbers
    lane: Numbers
    place: Numbers
    life: Numbers
    begins: Numbers
    """Which rows are the first of a life."""
    span: Numbers
    performed: Numbers
    performed_unknown: Numbers
    number: Numbers
    """Of an operation; 0 of all else."""
    wall_ns: Numbers
    forgotten: Numbers
    """What has no predecessor in its span may have had one."""
    rare: Numbers


def derive(gathered: Gathered) -> Derived:
    stamps = gathered.stamps.joined()
    order = np.argsort(stamps["lane"], kind="stable")
    kind, lane = stamps["kind"][order], stamps["lane"][order]
    index = np.arange(len(order))
    first = _latest(_flags(len(order), run_starts(lane)), index)
    number, is_joining = _of_some(gathered, stamps["kind"])
    begins = _life_begins(kind, first, is_joining[order])
    behind_gap = np.append(False, _is(kind, Gap)[:-1]) & ~begins
    spans = begins | behind_gap
    span_first = _latest(spans, index)
    unknown = behind_gap[span_first]
    operated = _is(kind, Operated)
    last = _before(operated, index)
    number = number[order]
    performed = np.where(last >= span_first, number[last], 0)
    performed_unknown = unknown & (last < span_first)
    life_number = np.cumsum(begins)
    offset_ns = np.array([one.wall_offset_ns for one in gathered.lanes], np.int64)
    follows = ~performed_unknown & (number == performed + 1)
    return Derived(
        order=order,
        kind=kind,
        lane=lane,
        place=index - first + 1,
        life=life_number - life_number[first],
        begins=begins,
        span=np.cumsum(spans),
        performed=performed,
        performed_unknown=performed_unknown,
        number=number,
        wall_ns=stamps["time_ns"][order] + offset_ns[lane],
        # A state has the connections' past in it.
        forgotten=unknown | (_before(_is(kind, StateApplied), index) >= _latest(begins, index)),
        rare=_IS_RARE[kind] | (begins & ~_is(kind, Called)) | (operated & ~follows),
    )


def previous(derived: Derived, rows: Numbers, key: Numbers, values: Numbers) -> tuple[Numbers, Numbers]:
    """The value of the same key before in the same span, and where that is not known. `rows`: of `derived`,
    of one kind; key and values are of those."""
    order = np.lexsort((key, derived.span[rows]))
    starts = run_starts(derived.span[rows][order], key[order])
    before = np.roll(values[order], 1)
    before[starts] = 0
    found, unknown = np.empty_like(before), np.zeros(len(rows), bool)
    found[order] = before
    unknown[order[starts]] = derived.forgotten[rows][order[starts]]
    return found, unknown


def _of_some(gathered: Gathered, kind: Numbers) -> tuple[Numbers, Numbers]:
    """The numbers of operations, and who begins to join; of other records 0."""
    number, is_joining = np.zeros(len(kind), np.int64), np.zeros(len(kind), bool)
    if Operated in gathered.fields:
        number[_is(kind, Operated)] = gathered.fields[Operated].joined()["order_seq_num"]
    for at in np.flatnonzero(_is(kind, RoleChanged)).tolist():
        is_joining[at] = gathered.records[at].role == JOINING  # type: ignore[union-attr]
    return number, is_joining


def _life_begins(kind: Numbers, first: Numbers, is_joining: Numbers) -> Numbers:
    """With the process, and where it joins after a milestone that came behind the last time it joined: if
    there was none since that, there was none in that life."""
    milestones = np.cumsum(_IS_MILESTONE[kind])
    begins: Numbers = first == np.arange(len(first))
    joins = np.flatnonzero(is_joining)
    since = np.maximum(np.append(-1, joins[:-1]), first[joins])
    begins[joins[milestones[joins] - milestones[since] + _IS_MILESTONE[kind[since]] > 0]] = True
    return begins


def _is(kind: Numbers, one: type[Record]) -> Numbers:
    is_it: Numbers = kind == KIND_CODES[one]
    return is_it


def _flags(count: int, places: Numbers) -> Numbers:
    flags = np.zeros(count, bool)
    flags[places] = True
    return flags


def _latest(flags: Numbers, index: Numbers) -> Numbers:
    """Of each row the last one that is flagged, up to itself; the first always is."""
    latest: Numbers = np.maximum.accumulate(np.where(flags, index, 0))
    return latest


def _before(flags: Numbers, index: Numbers) -> Numbers:
    """The same without itself; -1: none."""
    latest: Numbers = np.maximum.accumulate(np.where(flags, index, -1))
    latest[1:], latest[0] = latest[:-1].copy(), -1
    return latest


_IS_RARE = np.array([kind in RARE for kind in RECORD_TYPES])
_IS_MILESTONE = np.array([kind in MILESTONES for kind in RECORD_TYPES])
