"""Programs as process groups under load, their primaries killed: what tests of applications share.

A `ReplicatedRun` is a real `llft run` in a home of its own. `Clients` are threads, each with a connection
that stays open, which check every reply and remember the order that the server reported. Afterwards a plain
run of the same program is given the same requests in that order, and must say the same.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import xmlrpc.client
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from llft.cli.free_port import free_port
from llft.cli.kill import send_signal
from llft.cli.survey import all_joined, primary_of, require_primary, survey
from llft.errors import PeerError
from llft.journal.record import Diverged
from llft.runtime.supervisor.run_directory import RunDirectory
from llft.simulator.from_journals import judge, read_journals
from tests.live.kept import keep_journals
from tests.live.world import TIMEOUTS

APPLICATIONS = Path(__file__).with_name("applications")
ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 90.0
"""For anything that takes two seconds on a quiet machine."""
REPLY_TIMEOUT_S = 60.0
POLL_INTERVAL_S = 0.05
PACE_S = 0.06
"""Between requests of a client. Where all is slow, rejoining above all, there is then not more to judge."""
REPLICAS = 3
CLIENTS = 4
BETWEEN_KILLS = 40
"""So many requests are answered before each kill."""

Reply = dict[str, Any]


# -- the ways to speak with a server --------------------------------------------------------------------


class Speaker(Protocol):
    """One connection to a server, which stays open."""

    def add(self, who: str, number: int, amount: int) -> Reply: ...

    def dump(self) -> Reply: ...

    def close(self) -> None: ...


class LineSpeaker:
    def __init__(self, port: int) -> None:
        self._connection = socket.create_connection(("127.0.0.1", port), timeout=REPLY_TIMEOUT_S)
        self._file = self._connection.makefile("rwb")

    def add(self, who: str, number: int, amount: int) -> Reply:
        return self._ask([who, number, amount])

    def dump(self) -> Reply:
        return self._ask("dump")

    def _ask(self, request: object) -> Reply:
        self._file.write(json.dumps(request).encode() + b"\n")
        self._file.flush()
        reply: Reply = json.loads(self._file.readline())
        return reply

    def close(self) -> None:
        self._connection.close()
        with suppress(OSError):  # the server is dead, and something was to be sent
            self._file.close()


class HttpSpeaker:
    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=REPLY_TIMEOUT_S)
        self._connection.connect()
        # What is tested is whether *this* connection survives: no other one is made in its place.
        self._connection.auto_open = 0

    def path(self, number: int) -> str:
        return "/"

    def add(self, who: str, number: int, amount: int) -> Reply:
        return self._ask("POST", self.path(number), json.dumps([who, number, amount]))

    def dump(self) -> Reply:
        return self._ask("GET", "/", None)

    def _ask(self, method: str, path: str, body: str | None) -> Reply:
        headers = {"Content-Type": "application/json"} if body else {}
        self._connection.request(method, path, body, headers)
        response = self._connection.getresponse()
        content = response.read()
        assert response.status == 200, (response.status, content)
        reply: Reply = json.loads(content)
        return reply

    def close(self) -> None:
        self._connection.close()


class ParitySpeaker(HttpSpeaker):
    def path(self, number: int) -> str:
        return "/odd" if number % 2 else "/even"


class RpcSpeaker:
    def __init__(self, port: int) -> None:
        self._transport = OneConnection()
        self._server = xmlrpc.client.ServerProxy(f"http://127.0.0.1:{port}/", self._transport)

    def add(self, who: str, number: int, amount: int) -> Reply:
        reply: Any = self._server.add(who, number, amount)
        return dict(reply)

    def dump(self) -> Reply:
        reply: Any = self._server.dump()
        return dict(reply)

    def close(self) -> None:
        self._transport.close()


class OneConnection(xmlrpc.client.Transport):
    """The library's own sends a request again on a new connection; here a broken one is a failure."""

    def request(self, host: Any, handler: Any, request_body: Any, verbose: bool = False) -> Any:
        return self.single_request(host, handler, request_body, verbose)

    def make_connection(self, host: Any) -> http.client.HTTPConnection:
        fresh = self._connection[0] is None  # type: ignore[has-type]
        connection = super().make_connection(host)
        if fresh:
            connection.timeout = REPLY_TIMEOUT_S
            connection.connect()
            connection.auto_open = 0
        return connection


# -- clients --------------------------------------------------------------------------------------------


class Entry:
    """A request, and what came of it."""

    def __init__(self, request: tuple[str, int, int], reply: Reply) -> None:
        self.request = request
        self.sequence: int = reply["sequence"]
        self.luck = reply.pop("luck", [])
        self.reply = reply


