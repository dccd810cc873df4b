"""Runs one seed: builds the world, lets it run to quiescence, has the evidence judged.

The whole run is a function of (seed, options). Faults end at the profile's horizon; then the
world must quiesce within a bound of simulated time: every client program finished, every group
settled in one view with its backups caught up. If not, that is the violation "progress".
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from llft.instant import MS, SECOND
from llft.simulator.cluster import Cluster, CoreFactory, ProgramFactory
from llft.simulator.drawing import draw_topology
from llft.simulator.evidence import Evidence, ProcessState
from llft.simulator.faults import plan
from llft.simulator.injector import Injector
from llft.simulator.network import Network
from llft.simulator.options import SimulationOptions
from llft.simulator.parts import make_program, make_replica
from llft.simulator.process import Process
from llft.simulator.profiles import find_profile
from llft.simulator.topology import CLIENT, MIDDLE
from llft.simulator.world import World

if TYPE_CHECKING:
    from llft.simulator.checkers.survey import Survey
    from llft.simulator.checkers.violation import Violation

__all__ = ["SeedResult", "Simulation", "SimulationOptions", "run_seed"]

QUIESCENCE_BOUND_NS = 8 * SECOND
CHECK_INTERVAL_NS = 20 * MS
GRACE_NS = 200 * MS
"""After the last activity: acknowledgments, watermarks and garbage collection finish."""
EVENT_LIMIT = 3_000_000


@dataclass(frozen=True, slots=True)
class SeedResult:
    seed: int
    operations: int
    primary_failures: int
    violations: list[Violation]
    losses: dict[str, int]
    trace_hash: str
    trace: list[str] = field(default_factory=list)
    simulated_ns: int = 0


class Simulation:
    """One world with its cluster and its faults, before it is judged."""

    def __init__(
        self,
        seed: int,
        options: SimulationOptions,
        *,
        core: CoreFactory = make_replica,
        program: ProgramFactory = make_program,
    ) -> None:
        self.options = options
        self.profile = find_profile(options.profile)
        self.world = world = World(seed, tracing=options.trace)
        self.topology = draw_topology(world.stream("topology"), self.profile, options)
        self.network = Network(world, world.stream("network"), self.profile.quality)
        self.cluster = Cluster(
            world, self.network, self.profile, self.topology, make_core=core, make_program=program
        )
        self.injector = Injector(self.cluster, plan(world.stream("faults"), self.profile, self.topology))
        self.quiesced = False

    def run(self) -> None:
        self.cluster.start()
        bound_ns = self.profile.horizon_ns + QUIESCENCE_BOUND_NS
        running = self._run_until(self.profile.horizon_ns)
        while running and not self.quiesced and self.world.now_ns < bound_ns:
            was_quiescent = self._is_quiescent()
            interval_ns = GRACE_NS if was_quiescent else CHECK_INTERVAL_NS
            running = self._run_until(self.world.now_ns + interval_ns)
            self.quiesced = was_quiescent and self._is_quiescent()

    def _run_until(self, until_ns: int) -> bool:
        return self.world.run(until_ns=until_ns, event_limit=EVENT_LIMIT - self.world.event_count)

    def _is_quiescent(self) -> bool:
        if not (self.injector.idle and self.cluster.settled()):
            return False
        groups = [group for group in self.cluster.groups.values() if group.processes]
        if not all(group.caught_up() for group in groups):
            return False
        clients = [group.primary() for group in groups if group.spec.kind == CLIENT]
        return all(client is not None and client.program.finished for client in clients)

    def evidence(self) -> Evidence:
        return Evidence(
            records=self.cluster.records,
            processes=[_final_state(process) for process in self.cluster.processes],
            faults=tuple(self.injector.performed),
            profile=self.profile,
            options=self.options,
            topology=self.topology,
            simulated_ns=self.world.now_ns,
            quiesced=self.quiesced,
        )

    @property
    def primary_failures(self) -> int:
        return sum(fault.primary_count for fault in self.injector.performed)

    def operation_count(self) -> int:
        """Application requests that clients completed, and the middle tier as a client of the server's;
        counted once per group."""
        count = 0
        for group in self.cluster.groups.values():
            if group.spec.kind in (CLIENT, MIDDLE):
                everyone = [process for process in self.cluster.processes if process.group is group]
                count += max((len(getattr(one.program, "history", ())) for one in everyone), default=0)
        return count

    def describe_unrest(self) -> str:
        """Why it is not quiescent, for the violation's explanation."""
        parts = []
        for group in self.cluster.groups.values():
            members = ", ".join(
                f"{one.label()}{' unfinished' if not one.program.finished else ''}" for one in group.processes
            )
            state = "settled" if group.settled() else "unsettled"
            behind = "" if group.caught_up() else ", not caught up"
            parts.append(f"{group.spec.name} {state}{behind}: {members or 'nobody left'}")
        return "; ".join(parts)


