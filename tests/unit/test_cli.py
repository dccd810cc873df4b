"""The command line, with a world that is a table: each seed does what its number says."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import types
from pathlib import Path

import pytest

from llft.cli.main import build_parser, main
from llft.cli.seeds import FINDINGS_LIMIT, Finding, Outcome, Summary, run_many
from llft.simulator.checkers.violation import Violation
from llft.simulator.options import SimulationOptions
from llft.simulator.runner import SeedResult

VIOLATING, RAISING, DYING = 7, 11, 13


def run_sound_seed(seed: int, options: SimulationOptions) -> SeedResult:
    trace = [f"{seed}.1 started", f"{seed}.2 stopped"] if options.trace else []
    losses = {"reset_connections": 1, "pruned_operations": 2}
    trace_hash = f"hash of {seed} {options.profile}"
    return SeedResult(seed, 10, 2, [], losses, trace_hash, trace, simulated_ns=1_000_000_000)


def run_fake_seed(seed: int, options: SimulationOptions) -> SeedResult:
    result = run_sound_seed(seed, options)
    if seed == VIOLATING:
        result.violations.append(Violation("theorem2", "a long explanation of what went wrong"))
        result.violations.append(Violation("clock", "clock went back"))
    if seed == RAISING:
        raise RuntimeError("boom in the core")
    return result


def run_deadly_seed(seed: int, options: SimulationOptions) -> SeedResult:
    if seed == DYING:
        os.kill(os.getpid(), signal.SIGKILL)
    return run_fake_seed(seed, options)


@pytest.fixture
def fake_world(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = types.ModuleType("llft.simulator.runner")
    runner.run_seed = run_fake_seed  # type: ignore[attr-defined]
    plants = types.ModuleType("llft.simulator.plants")
    plant = types.SimpleNamespace(name="forget-ack", description="an acknowledgment is forgotten")
    plants.PLANTS = {plant.name: plant}  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, runner.__name__, runner)
    monkeypatch.setitem(sys.modules, plants.__name__, plants)


def last_object(capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("jobs", [1, 2])
def test_seeds_come_in_order_whatever_the_jobs(jobs: int) -> None:
    outcomes = list(run_many(run_fake_seed, range(3, 40), SimulationOptions(), jobs=jobs))
    assert [outcome.seed for outcome in outcomes] == list(range(3, 40))
    crashed = outcomes[RAISING - 3]
    assert crashed.findings[0].property == "crash"
    assert "boom in the core" in crashed.findings[0].explanation


def test_a_seed_that_kills_its_process_is_found_and_the_others_are_run() -> None:
    outcomes = list(run_many(run_deadly_seed, range(40), SimulationOptions(), jobs=2))
    assert [outcome.seed for outcome in outcomes] == list(range(40))
    assert [outcome.seed for outcome in outcomes if outcome.findings] == [VIOLATING, RAISING, DYING]
    assert "died" in outcomes[DYING].findings[0].explanation


def test_findings_kept_are_bounded_and_all_are_counted() -> None:
    summary = Summary()
    for seed in range(FINDINGS_LIMIT + 50):
        summary.add(Outcome(seed, findings=(Finding(seed, "clock", "went back"),)))
    assert summary.violations == FINDINGS_LIMIT + 50
    assert len(summary.findings) == FINDINGS_LIMIT


@pytest.mark.usefixtures("fake_world")
class TestSimulate:
    def test_sound_seeds_exit_with_0(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["simulate", "--seeds", "0:6", "--jobs", "2"]) == 0
        assert "6 seeds, 60 operations, 12 primary failures" in capsys.readouterr().out

    @pytest.mark.reference
    def test_a_violation_names_seed_property_explanation_and_replay(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        options = ["--profile", "crash", "--replicas", "3", "--plant", "forget-ack"]
        assert main(["simulate", "--seeds", "0:10", "--jobs", "2", *options]) == 1
        output = capsys.readouterr().out
        assert "violation: seed 7: clock" in output
        assert "clock went back" in output
        command = next(line for line in output.splitlines() if "replay:" in line).partition(": ")[2]
        replayed = build_parser().parse_args(shlex.split(command)[1:])
        assert (replayed.seed, replayed.trace, replayed.profile) == (7, True, "crash")
        assert (replayed.replicas, replayed.plant) == (3, "forget-ack")

    def test_json_is_the_last_line(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["simulate", "--seeds", "0:12", "--jobs", "2", "--json"]) == 1
        found = last_object(capsys)
        assert found["first_violation"] == {"seed": 7, "property": "theorem2"}
        assert (found["seeds"], found["violations"], found["resets"]) == (12, 3, 11)
        assert found["losses"] == {"reset_connections": 11, "pruned_operations": 22}
        assert {"operations", "primary_failures", "seconds"} <= found.keys()

    def test_trace_hash_depends_on_seeds_and_not_on_jobs(self, capsys: pytest.CaptureFixture[str]) -> None:
        def trace_hash(seeds: str, jobs: str) -> object:
            main(["simulate", "--seeds", seeds, "--jobs", jobs, "--json"])
            return last_object(capsys)["trace_hash"]

        assert trace_hash("0:20", "1") == trace_hash("0:20", "2")
        assert trace_hash("0:20", "1") != trace_hash("1:20", "1")

    def test_trace_prints_events_then_the_object(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["simulate", "--seed", "5", "--trace", "--json"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[:2] == ["5.1 started", "5.2 stopped"]
        assert json.loads(lines[2])["first_violation"] is None

    def test_lists(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["simulate", "--plant", "list", "--json"]) == 0
        assert last_object(capsys) == {"plants": ["forget-ack"]}
        assert main(["simulate", "--plant", "list"]) == 0
        assert capsys.readouterr().out == "forget-ack  an acknowledgment is forgotten\n"
        assert main(["simulate", "--profile", "list"]) == 0
        assert "lost-client" in capsys.readouterr().out
        assert main(["simulate", "--topology", "list"]) == 0
        assert "three-tier" in capsys.readouterr().out

    @pytest.mark.parametrize(
        "options",
        [
            ["--profile", "unheard"],
            ["--topology", "unheard"],
            ["--plant", "unheard"],
            ["--trace"],
        ],
    )
    def test_bad_names_exit_with_2_and_a_remedy(
        self, options: list[str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["simulate", *options]) == 2
        assert "llft: " in capsys.readouterr().err

    @pytest.mark.parametrize(
        "options",
        [
            ["--seeds", "9:3"],
            ["--seeds", "x"],
            ["--seed", "-1"],
            ["--seed", "1", "--seeds", "0:2"],
            ["--replicas", "6"],
            ["--threads", "loose"],
            ["--jobs", "0"],
            ["--seeds", "0:99999999999999999999"],
        ],
    )
    def test_bad_values_exit_with_2(self, options: list[str]) -> None:
        with pytest.raises(SystemExit) as caught:
            main(["simulate", *options])
        assert caught.value.code == 2

    def test_a_journal_directory_in_use_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "seed-1").mkdir()
        assert main(["simulate", "--seed", "1", "--journal", str(tmp_path)]) == 2
        assert main(["simulate", "--seed", "1", "--journal", str(tmp_path / "new")]) == 0


def test_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--help"], ["simulate", "--help"]):
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        assert caught.value.code == 0
        assert "examples:" in capsys.readouterr().out


INTERRUPTED = """
import os, signal
from llft.cli.seeds import run_many
from llft.simulator.options import SimulationOptions

def run_endless_seed(seed, options):
    os.write(1, f"{os.getpid()}\\n".encode())
    while True:
        signal.pause()

# A parent that runs in the background may have had SIGINT ignored for all its descendants.
signal.signal(signal.SIGINT, signal.default_int_handler)
list(run_many(run_endless_seed, range(8), SimulationOptions(), jobs=2))
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_no_worker_survives_its_parent(how: signal.Signals) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    with process.stdout as workers:
        started = {int(workers.readline()), int(workers.readline())}
        process.send_signal(how)
        # The pipe ends when the last process that holds it has ended: no sleeping, no polling.
        workers.read()
    process.wait()
    assert len(started) == 2
