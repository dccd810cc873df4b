"""Every loss of power ends a generation of processes, and each is judged by itself.

A restarted group is a new one (D-64): its views, order numbers and connections begin again. What must hold
across a restart is the programs' business, and the last generation's evidence names the former processes.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace

from llft.simulator.evidence import Evidence

OF_THE_LIVING = ("progress",)
"""Checkers that ask how it ended: nobody is left of a generation that the power took."""


def generations(evidence: Evidence) -> list[Evidence]:
    """One or more, the last one being that which came to its end."""
    losses = [fault.at_ns for fault in evidence.faults if fault.kind == "PowerLoss"]
    if not losses:
        return [evidence]

    def is_of(number: int, time_ns: int) -> bool:
        return bisect_left(losses, time_ns) == number

    found = [
        replace(
            evidence,
            records=[record for record in evidence.records if is_of(number, record[0].time_ns)],
            processes=[one for one in evidence.processes if is_of(number, one.birth_id.start_ns - 1)],
            faults=tuple(fault for fault in evidence.faults if is_of(number, fault.at_ns)),
            quiesced=evidence.quiesced and number == len(losses),
        )
        for number in range(len(losses) + 1)
    ]
    former = tuple(process for one in found[:-1] for process in one.processes)
    return [*found[:-1], replace(found[-1], former=former)]