class Clients:
    """Threads that add to their own accounts until they are told to stop."""

    def __init__(self, count: int, connect: Callable[[], Speaker]) -> None:
        self._connect = connect
        self._ended = threading.Event()
        self.entries: list[Entry] = []
        self.complaints: list[str] = []
        self._threads = [
            threading.Thread(target=self._converse, args=(f"c{index}",), daemon=True)
            for index in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> list[Entry]:
        """The requests in the order that the server reported; each exactly once, as every client found."""
        self._ended.set()
        for thread in self._threads:
            thread.join(REPLY_TIMEOUT_S + 10)
            assert not thread.is_alive(), "a client waits for ever"
        assert not self.complaints, self.complaints
        self.entries.sort(key=lambda entry: entry.sequence)
        sequences = [entry.sequence for entry in self.entries]
        assert sequences == list(range(1, len(sequences) + 1))
        return self.entries

    def await_progress(self, count: int) -> None:
        """Until so many more requests were answered."""
        goal = len(self.entries) + count
        until("answer requests", lambda: self.complaints or len(self.entries) >= goal)
        assert not self.complaints, self.complaints

    def _converse(self, who: str) -> None:
        try:
            speaker = self._connect()
            self._add_on(speaker, who)
            speaker.close()
        except Exception as error:  # noqa: BLE001 (told, and the test fails)
            self.complaints.append(f"{who}: {error!r}")

    def _add_on(self, speaker: Speaker, who: str) -> None:
        number = balance = 0
        while not self._ended.wait(PACE_S):
            number += 1
            balance += number * 7
            request = (who, number, number * 7)
            entry = Entry(request, speaker.add(*request))
            assert entry.reply["number"] == number, (request, entry.reply)
            assert entry.reply.get("balance", balance) == balance, (request, entry.reply)
            self.entries.append(entry)


def until(what: str, holds: Callable[[], object], patience_s: float = PATIENCE_S) -> None:
    deadline_s = time.monotonic() + patience_s
    while not holds():
        assert time.monotonic() < deadline_s, f"it does not {what} within {patience_s:g} s"
        time.sleep(POLL_INTERVAL_S)


# -- runs -----------------------------------------------------------------------------------------------


def command_of(words: Sequence[str], port: int) -> list[str]:
    """`words` is an application's file and its further arguments."""
    return [sys.executable, str(APPLICATIONS / words[0]), str(port), *words[1:]]


class ReplicatedRun:
    """`llft run` of one application."""

    def __init__(
        self,
        home: Path,
        name: str,
        words: Sequence[str],
        *,
        config: Path | None = None,
        threads: str = "token",
        checkpoints: str = "",
        checkpoint_log_kb: int = 0,
        port: int = 0,
        more: Sequence[str] = (),
    ) -> None:
        """`checkpoint_log_kb`: checkpoints are taken so often; 0: as often as they are. `port`: of an
        earlier run of the same group."""
        self.port = port or free_port()
        self.name = name
        # Group ids follow from names, and all of this host's groups share one multicast port.
        self.directory = RunDirectory(home / f"{name}-{self.port}")
        self._output = open(home / f"{name}.out", "w+b")  # noqa: SIM115 - closed by end()
        command = [sys.executable, "-m", "llft.cli.main", "run", "--plain", "-n", str(REPLICAS)]
        command += ["--group", self.directory.group, "--parent", str(os.getpid())]
        if checkpoint_log_kb:
            config = home / f"{name}.toml"
            lines = f'[groups."{self.directory.group}"]\ncheckpoint_log_kb = {checkpoint_log_kb}\n'
            config.write_text(f"{lines}{TIMEOUTS}")
        command += ["--config", str(config)] if config is not None else []
        command += ["--threads", threads] if threads != "token" else []
        command += ["--checkpoints", checkpoints] if checkpoints else []
        command += more
        self._words = words
        self._process = subprocess.Popen(
            [*command, "--", *command_of(words, self.port)],
            cwd=ROOT,
            env={**os.environ, "LLFT_HOME": str(home)},
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._output,
        )
        self._pids: set[int] = set()

    @property
    def group(self) -> str:
        return self.directory.group

    def until(self, what: str, holds: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        found: list[dict[str, Any]] = []

        def look() -> bool:
            assert self._process.poll() is None, f"the run ended:\n{self.output()}"
            try:
                group = survey(self.directory, timeout_s=1.0)
            except PeerError:
                return False  # its control socket is not there yet
            members = [*group["members"], *group["gateways"]]
            self._pids.update(member["pid"] for member in members if member["pid"] is not None)
            found[:] = [group]
            return bool(holds(group))

        try:
            until(what, look)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.output()}") from None
        return found[0]

    def await_whole(self) -> dict[str, Any]:
        """All replicas are members with state, and the gateway listens."""
        return self.until("become whole", lambda group: all_joined(group, REPLICAS) and group["listening"])

    def kill_primary(self) -> None:
        """One kill and its fail-over; the killed one need not have come back yet."""
        group = self.await_whole()
        victim = require_primary(group)
        send_signal(victim["pid"], signal.SIGKILL, parent=group["supervisor_pid"])

        def replaced(group: dict[str, Any]) -> bool:
            primary = primary_of(group)
            return primary is not None and primary["birth"] != victim["birth"]

        self.until("fail over", replaced)

    def kill_replicas(self) -> None:
        """All of them, one right after the other; supervisor and gateway live on. Until none is left."""
        group = self.await_whole()
        former = {member["birth"] for member in group["members"]}
        for member in group["members"]:
            send_signal(member["pid"], signal.SIGKILL, parent=group["supervisor_pid"])
        self.until("notice it", lambda group: not former & {member["birth"] for member in group["members"]})

    def kill_all(self) -> None:
        """The supervisor, and by that, at the same moment, everything else."""
        self.await_whole()
        self._process.kill()
        self._process.wait()
        self._output.close()
        until("be gone", lambda: not [pid for pid in self._pids if is_running(pid, self.group)])

    def end(self) -> None:
        """It ends when it is told to, and leaves no process behind."""
        self._process.terminate()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise AssertionError(f"the run does not end:\n{self.output()}") from None
        finally:
            self._output.close()
        left = [pid for pid in self._pids if is_running(pid, self.group)]
        assert not left, f"left behind: {left}"

    def output(self) -> str:
        self._output.flush()
        said = Path(self._output.name).read_text(errors="replace").splitlines()
        for log in sorted(self.directory.path.glob("*.log")):
            said += ["", str(log), *log.read_text(errors="replace").splitlines()[-30:]]
        return "\n".join(said)


def is_running(pid: int, group: str) -> bool:
    """Whether the process is one of this group's, and not a new one that was given the number."""
    try:
        return f'"group": "{group}"'.encode() in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


@contextmanager
def replicated(
    home: Path,
    name: str,
    words: Sequence[str],
    *,
    config: Path | None = None,
    threads: str = "token",
    checkpoints: str = "",
    checkpoint_log_kb: int = 0,
    more: Sequence[str] = (),
) -> Iterator[ReplicatedRun]:
    run = ReplicatedRun(
        home,
        name,
        words,
        config=config,
        threads=threads,
        checkpoints=checkpoints,
        checkpoint_log_kb=checkpoint_log_kb,
        more=more,
    )
    try:
        run.await_whole()
        yield run
    finally:
        run.end()


@contextmanager
def plain(words: Sequence[str]) -> Iterator[int]:
    """The same program without LLFT; yields its port."""
    port = free_port()
    with running(command_of(words, port), port):
        yield port


@contextmanager
def running(command: Sequence[str], port: int) -> Iterator[None]:
    """A process that serves a port."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:

        def serves() -> bool:
            assert process.poll() is None, f"{command} ended with status {process.returncode}"
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0

        until("listen", serves)
        yield
    finally:
        process.kill()
        process.wait()


# -- what must hold afterwards --------------------------------------------------------------------------


def survive(run: ReplicatedRun, speak: Callable[[int], Speaker], kills: int) -> tuple[list[Entry], Reply]:
    """Kills of primaries under load. What was answered, in the server's order, and its last state."""
    clients = Clients(CLIENTS, lambda: speak(run.port))
    for _ in range(kills):
        clients.await_progress(BETWEEN_KILLS)
        run.kill_primary()
    clients.await_progress(BETWEEN_KILLS)
    entries = clients.stop()
    last = speak(run.port)
    dump = last.dump()
    last.close()
    run.await_whole()
    return entries, dump


def assert_like_unreplicated(
    entries: Sequence[Entry], dump: Reply, words: Sequence[str], connect: Callable[[int], Speaker]
) -> None:
    """A plain run that is given the requests in the same order makes the same replies and the same state."""
    with plain(words) as port:
        speakers: dict[str, Speaker] = {}
        for entry in entries:
            who = entry.request[0]
            if who not in speakers:
                speakers[who] = connect(port)
            expected = Entry(entry.request, speakers[who].add(*entry.request))
            assert entry.reply == expected.reply, entry.request
        expected_dump = next(iter(speakers.values())).dump()
        for speaker in speakers.values():
            speaker.close()
    assert without_luck(dump) == without_luck(expected_dump)


def without_luck(reply: Reply) -> Reply:
    return {name: value for name, value in reply.items() if name != "luck"}


def assert_journals_hold(*runs: ReplicatedRun) -> None:
    """No replica ever differed, and the paper's properties hold."""
    paths = [path for run in runs for path in sorted(run.directory.journal.glob("*.llj"))]
    keep_journals(paths)
    journals = read_journals(paths)
    assert len(journals) > len(runs) * REPLICAS
    diverged = [record for journal in journals for record in journal.records if isinstance(record, Diverged)]
    assert not diverged
    found = judge(journals)
    assert not found, "\n".join(map(str, found))
