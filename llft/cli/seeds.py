"""Runs many seeds on many processes, and sums up what they found.

Laws:

1. No seed is lost: one that raises is a violation "crash" with its traceback's end; one that takes
   its whole process down (a fatal signal, out of memory) is found by running the seeds that were
   under way again, each in a process of its own.
2. The outcome does not depend on the number of processes: results are taken in the order of the seeds.
3. Memory is bounded: so many chunks are under way, so many findings are kept; the rest is counted.
4. Nobody survives us: an interrupt ends all workers, and a worker whose parent is gone ends itself.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import signal
import threading
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llft.simulator.options import SimulationOptions
    from llft.simulator.runner import SeedResult

    RunSeed = Callable[[int, SimulationOptions], SeedResult]

FINDINGS_LIMIT = 200
TRACEBACK_LINES = 6


@dataclass(frozen=True, slots=True)
class Finding:
    """A violation, and the seed that shows it."""

    seed: int
    property: str
    explanation: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one seed comes to: a SeedResult without its weight, or a crash."""

    seed: int
    operations: int = 0
    primary_failures: int = 0
    findings: tuple[Finding, ...] = ()
    losses: dict[str, int] = field(default_factory=dict)
    trace_hash: str = ""
    trace: tuple[str, ...] = ()
    simulated_ns: int = 0


@dataclass(slots=True)
class Summary:
    """The sum over all seeds so far."""

    seeds: int = 0
    operations: int = 0
    primary_failures: int = 0
    violations: int = 0
    simulated_ns: int = 0
    losses: dict[str, int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    _hash: hashlib.blake2b = field(default_factory=lambda: hashlib.blake2b(digest_size=16))

    def add(self, outcome: Outcome) -> None:
        self.seeds += 1
        self.operations += outcome.operations
        self.primary_failures += outcome.primary_failures
        self.violations += len(outcome.findings)
        self.simulated_ns += outcome.simulated_ns
        for category, count in outcome.losses.items():
            self.losses[category] = self.losses.get(category, 0) + count
        self.findings.extend(outcome.findings[: FINDINGS_LIMIT - len(self.findings)])
        self._hash.update(f"{outcome.seed}:{outcome.trace_hash};".encode())

    @property
    def trace_hash(self) -> str:
        """Over all seeds in their order."""
        return self._hash.hexdigest()

    @property
    def resets(self) -> int:
        """Connections that were reset, whatever the category of the loss."""
        return sum(count for category, count in self.losses.items() if "reset" in category)


def run_one(run_seed: RunSeed, seed: int, options: SimulationOptions) -> Outcome:
    """One seed, here and now. Whatever it raises is its outcome."""
    try:
        result = run_seed(seed, options)
    except Exception:  # noqa: BLE001 - a seed that crashes is what we look for
        lines = traceback.format_exc().strip().splitlines()[-TRACEBACK_LINES:]
        return _crash(seed, "\n".join(lines))
    return Outcome(
        seed=result.seed,
        operations=result.operations,
        primary_failures=result.primary_failures,
        findings=tuple(Finding(seed, found.property, found.explanation) for found in result.violations),
        losses=dict(result.losses),
        trace_hash=result.trace_hash,
        trace=tuple(result.trace) if options.trace else (),
        simulated_ns=result.simulated_ns,
    )


def run_many(
    run_seed: RunSeed, seeds: range, options: SimulationOptions, *, jobs: int
) -> Generator[Outcome, None, None]:
    """All seeds in their order. With one job, or one seed, in this very process."""
    if jobs == 1 or len(seeds) == 1:
        for seed in seeds:
            yield run_one(run_seed, seed, options)
        return
    chunk_size = max(1, min(16, len(seeds) // (jobs * 4)))
    chunks = deque(seeds[start : start + chunk_size] for start in range(0, len(seeds), chunk_size))
    try:
        while chunks:
            yield from _run_until_broken(run_seed, chunks, options, jobs=jobs)
    finally:
        # The executor's shutdown waits for what is under way; after an interrupt nobody wants it.
        for child in multiprocessing.active_children():
            child.terminate()


def _run_until_broken(
    run_seed: RunSeed, chunks: deque[range], options: SimulationOptions, *, jobs: int
) -> Iterator[Outcome]:
    """Works through the chunks, and takes them off. If a worker dies the pool is lost with it: then
    the oldest chunk is run seed by seed, and we return with the rest for a new pool."""
    executor = _pool(jobs)
    under_way: deque[Future[list[Outcome]]] = deque()
    try:
        while chunks:
            while len(under_way) < min(jobs * 3, len(chunks)):
                chunk = chunks[len(under_way)]
                under_way.append(executor.submit(_run_chunk, run_seed, chunk, options))
            outcomes = under_way[0].result()
            under_way.popleft()
            chunks.popleft()
            yield from outcomes
    except BrokenProcessPool:
        for seed in chunks.popleft():
            yield _run_alone(run_seed, seed, options)
    finally:
        executor.shutdown(wait=False, cancel_futures=True)


def _run_chunk(run_seed: RunSeed, chunk: range, options: SimulationOptions) -> list[Outcome]:
    return [run_one(run_seed, seed, options) for seed in chunk]


def _run_alone(run_seed: RunSeed, seed: int, options: SimulationOptions) -> Outcome:
    with _pool(1) as executor:
        try:
            return executor.submit(run_one, run_seed, seed, options).result()
        except BrokenProcessPool:
            return _crash(seed, "the process that ran this seed died: a fatal signal, or out of memory")


def _crash(seed: int, explanation: str) -> Outcome:
    return Outcome(seed, findings=(Finding(seed, "crash", explanation),), trace_hash="crash")


def _pool(jobs: int) -> ProcessPoolExecutor:
    # fork, where it exists: workers start at once, and this process has no threads of its own.
    method = "fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn"
    context = multiprocessing.get_context(method)
    return ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin_worker)


def _begin_worker() -> None:
    """The parent decides when we end: by an interrupt of its own, or by its death."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
