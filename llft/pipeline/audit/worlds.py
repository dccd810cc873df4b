"""Whole worlds, judged where they came into being: by who has all records of every world that it has any of.

What is judged group by group or connection by connection needs no shuffle then, nor a table of the fleet: one
worker has it all, and asks one check after the other. Whatever they cannot clear for certain makes its world
doubtful, and of those all checks are made as of any fleet (`doubtful`). What was done for nothing (`losses`)
and what rare records show (`outline`) is told at once.
"""

from __future__ import annotations

from typing import NamedTuple

from llft.pipeline.audit import clearing, losses, outline, pardons, sameness
from llft.pipeline.audit.findings import Finding
from llft.pipeline.audit.lives import Life
from llft.pipeline.audit.whole import Limits, Whole
from llft.pipeline.histories.transform import judge_calls


class Verdict(NamedTuple):
    doubtful: set[int]
    """The worlds in which there may be something to be found."""
    findings: list[Finding]
    """Of the others."""


def judge(whole: Whole) -> Verdict:
    found = _outlined(whole)
    limits, groups = Limits.of(whole), clearing.groups_of(whole)
    doubtful = sameness.worlds_that_differ(whole, limits) | sameness.worlds_with_steps_back(whole, limits)
    doubtful |= {one.world for one, calls in whole.calls.items() if judge_calls(*one, calls) is not None}
    doubts = clearing.doubts(whole, limits, groups)
    astray = doubts.astray - pardons.excused(whole, groups, doubts.astray) if doubts.astray else set()
    doubtful |= {world for world, *_ in doubts.wrong | astray}
    found += losses.lost_in(whole, limits)
    return Verdict(doubtful, [one for one in found if one.world not in doubtful])


def _outlined(whole: Whole) -> list[Finding]:
    """What rare records show; and the lives know their branches then."""
    groups: dict[tuple[int, int], list[Life]] = {}
    for world, life in zip(whole.worlds, whole.lives, strict=True):
        groups.setdefault((world, life.group_id), []).append(life)
    return [one for whose, lives in sorted(groups.items()) for one in outline.judge(*whose, lives)]
