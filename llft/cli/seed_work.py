"""How a campaign runs a seed: the deterministic world, its judges, and everything that is to be kept of it.

Here the simulator and the pipeline meet; neither knows the other.
"""

from __future__ import annotations

import shlex
from typing import Any

from llft.identifiers import BirthId
from llft.pipeline.campaign.outcome import Cell, Outcome
from llft.simulator.checkers import check_named
from llft.simulator.checkers.generations import generations
from llft.simulator.checkers.survey import PRIMARY, Survey, survey
from llft.simulator.evidence import Evidence
from llft.simulator.from_journals import LEFT_OUT, Journal, evidence_of
from llft.simulator.histories import Note, Notebook
from llft.simulator.options import SimulationOptions
from llft.simulator.runner import Simulation, collector_off, judge, planted_or_not
from llft.simulator.topology import CLIENT

UNHEARD = "unheard_operations"
CRASHES = ("CrashPrimary", "CrashPrimaries", "LoseClient")


def run_seed(seed: int, cell: Cell) -> Outcome:
    """Everything about one seed. Whatever it raises is for the caller to note."""
    with collector_off():
        return _run_seed(seed, cell)  # the world is left behind in there, to be collected here


def _run_seed(seed: int, cell: Cell) -> Outcome:
    options = SimulationOptions(profile=cell.profile, replicas=cell.replicas, plant=cell.plant)
    notebook = Notebook()
    with planted_or_not(cell.plant):
        simulation = Simulation(seed, options, program=notebook.program)
        notebook.now = lambda: simulation.world.now_ns
        simulation.run()
    *_, evidence = generations(simulation.evidence())
    surveyed = survey(evidence)
    result = judge(seed, simulation, surveyed)
    front = min(spec.servers[0] for spec in simulation.topology.groups if spec.kind == CLIENT)
    config = simulation.topology.group(front)
    # A branch that was pruned took its clients' calls with it: what they saw is a loss, told as such,
    # and no history of the surviving branch. What nobody heard of, no client saw.
    pruned = any(category != UNHEARD for category in result.losses)
    acknowledged = _acknowledged(simulation, evidence, notebook)
    return Outcome(
        seed=seed,
        violations=[(one.property, one.explanation) for one in result.violations],
        in_journals=_in_journals(evidence) if result.violations or cell.plant else (),
        operations=result.operations,
        acknowledged=len(acknowledged),
        lost_acknowledged=_lost(acknowledged, surveyed),
        primary_failures=result.primary_failures,
        failovers_ns=_failovers_ns(surveyed),
        losses=result.losses,
        replicas=config.replicas,
        output_commit=config.config.output_commit_level,
        pruned=pruned,
        trace_hash=result.trace_hash,
        simulated_ns=result.simulated_ns,
        records=evidence.records,
        calls=[] if pruned else notebook.called(acknowledged),
    )


def replay_command(seed: int, cell: Cell) -> str:
    words = ["llft", "simulate", "--seed", str(seed), "--trace", "--profile", cell.profile]
    words += ["--replicas", str(cell.replicas)] if cell.replicas is not None else []
    words += ["--plant", cell.plant] if cell.plant is not None else []
    return shlex.join(words)


def _in_journals(evidence: Evidence) -> list[str]:
    """What the checkers find if they have nothing but the journals, as the audit has."""
    by_birth: dict[BirthId, list[Any]] = {}
    for record in evidence.records:
        by_birth.setdefault(record.stamp.birth_id, []).append(record)
    journals = [Journal(str(birth_id), records) for birth_id, records in by_birth.items()]
    journals.sort(key=lambda journal: journal.first.time_ns)
    return [
        violation.property
        for judged in evidence_of(journals)
        for violation in check_named(judged, leave_out=LEFT_OUT)
    ]


def _acknowledged(simulation: Simulation, evidence: Evidence, notebook: Notebook) -> dict[int, Note]:
    """Requests whose reply somebody outside can know: in the history that a client group ended with; of a
    client of one member everything it ever read, for it may have told at once."""
    told: dict[int, Note] = {}
    for spec in simulation.topology.groups:
        if spec.kind != CLIENT:
            continue
        group = simulation.cluster.groups[spec.group_id]
        primary = group.primary()
        if spec.replicas == 1:
            known = [one for one, note in notebook.notes.items() if note.group_id == spec.group_id]
        elif primary is not None:
            known = [request_id for request_id, _ in getattr(primary.program, "history", ())]
        else:
            known = []
        told.update(
            {one: note for one in known if (note := notebook.notes.get(one)) and note.reply is not None}
        )
    return told


def _lost(acknowledged: dict[int, Note], surveyed: Survey) -> int:
    """Those that the server's surviving branch did not perform, or performed with another result. A server
    group that died out has lost all of them."""
    count = 0
    for request_id, note in acknowledged.items():
        server = surveyed.groups.get(note.server_id)
        primary = server.primary if server is not None else None
        replies = getattr(primary.program, "replies", {}) if primary is not None else {}
        count += replies.get(request_id) != note.reply
    return count


def _failovers_ns(surveyed: Survey) -> list[int]:
    """From the crash of a primary to the moment another is one."""
    beginnings = [
        (role.stamp.time_ns, life.group_id, life.birth_id)
        for _, life in surveyed.lives()
        for role in life.roles
        if role.role == PRIMARY
    ]
    found = []
    for fault in surveyed.evidence.faults:
        if not fault.primary_count or fault.kind not in CRASHES:
            continue
        for group_id, birth_id in fault.victims:
            after = [
                at_ns
                for at_ns, group, birth in beginnings
                if group == group_id and birth != birth_id and at_ns >= fault.at_ns
            ]
            found += [min(after) - fault.at_ns] if after else []
    return found
