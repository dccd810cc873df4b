"""A trial by fire: a server as a process group, clients, and a primary that is killed again and again.

`llft demo` tells it, `llft bench failover` measures it. The group is a real `llft run`, the clients are a
process of their own (`llft.cli.load`). A primary is killed only when all replicas are members with state, and
the next one only when the killed one has rejoined: one fault at a time, as the paper's model has it.

What is measured: *detection*, from the signal to the suspicion; *view_change* and *synchrony*, as the new
primary says; *first_reply*, from the new primary's installation to the first reply that a client has; and
the gap, the longest that any client waited for a reply to a request that was under way at the kill or sent
within 100 ms after it.
"""

from __future__ import annotations

import json
import random
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from llft.cli.children import end, ending_with_us
from llft.cli.free_port import free_port
from llft.cli.group_run import POLL_INTERVAL_S, GroupRun, TrialFailure
from llft.cli.kill import send_signal
from llft.cli.silence import Silence
from llft.cli.stolen import stolen_ms
from llft.cli.survey import Group, Member, primary_of, require_primary
from llft.config import Replication
from llft.errors import MisuseError
from llft.runtime.settings import group_id_of

READY_PATIENCE_S = 30.0
FAILOVER_PATIENCE_S = 15.0
REJOIN_PATIENCE_S = 30.0
LOAD_PATIENCE_S = 30.0
ENDURED_S = 20.0
CALM_S = (0.1, 0.4)
"""Load without faults before each kill, at random, so that kills meet requests in all their stages."""

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class TrialOptions:
    kills: int = 5
    replicas: int = 3
    clients: int = 8
    pace_ms: float = 50.0
    steady: bool = False
    """Whether clients keep to the pace however long replies take; else it is from a reply to a request."""
    pipeline: int = 1
    signal: int = signal.SIGKILL
    silent: bool = False
    """No signal: the primary is held, so that no kernel tells of it (`silence`)."""
    seconds: float | None = None
    config: Path | None = None
    replication: str = Replication.SEMI_ACTIVE.value  # as `group_settings` have it
    group_settings: str = ""  # as in `llft.toml`
    server_words: tuple[str, ...] = ()
    """More arguments for the server."""
    history: bool = True  # the clients keep a journal of their calls, without a bound


@dataclass(slots=True)
class Failover:
    """One kill, and what came of it."""

    kill_ns: int
    victim: str
    gap_ms: float = 0.0
    stolen_ms: float = 0.0
    """Of the machine, while clients waited."""
    rejoin_ms: float = 0.0
    stages_ms: dict[str, float] = field(default_factory=dict)


