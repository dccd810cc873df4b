"""Hosts that are network namespaces on one bridge: a cluster whose links can be cut, without leaving this
machine. Needs root. Names carry our pid, and everything is removed however the test ends."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from llft.cli import demo_server
from llft.cli.children import end
from llft.cli.survey import Group, survey
from llft.errors import PeerError
from llft.runtime.supervisor.run_directory import RunDirectory
from llft.runtime.supervisor.slot import ending_with
from tests.live.world import PATIENCE_S

SERVICE_PORT = 7090
GROUP = "bank"


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=20)


def can_make_hosts() -> bool:
    """Whether namespaces can be had here at all."""
    name = f"llft{os.getpid()}probe"
    try:
        ip("netns", "add", name)
        ip("netns", "delete", name)
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


LANES = ("compiled", "reference")


class Host:
    """`address` is its only one beside loopback; `home` is its LLFT_HOME. The second one runs the reference
    lane: groups may mix lanes."""

    def __init__(self, number: int, home: Path, switch: str) -> None:
        self.number = number
        self.address = f"10.77.0.{number}"
        self.namespace = f"llft{os.getpid()}h{number}"
        self.home = home / f"h{number}"
        self.directory = RunDirectory(self.home / GROUP)
        self.output = self.home / "output"
        self._switch = switch
        self._port = f"port{number}"
        self._process: subprocess.Popen[bytes] | None = None

    def plug(self) -> None:
        self.home.mkdir()
        ip("netns", "add", self.namespace)
        ip("-n", self._switch, "link", "add", self._port, "type", "veth",
           "peer", "name", "eth0", "netns", self.namespace)  # fmt: skip
        ip("-n", self._switch, "link", "set", self._port, "up")
        ip("-n", self.namespace, "addr", "add", f"{self.address}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            ip("-n", self.namespace, "link", "set", device, "up")
        self.heal()

    def cut(self) -> None:
        """The cable stays in, and nothing passes: nobody is told."""
        ip("-n", self._switch, "link", "set", self._port, "nomaster")

    def heal(self) -> None:
        ip("-n", self._switch, "link", "set", self._port, "master", "bridge0")

    def popen(
        self, command: Sequence[str], number: int = signal.SIGTERM, **pipes: Any
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["ip", "netns", "exec", self.namespace, sys.executable, *command],
            env={**os.environ, "LLFT_HOME": str(self.home), "LLFT_LANE": LANES[self.number == 2]},
            start_new_session=True,
            preexec_fn=ending_with(os.getpid(), number),
            **pipes,
        )

    def run(self, settings: str, *options: str) -> None:
        """`llft run` with one replica."""
        config = self.home / "llft.toml"
        config.write_text(settings)
        command = ["-m", "llft.cli.main", "run", "--plain", "--group", GROUP, "--config", str(config)]
        command += ["--replicas", "1", "--first", str(self.number), *options]
        command += ["--", sys.executable, demo_server.__file__, "--port", str(SERVICE_PORT)]
        with open(self.output, "wb") as output:
            self._process = self.popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    def status(self) -> dict[str, Any]:
        """What its replica says of itself; {}: nothing."""
        try:
            group: Group = survey(self.directory, timeout_s=1.0)
        except PeerError:
            return {}
        member: dict[str, Any] = group["members"][0] if group["members"] else {}
        return {**member, "listening": group["listening"]} if member.get("answers") else {}

    def end(self) -> None:
        if self._process is not None:
            end(self._process)
        if self.output.exists():
            print(f"-- host {self.number}:", self.output.read_text(errors="replace"), sep="\n")

    def unplug(self) -> None:
        subprocess.run(
            ["ip", "netns", "delete", self.namespace], check=False, capture_output=True, timeout=20
        )


@contextmanager
def cluster(home: Path, count: int) -> Iterator[list[Host]]:
    switch = f"llft{os.getpid()}switch"
    hosts = [Host(number, home, switch) for number in range(1, count + 1)]
    try:
        ip("netns", "add", switch)
        ip("-n", switch, "link", "add", "bridge0", "type", "bridge", "mcast_snooping", "0")
        ip("-n", switch, "link", "set", "bridge0", "up")
        for host in hosts:
            host.plug()
        yield hosts
    finally:
        for host in hosts:
            host.end()
        for host in hosts:
            host.unplug()
        subprocess.run(["ip", "netns", "delete", switch], check=False, capture_output=True, timeout=20)


class Clients:
    """`llft.cli.load` on a host: clients of the gateway there."""

    def __init__(self, host: Host, count: int) -> None:
        command = ["-m", "llft.cli.load", "--port", str(SERVICE_PORT), "--clients", str(count)]
        command += ["--pace-ms", "10"]
        self._process = host.popen(command, signal.SIGKILL, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._hear()

    def __enter__(self) -> Clients:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        end(self._process)

    def order(self, what: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": what}).encode() + b"\n")
        self._process.stdin.flush()
        return self._hear()

    def _hear(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], PATIENCE_S)
        line = self._process.stdout.readline() if ready else b""
        assert line, "the clients are silent"
        answer: dict[str, Any] = json.loads(line)
        return answer
