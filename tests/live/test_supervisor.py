"""The supervisor by itself: real processes and sockets, with stand-ins for replicas and gateway."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from llft.cli.free_port import free_port
from llft.cli.main import main
from llft.cli.survey import primary_of, survey
from llft.errors import PeerError
from llft.runtime.supervisor.run_directory import RunDirectory, the_group
from llft.runtime.supervisor.slot import Slot

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 10.0


class Run:
    """One `llft run` of stand-ins, and everything it says."""

    def __init__(self, home: Path, *words: str, group: str = "g", replicas: int = 3) -> None:
        self.home = home
        command = [sys.executable, "-m", "tests.live.stub_run", group, str(replicas), *words]
        environment = {**os.environ, "LLFT_HOME": str(home)}
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.directory = RunDirectory(home / group)
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.lines.extend(iter(self.process.stdout.readline, ""))

    def group(self) -> dict[str, Any]:
        return survey(self.directory)

    def until(self, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        deadline_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline_s:
            try:
                group = self.group()
            except PeerError:
                assert self.process.poll() is None, self.text()
            else:
                if holds(group):
                    return group
            time.sleep(0.02)
        raise AssertionError(f"not in time: {self.text()}")

    def until_said(self, text: str) -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while not any(text in line for line in self.lines):
            assert time.monotonic() < deadline_s, f"never said {text!r}: {self.text()}"
            time.sleep(0.02)

    def text(self) -> str:
        return "".join(self.lines)

    def ended(self) -> int:
        status = self.process.wait(timeout=PATIENCE_S)
        self._reader.join(timeout=PATIENCE_S)
        return status

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(timeout=PATIENCE_S)
        self._reader.join(timeout=PATIENCE_S)
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path_factory.mktemp("h")
    monkeypatch.setenv("LLFT_HOME", str(path))
    return path


@pytest.fixture
def start(home: Path) -> Iterator[Callable[..., Run]]:
    runs: list[Run] = []

    def begin(*words: str, **options: Any) -> Run:
        runs.append(Run(home, *words, **options))
        return runs[-1]

    yield begin
    for run in runs:
        run.close()


Start = Callable[..., Run]


def all_members(count: int) -> Callable[[dict[str, Any]], bool]:
    def holds(group: dict[str, Any]) -> bool:
        roles = sorted(member["role"] for member in group["members"])
        return roles == ["backup"] * (count - 1) + ["primary"]

    return holds


def pids_of(group: dict[str, Any]) -> list[int]:
    return [process["pid"] for process in group["members"] + group["gateways"]]


def alive(pid: int) -> bool:
    """Whether it runs; a zombie does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def until_dead(pids: list[int]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while any(map(alive, pids)):
        assert time.monotonic() < deadline_s, f"{[pid for pid in pids if alive(pid)]} still run"
        time.sleep(0.01)


def left_over(directory: RunDirectory) -> list[str]:
    """What must not be there after a run."""
    names = [path.name for path in directory.path.iterdir()]
    return [name for name in names if name.endswith((".sock", ".pid")) or name == "gateway.id"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_nothing_is_left_behind_after_a_signal(start: Start, number: signal.Signals) -> None:
    run = start("serve", str(free_port()))
    pids = pids_of(run.until(all_members(3)))
    run.process.send_signal(number)
    assert run.ended() == 128 + number
    assert not any(map(alive, pids))
    assert left_over(run.directory) == []
    assert (run.directory.path / "replica-1.log").read_text().count("stub: started") == 1


def test_nothing_is_left_running_after_the_supervisor_was_killed(start: Start) -> None:
    run = start("stubborn")
    pids = pids_of(run.until(all_members(3)))
    run.process.kill()
    assert run.ended() == -signal.SIGKILL
    until_dead(pids)
    again = start("serve")
    again.until(all_members(3))
    assert (again.directory.path / "previous" / "replica-1.log").exists()


def test_children_that_ignore_being_asked_are_made_to_end(start: Start) -> None:
    run = start("stubborn")
    pids = pids_of(run.until(all_members(3)))
    run.process.terminate()
    assert run.ended() == 128 + signal.SIGTERM
    assert not any(map(alive, pids))


def test_a_stopped_replica_is_ended_too(start: Start) -> None:
    run = start("serve")
    group = run.until(all_members(3))
    os.kill(group["members"][1]["pid"], signal.SIGSTOP)
    run.process.terminate()
    assert run.ended() == 128 + signal.SIGTERM
    assert not any(map(alive, pids_of(group)))


def test_a_killed_primary_is_replaced_and_started_again(
    start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    run = start("serve")
    before = run.until(all_members(3))
    assert main(["kill", "--primary"]) == 0
    after = run.until(lambda group: all_members(3)(group) and group["members"][0]["lives"] == 2)
    former, primary = primary_of(before), primary_of(after)
    assert former is not None
    assert primary is not None
    assert (former["replica"], former["pid"]) != (primary["replica"], primary["pid"])
    assert "replica 1 (primary) was killed by SIGKILL" in run.text()
    ends = {member["replica"]: member["last_end"] for member in after["members"]}
    assert ends == {1: "was killed by SIGKILL", 2: "", 3: ""}
    assert main(["status"]) == 0
    assert "the last one was killed by SIGKILL" in capsys.readouterr().out
    specification = survey(run.directory)["members"][0]
    assert specification["role"] == "backup"


def test_a_group_without_members_begins_anew(start: Start) -> None:
    run = start("serve")
    group = run.until(all_members(3))
    for member in group["members"]:
        os.kill(member["pid"], signal.SIGKILL)
    down = run.until(lambda found: any(member["pid"] is None for member in found["members"]))
    assert all(member["role"] == "down" for member in down["members"] if member["pid"] is None)
    again = run.until(lambda found: all_members(3)(found) and not set(pids_of(found)) & set(pids_of(group)))
    assert "its state is lost: the group begins anew" in run.text()
    assert again["gateways"][0]["lives"] == 2


def test_a_stopped_sole_member_is_no_reason_to_begin_anew(start: Start) -> None:
    """It has the state, and may go on."""
    run = start("serve", replicas=1)
    member = run.until(all_members(1))["members"][0]
    os.kill(member["pid"], signal.SIGSTOP)
    time.sleep(2.5)
    os.kill(member["pid"], signal.SIGCONT)
    group = run.until(lambda found: bool(found["members"][0]["answers"]))
    assert (group["members"][0]["pid"], group["members"][0]["lives"]) == (member["pid"], 1)


def test_a_gateway_that_hangs_is_replaced(start: Start) -> None:
    """Its clients would hang with it for ever; a replica that is stopped as long is left to its group."""
    run = start("serve", replicas=2)
    group = run.until(all_members(2))
    gateway, backup = group["gateways"][0], group["members"][1]
    for one in (gateway, backup):
        os.kill(one["pid"], signal.SIGSTOP)
    run.until_said(f"gateway 1 (pid {gateway['pid']}) gives no answer: it is ended")
    again = run.until(lambda found: found["gateways"][0]["pid"] not in (None, gateway["pid"]))
    assert again["members"][1]["pid"] == backup["pid"]
    os.kill(backup["pid"], signal.SIGCONT)
    run.until(all_members(2))


def test_a_replica_that_was_not_heard_may_have_the_state(start: Start) -> None:
    run = start("serve", replicas=2)
    first, second = run.until(all_members(2))["members"]
    os.kill(second["pid"], signal.SIGKILL)
    fresh = run.until(lambda found: found["members"][1]["pid"] not in (None, second["pid"]))["members"][1]
    os.kill(fresh["pid"], signal.SIGSTOP)
    os.kill(first["pid"], signal.SIGKILL)
    time.sleep(3.0)
    assert "begins anew" not in run.text()
    os.kill(fresh["pid"], signal.SIGCONT)
    run.until(all_members(2))


def test_a_program_that_cannot_start_is_given_up_with_its_last_words(start: Start) -> None:
    run = start("crash")
    assert run.ended() == 1
    assert "died 5 times soon after its start" in run.text()
    assert "| the stub was told to crash" in run.text()
    assert left_over(run.directory) == []


def test_a_group_that_dies_again_and_again_is_given_up(start: Start) -> None:
    """Each process lives long enough not to be a quick death, and yet the group never does anything. There is
    one replica: two that die at different times would keep the group alive by turns."""
    run = start("crash-later", replicas=1)
    assert run.process.wait(timeout=40) == 1
    assert run.ended() == 1
    assert "the group lost all its members 5 times in a row" in run.text()
    assert left_over(run.directory) == []


def test_a_replica_that_another_start_would_not_help_is_not_started_again(start: Start) -> None:
    run = start("useless", replicas=1)
    assert run.ended() == 1
    assert "another start would not help" in run.text()


def test_the_run_ends_with_the_program(start: Start) -> None:
    run = start("end")
    assert run.ended() == 0
    assert "the program ended" in run.text()


def test_a_second_run_is_refused_and_harms_nothing(start: Start) -> None:
    first = start("serve")
    pids = pids_of(first.until(all_members(3)))
    second = start("serve")
    assert second.ended() == 2
    assert second.process.stderr is not None
    complaint = second.process.stderr.read()
    assert "group-already-runs" in complaint
    assert str(first.process.pid) in complaint
    assert pids_of(first.group()) == pids


def test_the_gateway_listens_where_the_program_does_in_each_of_its_lives(start: Start) -> None:
    port = free_port()
    run = start("serve", str(port))
    group = run.until(lambda found: found["listening"] == [["127.0.0.1", port]])
    socket.create_connection(("127.0.0.1", port), timeout=2).close()
    assert main(["kill", "--gateway"]) == 0
    run.until(lambda found: found["gateways"][0]["lives"] == 2 and bool(found["listening"]))
    socket.create_connection(("127.0.0.1", port), timeout=2).close()
    assert run.group()["members"][0]["pid"] == group["members"][0]["pid"]


def test_a_port_that_is_taken_ends_the_run_and_names_its_holder(start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        run = start("serve", str(taken.getsockname()[1]))
        assert run.ended() == 1
    assert f"(pid {os.getpid()})" in run.text()


def test_replicas_come_and_go_by_order(start: Start, capsys: pytest.CaptureFixture[str]) -> None:
    run = start("serve", replicas=2)
    run.until(all_members(2))
    assert main(["add"]) == 0
    run.until(all_members(3))
    assert main(["switch"]) == 0
    assert main(["remove", "--replica", "2"]) == 0
    assert [member["replica"] for member in run.group()["members"]] == [1, 3]
    assert main(["remove", "--replica", "2"]) == 2
    assert "no-such-replica" in capsys.readouterr().err
    assert run.process.poll() is None


def test_status_is_for_machines_too(start: Start, capsys: pytest.CaptureFixture[str]) -> None:
    run = start("serve")
    run.until(all_members(3))
    assert main(["status", "--json"]) == 0
    group = json.loads(capsys.readouterr().out)["groups"][0]
    wanted = {"replica", "pid", "role", "precedence", "rank", "view", "lag"}
    assert all(wanted <= member.keys() for member in group["members"])
    assert main(["status", "--prometheus"]) == 0
    assert re.search(r'^llft_replica_lag{group="g",replica="\d"} 2$', capsys.readouterr().out, re.MULTILINE)
    assert main(["status"]) == 0
    assert "primary" in capsys.readouterr().out


def test_who_kills_nobody_is_told(start: Start, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kill", "--primary"]) == 2
    assert "no-group-runs" in capsys.readouterr().err
    run = start("serve")
    run.until(all_members(3))
    assert main(["kill", "--replica", "9"]) == 2
    assert main(["kill", "--replica", "1", "--signal", "NONSENSE"]) == 2
    assert the_group("g").holder() == run.process.pid


def test_a_replica_that_cannot_be_started_now_is_started_later(start: Start) -> None:
    """Its log cannot be opened, as on a full disk; the others serve on."""
    run = start("serve", replicas=2)
    run.until(all_members(2))
    log = run.directory.log("replica-2")
    log.rename(log.with_suffix(".kept"))
    log.mkdir()
    assert main(["kill", "--replica", "2"]) == 0
    run.until_said("replica 2 cannot be started: [Errno 21] Is a directory")
    log.rmdir()
    run.until(all_members(2))
    assert run.group()["members"][0]["lives"] == 1


def test_a_full_disk_is_no_reason_not_to_start(tmp_path: Path) -> None:
    slot = Slot("replica", 1, Path("/dev/full"), tmp_path / "socket")
    slot.start(["true"], {})
    assert slot.process is not None
    assert slot.process.wait(timeout=PATIENCE_S) == 0
    assert slot.reap() == 0