class Trial:
    """A context: within it the group and its clients run, after it nothing does."""

    def __init__(self, options: TrialOptions, tell: Tell) -> None:
        self.options = options
        self._tell = tell
        self.failovers: list[Failover] = []
        self.stopped_ns = 0
        self._port = free_port()
        server = [sys.executable, str(Path(__file__).with_name("demo_server.py")), "--port", str(self._port)]
        self._group = GroupRun(
            f"trial-{time.time_ns() // 10**6 % 10**9}",
            [*server, *options.server_words],
            replicas=options.replicas,
            config=options.config,
            settings=options.group_settings,
        )
        self.directory = self._group.directory
        self._load: subprocess.Popen[bytes] | None = None
        self._silence: Silence | None = None

    def __enter__(self) -> Trial:
        try:
            self._start_group()
            self._start_load()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._load is not None:
            end(self._load)
        if self._silence is not None:
            self._silence.end()
        self._group.end()

    # -- processes -----------------------------------------------------------------------------------

    def _start_group(self) -> None:
        self._group.start()
        self.until(
            "start", READY_PATIENCE_S, lambda group: self._is_whole(group) and bool(group["listening"])
        )
        self._tell(
            f"{self.options.replicas} replicas of an unmodified server, listening on port {self._port}"
        )

    def _start_load(self) -> None:
        command = [sys.executable, "-m", "llft.cli.load", "--port", str(self._port)]
        command += ["--clients", str(self.options.clients), "--pace-ms", str(self.options.pace_ms)]
        command += ["--pipeline", str(self.options.pipeline)]
        command += ["--steady"] if self.options.steady else []
        if self.options.history:
            command += ["--history", str(self.directory.journal / "clients.llj")]
        command += ["--group-id", str(group_id_of(self.directory.group))]
        self._load = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=ending_with_us(signal.SIGKILL),
        )
        self._hear()
        self._tell(f"{self.options.clients} clients are connected, and stay so")

    def forget(self) -> None:
        """Remove what the run left; for a trial about which there is nothing to find out."""
        self._group.forget()

    # -- the trial -----------------------------------------------------------------------------------

    def kill_primary(self) -> Failover:
        """One kill, the fail-over, and the rejoin."""
        time.sleep(random.uniform(*CALM_S))
        group = self.until("keep-its-members", REJOIN_PATIENCE_S, self._is_whole)
        victim = require_primary(group)
        stolen_before_ms = stolen_ms()
        failover = Failover(time.monotonic_ns(), victim["birth"])
        self.failovers.append(failover)
        go_on = self._strike(victim, group)
        self._await_replies(failover, None)
        failover.stolen_ms = stolen_ms() - stolen_before_ms
        primary = self._await_primary(victim)
        self._measure(failover, primary)
        waited = f"clients waited {failover.gap_ms:.1f} ms"
        self._tell(f"{primary['name']} is the primary, view {primary['view']}; {waited}")
        go_on()
        self.until("rejoin", REJOIN_PATIENCE_S, self._is_whole)
        failover.rejoin_ms = (time.monotonic_ns() - failover.kill_ns) / 1e6
        self._tell(f"{victim['name']} has rejoined, {failover.rejoin_ms / 1000:.1f} s after it was hit")
        return failover

    def _strike(self, victim: Member, group: Group) -> Callable[[], None]:
        """What lets it go on later, if it can."""
        pid, supervisor = victim["pid"], group["supervisor_pid"]
        who = f"{victim['name']}, the primary (pid {pid})"
        number = 0 if self.options.silent else self.options.signal
        try:
            send_signal(pid, number, parent=supervisor)
        except MisuseError:
            raise TrialFailure("primary-died-by-itself", "see its log", who=victim["name"]) from None
        if self.options.silent:
            self._silence = Silence(pid)
            self._silence.begin()
            self._tell(f"silence at {who}")
            return self._silence.end
        self._tell(f"{signal.Signals(number).name} to {who}")
        if number == signal.SIGSTOP:
            return lambda: send_signal(pid, signal.SIGCONT, parent=supervisor)
        return lambda: None

    def endure(self) -> None:
        """Load for as long as the options say, and a word now and then."""
        until_s = time.monotonic() + (self.options.seconds or 0.0)
        while (left_s := until_s - time.monotonic()) > 0:
            time.sleep(min(left_s, ENDURED_S))
            self.until("keep-its-members", REJOIN_PATIENCE_S, self._is_whole)
            self._tell(f"{self.count()['replies']} replies so far")

    def waits_ms(self, from_ns: int, to_ns: int) -> list[float]:
        """Of the requests that were answered in that time."""
        waits: list[float] = self._order({"do": "waits", "from_ns": from_ns, "to_ns": to_ns})["ms"]
        return waits

    def count(self) -> dict[str, Any]:
        """What the clients found so far."""
        return self._order({"do": "count"})

    def stop(self) -> dict[str, Any]:
        """No more load; what the clients found."""
        self.stopped_ns = time.monotonic_ns()
        return self._order({"do": "stop"})

    def _is_whole(self, group: Group) -> bool:
        return self._group.is_whole(group)

    def _await_primary(self, victim: Member) -> Member:
        def replaced(group: Group) -> bool:
            primary = primary_of(group)
            return primary is not None and primary["birth"] != victim["birth"]

        return require_primary(self.until("fail-over", FAILOVER_PATIENCE_S, replaced))

    def _await_replies(self, failover: Failover, view_ns: int | None) -> dict[str, Any]:
        """Until every client has its reply; nothing else is asked meanwhile, so that nothing disturbs."""
        deadline_s = time.monotonic() + FAILOVER_PATIENCE_S
        while time.monotonic() < deadline_s:
            answer = self._order({"do": "gap", "kill_ns": failover.kill_ns, "view_ns": view_ns})
            if "pending" not in answer:
                return answer
            time.sleep(POLL_INTERVAL_S)
        raise TrialFailure("no-reply-after-kill", "see the journals", seconds=FAILOVER_PATIENCE_S)

    def _measure(self, failover: Failover, primary: Member) -> None:
        views = [view for view in primary["views"] or [] if view["at_ns"] > failover.kill_ns]
        view = views[0] if views else {}
        answer = self._await_replies(failover, view.get("at_ns"))
        failover.gap_ms = answer["gap_ms"]
        failover.stages_ms.update(view.get("stages_ms", {}))
        if "suspected_at_ns" in view:
            failover.stages_ms["detection"] = (view["suspected_at_ns"] - failover.kill_ns) / 1e6
        if answer.get("first_reply_ms") is not None:
            failover.stages_ms["first_reply"] = answer["first_reply_ms"]

    # -- waiting and asking --------------------------------------------------------------------------

    def until(self, what: str, patience_s: float, holds: Callable[[Group], bool]) -> Group:
        """The group when it is so. TrialFailure: it does not become so."""
        return self._group.until(what, patience_s, holds)

    def output_tail(self) -> str:
        """The end of what `llft run` said."""
        return self._group.output_tail()

    def _order(self, order: Mapping[str, Any]) -> dict[str, Any]:
        assert self._load is not None
        assert self._load.stdin is not None
        try:
            self._load.stdin.write(json.dumps(order).encode() + b"\n")
            self._load.stdin.flush()
        except BrokenPipeError:
            raise TrialFailure("load-ended", "see its error above") from None
        return self._hear()

    def _hear(self) -> dict[str, Any]:
        assert self._load is not None
        assert self._load.stdout is not None
        ready, _, _ = select.select([self._load.stdout], [], [], LOAD_PATIENCE_S)
        line = self._load.stdout.readline() if ready else b""
        if not line:
            raise TrialFailure("load-silent", "see its error above", seconds=LOAD_PATIENCE_S)
        answer: dict[str, Any] = json.loads(line)
        return answer