def _final_state(process: Process) -> ProcessState:
    core = process.core
    return ProcessState(
        group_id=process.group.spec.group_id,
        birth_id=process.birth_id,
        name=process.name,
        alive=process.alive,
        role=core.role,
        view=core.view,
        membership=tuple(core.membership),
        program=process.program,
        statistics=core.statistics(),
        log=process.past.log_name(),
    )


def run_seed(
    seed: int,
    options: SimulationOptions,
    *,
    core: CoreFactory = make_replica,
    program: ProgramFactory = make_program,
) -> SeedResult:
    """Everything about one seed."""
    with collector_off():
        with planted_or_not(options.plant):
            simulation = Simulation(seed, options, core=core, program=program)
            simulation.run()
        result = judge(seed, simulation)
        del simulation  # before what it was is collected
        return result


@contextmanager
def collector_off() -> Iterator[None]:
    """The collector of cycles: what a seed makes is needed to its end, and scanning it again and again costs
    a fifth of the time. Then it is collected, without a look at what there was before."""
    collecting = gc.isenabled()
    gc.disable()
    gc.freeze()
    try:
        yield
        gc.collect()
    finally:
        gc.unfreeze()
        if collecting:
            gc.enable()


def planted_or_not(name: str | None) -> AbstractContextManager[object]:
    if name is None:
        return nullcontext()
    from llft.simulator.plants import planted

    return planted(name)


def judge(seed: int, simulation: Simulation, surveyed: Survey | None = None) -> SeedResult:
    """`surveyed`: of the last generation, if somebody has it already."""
    from llft.simulator.checkers import check_named, check_surveyed, count_losses, survey
    from llft.simulator.checkers.generations import OF_THE_LIVING, generations
    from llft.simulator.checkers.violation import Violation

    *former, evidence = generations(simulation.evidence())
    surveyed = surveyed or survey(evidence)
    violations = [Violation("crash", text) for text in simulation.cluster.core_failures]
    violations += [Violation("second_ack", text) for text in simulation.cluster.objections[:3]]
    violations += [Violation("past", text) for text in simulation.cluster.past_objections[:3]]
    for generation in former:
        violations += check_named(generation, leave_out=OF_THE_LIVING)
    violations += check_surveyed(surveyed)
    if not simulation.quiesced and not any(one.property == "progress" for one in violations):
        violations.append(Violation("progress", simulation.describe_unrest()))
    options = simulation.options
    if options.journal_dir is not None:
        for number, generation in enumerate(former, start=1):
            write_journals(Path(options.journal_dir) / f"seed-{seed}-generation-{number}", generation)
        write_journals(Path(options.journal_dir) / f"seed-{seed}", evidence)
    trace = simulation.world.trace
    return SeedResult(
        seed=seed,
        operations=simulation.operation_count(),
        primary_failures=simulation.primary_failures,
        violations=violations,
        losses=count_losses(surveyed),
        trace_hash=trace.hexdigest(),
        trace=trace.lines,
        simulated_ns=simulation.world.now_ns,
    )


def write_journals(directory: Path, evidence: Evidence) -> None:
    """One journal per birth, as the processes of a running system would have written them."""
    from llft.journal.writer import JournalWriter

    directory.mkdir(parents=True, exist_ok=True)
    writers: dict[object, JournalWriter] = {}
    for record in evidence.records:
        stamp = record.stamp
        writer = writers.get(stamp.birth_id)
        if writer is None:
            path = directory / f"{stamp.group_id}-{stamp.birth_id}.journal"
            writer = writers[stamp.birth_id] = JournalWriter(path)
        writer.write(record)
    for writer in writers.values():
        writer.close()
