"""A gateway process: transport, journal, control socket and gateway, put together from a specification.

The specification is a JSON object in the environment (LLFT_SPEC, written by the supervisor; docs/RUNTIME.md).
Every life of a gateway is a new group with a random group id, published in `gateway.id` for the groups that
connect outwards: the virtual connections of a former life died with it, and nobody is to take them for new
ones.
"""

from __future__ import annotations

import os
import resource
import select
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from llft.errors import MisuseError
from llft.identifiers import BirthId
from llft.instant import MS
from llft.journal.writer import JournalWriter
from llft.runtime.control_server import ControlServer
from llft.runtime.gateway.gateway import Gateway
from llft.runtime.native.lifeline import DeathWatch
from llft.runtime.native.spool import open_spool
from llft.runtime.settings import Settings
from llft.runtime.transport import open_transport

FLUSH_INTERVAL_NS: Final = 100 * MS
PUBLISH_INTERVAL_NS: Final = 5_000 * MS
HURRY_NS: Final = 50 * MS

_RANDOM_GROUP: Final = 0x8000_0000
"""Named groups have 31 bits (`settings.group_id_of`), so the ids of gateways are none of theirs."""


class Randomness:
    def randbytes(self, n: int, /) -> bytes:
        return os.urandom(n)


class GatewayProcess:
    def __init__(self, specification: dict[str, Any]) -> None:
        self._specification = specification
        self._started_ns = time.monotonic_ns()
        self._directory = Path(specification["run_directory"])
        self._name = f"gateway-{specification['gateway']}"
        self.stopping = ""
        """Why it is to end, once it is."""
        settings = Settings.from_json(specification["settings"])
        self.birth_id = BirthId(settings.host_id(), os.getpid(), time.time_ns())
        self.group_id = _RANDOM_GROUP | int.from_bytes(os.urandom(4), "big")
        self.transport = open_transport(settings, self.group_id, self.birth_id)
        spool, self._without_spool = open_spool()
        self._journal = JournalWriter(
            Path(specification["journal"]) / f"{self._name}-{self.birth_id.start_ns}.llj",
            sink=spool,
            limit_bytes=settings.group(specification["group"]).journal_mb << 20,
        )
        self.gateway = Gateway(
            self.group_id,
            self.birth_id,
            server_group_id=specification["group_id"],
            carrier=self.transport,
            random=Randomness(),
            timeouts=settings.timeouts,
            limits=replace(settings.limits, datagram_bytes=self.transport.payload_limit),
            write=self._journal.write,
            write_batch=self._journal.write_batch,
            write_frame=self._journal.write_frame,
            log=self.say,
        )
        self._deaths = DeathWatch(str(self._directory), self.birth_id.host_id)
        self._control = ControlServer(
            str(self._directory / f"{self._name}.sock"),
            {"status": self._status, "listen": self._listen, "unlisten": self._unlisten, "stop": self._stop},
        )

    def run(self) -> None:
        """Until it is told to stop, or its group is over."""
        for warning in (*self.transport.warnings, self._without_spool):
            if warning:
                self.say(warning)
        _raise_descriptor_limit(self.say)
        gateway = self.gateway
        self._deaths.listen()
        gateway.loop.register(self._deaths.fileno(), select.EPOLLIN, self._on_death)
        self._publish()
        self._flush()
        self.say(f"is group {self.group_id}, before group {self._specification['group']}")
        try:
            while not self.stopping and not gateway.shell.over:
                gateway.turn()
            self.say(f"ends: {self.stopping or gateway.shell.over}")
        finally:
            self._close()

    def stop(self, reason: str) -> None:
        """May be called by a signal's handler: the core's heartbeats end every wait soon."""
        self.stopping = reason

    def say(self, text: str) -> None:
        """A line for a person, in the gateway's log."""
        number = self._specification["gateway"]
        with suppress(OSError):  # a full disk: clients are worth more than a log
            os.write(sys.stderr.fileno(), f"llft {time.time():.3f} gateway {number}: {text}\n".encode())

    def _close(self) -> None:
        self._withdraw()
        self.gateway.close()
        self._control.close()
        self.transport.close()
        try:
            self._journal.close()
        except OSError as error:
            self.say(f"the journal lost its end: {error}")

    def _flush(self) -> None:
        self._journal.flush()
        self._deaths.watch_all()
        self._serve_control(0)  # who does not take an answer, or could not be accepted, is tried again
        self.gateway.loop.alarm(FLUSH_INTERVAL_NS, self._flush)

    def _on_death(self, mask: int) -> None:
        """Of a replica: this process has come before all others by that (`lifeline.c`), for a while."""
        self._deaths.take_dead()
        self.gateway.loop.alarm(HURRY_NS, self._deaths.rest)

    # -- gateway.id --------------------------------------------------------------------------

    def _publish(self) -> None:
        """Atomically: whoever reads it finds a whole number. On a full disk later: clients need it not."""
        fresh = self._directory / f"{self._name}.id"
        try:
            fresh.write_text(f"{self.group_id}\n", encoding="ascii")
            fresh.replace(self._directory / "gateway.id")
        except OSError as error:
            self.say(f"gateway.id: {error}; until it is written nobody connects to the outside")
            self.gateway.loop.alarm(PUBLISH_INTERVAL_NS, self._publish)

    def _withdraw(self) -> None:
        """Unless another gateway has taken over."""
        published = self._directory / "gateway.id"
        try:
            if published.read_text(encoding="ascii") == f"{self.group_id}\n":
                published.unlink()
        except OSError as error:
            self.say(f"gateway.id: {error.strerror}")

    # -- control -----------------------------------------------------------------------------

    def _serve_control(self, mask: int) -> None:
        self._control.work()
        self.gateway.loop.watch(self._control.filenos(), self._serve_control)

    def _status(self, question: dict[str, Any]) -> dict[str, Any]:
        return {
            "group": self._specification["group"],
            "gateway": self._specification["gateway"],
            "pid": self.birth_id.pid,
            "birth": str(self.birth_id),
            "uptime_s": (time.monotonic_ns() - self._started_ns) / 1e9,
            **self.gateway.status(),
            "transport": self.transport.statistics(),
            "journal": self._journal.statistics(),
        }

    def _listen(self, question: dict[str, Any]) -> dict[str, Any]:
        return {"listening": list(self.gateway.listeners.listen(*_address(question)))}

    def _unlisten(self, question: dict[str, Any]) -> dict[str, Any]:
        self.gateway.listeners.unlisten(*_address(question))
        return {}

    def _stop(self, question: dict[str, Any]) -> dict[str, Any]:
        self.stop("asked to stop")
        return {}


def _address(question: dict[str, Any]) -> tuple[str, int]:
    host, port = question.get("host"), question.get("port")
    if not isinstance(host, str) or type(port) is not int:
        raise MisuseError("address_missing", "give a host (text) and a port (number)", host=host, port=port)
    return host, port


def _raise_descriptor_limit(say: Callable[[str], None]) -> None:
    """Every client is a descriptor."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError) as error:
        say(f"at most {soft} open files: {error}")
