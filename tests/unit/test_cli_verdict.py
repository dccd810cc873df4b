"""What a trial comes to, and how journals and groups are shown."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from llft.cli.main import build_parser, main
from llft.cli.panel import EventLines, Panel, group_lines
from llft.cli.percentiles import percentiles
from llft.cli.stolen import stolen_ms
from llft.cli.survey import all_joined, primary_of
from llft.cli.trial import Failover
from llft.cli.verdict import false_suspicions, verdict_lines, verdict_object
from llft.identifiers import BirthId, ViewId
from llft.journal.record import Operated, RoleChanged, Stamp, Suspected
from llft.journal.writer import JournalWriter
from llft.runtime.supervisor.metrics import prometheus_text

ONE, TWO, THREE = (BirthId(1, pid, 5) for pid in (101, 102, 103))
VIEW = ViewId(1, 1, ONE)
CLEAN = {"requests": 9, "replies": 9, "lost": 0, "duplicated": 0, "changed": 0, "broken": 0}


def stamp(time_ns: int, birth: BirthId) -> Stamp:
    return Stamp(time_ns, 7, birth, VIEW)


def write(path: Path, *records: Any) -> None:
    writer = JournalWriter(path)
    for record in records:
        writer.write(record)
    writer.close()


def test_percentiles_are_values_that_occurred() -> None:
    assert percentiles([]) == {"p50": None, "p99": None, "max": None}
    assert percentiles([3.0, 1.0, 2.0]) == {"p50": 2.0, "p99": 3.0, "max": 3.0}
    assert percentiles([float(value) for value in range(1, 201)]) == {
        "p50": 100.0,
        "p99": 198.0,
        "max": 200.0,
    }


def test_load_without_faults_passes_if_nobody_was_suspected() -> None:
    usual = {"p50": 5.0, "p99": 9.0, "max": 11.0}
    counts = {**CLEAN, "latency_ms": usual}
    calm = verdict_object(counts, [], suspicions=0, failure="", calm=True)
    assert (calm["passed"], calm["latency_ms"]) == (True, usual)
    assert "a request took p50 5.0 ms, p99 9.0 ms" in verdict_lines(calm)
    assert not verdict_object(counts, [], suspicions=1, failure="", calm=True)["passed"]
    assert not verdict_object(counts, [], suspicions=0, failure="")["passed"], "nobody was killed"


def test_only_undeserved_suspicions_count(tmp_path: Path) -> None:
    write(
        tmp_path / "replica-2-1.llj",
        Suspected(stamp(90, TWO), ONE, "timeout"),
        Suspected(stamp(110, TWO), ONE, "certificate"),
        Suspected(stamp(120, TWO), THREE, "timeout"),
        Suspected(stamp(900, TWO), THREE, "certificate"),
    )
    write(tmp_path / "replica-1-1.llj", Suspected(stamp(130, ONE), TWO, "timeout"))
    write(tmp_path / "gateway-1-1.llj", Suspected(stamp(130, THREE), TWO, "timeout"))
    failovers = [Failover(100, str(ONE))]
    assert false_suspicions(tmp_path, failovers, until_ns=500) == 2
    assert false_suspicions(tmp_path, [], until_ns=500) == 4


def test_a_clean_trial_passes() -> None:
    failovers = [Failover(1, "a", gap_ms=7.5, stages_ms={"detection": 1.0})]
    verdict = verdict_object(CLEAN, failovers, suspicions=0, failure="")
    assert verdict["passed"]
    assert verdict["failover_ms"] == {"p50": 7.5, "p99": 7.5, "max": 7.5}
    assert verdict["stages_ms"]["detection"]["p50"] == 1.0
    assert not any("FAILED" in line for line in verdict_lines(verdict))


def test_what_the_host_took_is_told_apart() -> None:
    failovers = [Failover(1, "a", gap_ms=7.5), Failover(2, "b", gap_ms=80.0, stolen_ms=60.0)]
    verdict = verdict_object(CLEAN, failovers, suspicions=0, failure="")
    assert verdict["failover_ms"]["max"] == 80.0
    assert (verdict["undisturbed"], verdict["undisturbed_ms"]["max"]) == (1, 7.5)
    assert any("the 1 of them" in line for line in verdict_lines(verdict))


def test_stolen_time_only_grows() -> None:
    before_ms = stolen_ms()
    assert 0 <= before_ms <= stolen_ms()


@pytest.mark.parametrize("fault", ["lost", "duplicated", "changed", "broken"])
def test_one_fault_fails_it(fault: str) -> None:
    verdict = verdict_object({**CLEAN, fault: 1}, [Failover(1, "a")], suspicions=0, failure="")
    assert not verdict["passed"]
    assert any("FAILED" in line for line in verdict_lines(verdict))


def test_a_trial_that_did_not_come_to_its_end_fails() -> None:
    assert not verdict_object(CLEAN, [Failover(1, "a")], suspicions=0, failure="did-not-rejoin")["passed"]
    assert not verdict_object(CLEAN, [], suspicions=0, failure="")["passed"]


def member(number: int, role: str, **changes: Any) -> dict[str, Any]:
    birth = f"1.{number}.5"
    base = {
        "replica": number,
        "name": f"replica-{number}",
        "pid": number,
        "lives": 1,
        "silent_s": 0,
        "answers": True,
        "has_state": True,
        "birth": birth,
        "role": role,
        "view": "v1/p1",
        "precedence": number,
        "rank": number,
        "lag": 0,
        "performed": 5,
        "uptime_s": 1.0,
        "suspicions": {"timeout": 0},
        "members": [{"birth": "1.1.5"}, {"birth": "1.2.5"}],
    }
    return {**base, **changes}


def group(*members: dict[str, Any]) -> dict[str, Any]:
    return {"group": "g", "listening": [["127.0.0.1", 80]], "members": list(members), "gateways": []}


def test_all_joined_means_members_with_state_in_one_view_that_the_primary_knows() -> None:
    primary, backup = member(1, "primary"), member(2, "backup")
    assert all_joined(group(primary, backup), 2)
    assert not all_joined(group(primary, backup), 3)
    for change in (
        {"role": "joining"},
        {"has_state": False},
        {"answers": False},
        {"view": "v0/p0"},
        {"birth": "1.9.9"},
        {"behind": 65},
    ):
        assert not all_joined(group(primary, {**backup, **change}), 2), change
    assert not all_joined(group(member(1, "backup"), backup), 2)


def test_of_two_primaries_the_one_with_precedence_counts() -> None:
    found = primary_of(group(member(1, "primary"), member(2, "primary"), member(3, "primary", answers=False)))
    assert found is not None
    assert found["replica"] == 2


def test_the_panel_is_redrawn_in_place() -> None:
    stream = io.StringIO()
    panel = Panel(stream)
    panel.seen(group(member(1, "primary")))
    height = stream.getvalue().count("\n")
    panel.told("something happened")
    panel.seen(group(member(1, "primary")))
    panel.close()
    assert stream.getvalue().count(f"\x1b[{height}F") == 3
    assert stream.getvalue().endswith("\x1b[J")


def test_elsewhere_there_are_only_lines() -> None:
    stream = io.StringIO()
    lines = EventLines(stream)
    lines.told("something happened")
    lines.seen(group(member(1, "primary")))
    lines.close()
    assert stream.getvalue().count("\n") == 1
    assert "\x1b" not in stream.getvalue()


def test_a_replica_that_never_answered_is_shown_too() -> None:
    unknown = dict.fromkeys(("view", "precedence", "rank", "lag", "performed", "uptime_s", "suspicions"))
    lines = group_lines(group(member(1, "starting", silent_s=3.2, **unknown)))
    assert any("starting" in line and "silent for 3 s" in line for line in lines)
    text = prometheus_text([group(member(1, "starting", **unknown))])
    assert "llft_replica_lag" not in text
    assert 'llft_replica_is_primary{group="g",replica="1"} 0' in text


def test_metrics_are_exact() -> None:
    text = prometheus_text([group(member(1, "primary", performed=123_456_789))])
    assert 'llft_replica_performed_operations{group="g",replica="1"} 123456789' in text.splitlines()


def test_journals_are_shown_by_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "replica-1-1.llj", RoleChanged(stamp(10, ONE), "primary", "alone"))
    write(
        tmp_path / "replica-2-1.llj",
        RoleChanged(stamp(5, TWO), "joining", "start"),
        Operated(stamp(20, TWO), 1, "READ 5"),
        RoleChanged(stamp(30, TWO), "backup", "accepted by the primary"),
    )
    assert main(["journal", "show", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("role=")[1].split()[0] for line in lines] == ["joining", "primary", "backup"]
    assert main(["journal", "show", str(tmp_path), "--kind", "operated", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["kind"], found["entry"], found["birth"]) == ("Operated", "READ 5", str(TWO))
    assert main(["journal", "show", str(tmp_path), "--kind", "gap"]) == 0
    assert "none of the 4 records" in capsys.readouterr().err
    assert main(["journal", "show", str(tmp_path), "--kind", "nonsense"]) == 2
    assert main(["journal", "show", str(tmp_path / "none")]) == 2


def test_a_damaged_journal_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.llj").write_bytes(b"nonsense" * 10)
    assert main(["journal", "show", str(tmp_path)]) == 1
    assert "not-a-journal" in capsys.readouterr().err


def test_the_commands_of_the_documentation_parse() -> None:
    for line in (
        "run --group bank --replicas 3 -- python server.py --port 8000",
        "run --join --config x.toml -- uvicorn app:app",
        "status --json",
        "kill --group bank --primary",
        "kill --replica 2 --signal STOP",
        "bench failover --kills 100 --signal STOP --replicas 2 --seconds 60 --json",
        "demo --json",
        "check -- python app.py",
    ):
        arguments = build_parser().parse_args(line.split())
        assert callable(arguments.run)
    run = build_parser().parse_args(["run", "-n", "2", "--", "python", "server.py", "--port", "1"])
    assert run.command == ["python", "server.py", "--port", "1"]
