"""Others on the network: garbage, forgeries, recordings played back, floods on every port. Nothing changes
but counters."""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from llft.cli.trial import Trial
from llft.identifiers import BirthId
from llft.runtime.control_client import ask
from llft.runtime.settings import group_id_of
from llft.runtime.settings_file import load_settings
from llft.runtime.transport.envelope import ENVELOPE_BYTES, HEADER_BYTES, MAC_BYTES, Channel, Sealer
from llft.runtime.transport.keys import KeyRing
from llft.runtime.transport.multicast import multicast_ip
from llft.runtime.transport.senders import IDENTITY
from tests.live.evidence import assert_journals_hold
from tests.live.world import assert_nothing_went_wrong, running, short_directory, until, write_settings

RECORDED = 1500
FLOOD = 4000
DROPPED = ("dropped_malformed", "dropped_wrong_key", "dropped_replayed")
SEED = 20

Address = tuple[str, int]


class Intruder:
    """On the same host, without the key: it hears the group's multicasts, and sends whatever it likes."""

    def __init__(self, group: str, settings: Path) -> None:
        self.group_id = group_id_of(group)
        self.address: Address = (multicast_ip(self.group_id), load_settings(str(settings)).transport.port)
        self.recorded: list[bytes] = []
        self.processes: dict[Address, int] = {}
        """Where single processes are, as their datagrams show, and their service ports."""
        self._random = random.Random(SEED)
        self._hearing = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._hearing.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._hearing.bind(self.address)
        loopback = socket.inet_aton("127.0.0.1")
        membership = socket.inet_aton(self.address[0]) + loopback
        self._hearing.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
        self._hearing.settimeout(20)
        self._sending = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._sending.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, loopback)

    def close(self) -> None:
        self._hearing.close()
        self._sending.close()

    def record(self, count: int) -> None:
        for _ in range(count):
            data, sender = self._hearing.recvfrom(65536)
            self.recorded.append(data)
            self.processes[sender] = IDENTITY.unpack_from(data, 2)[-1]

    def _send(self, data: bytes) -> None:
        for address in (self.address, *self.processes):
            self._sending.sendto(data, address)

    def play_back(self) -> None:
        """Everything, backwards, twice."""
        for data in [*reversed(self.recorded), *self.recorded]:
            self._send(data)

    def send_garbage(self, count: int) -> None:
        for _ in range(count):
            self._send(self._random.randbytes(self._random.choice((0, 1, 31, ENVELOPE_BYTES, 400))))

    def send_damaged(self) -> None:
        """Recorded ones, with one bit turned or the end cut off."""
        for data in self.recorded:
            damaged = bytearray(data)
            damaged[self._random.randrange(len(damaged))] ^= 1 << self._random.randrange(8)
            self._send(bytes(damaged))
            self._send(data[: self._random.randrange(len(data))])

    def send_forgeries(self) -> None:
        """What was heard, in envelopes of a stranger that are right but for the key."""
        stranger = BirthId(1, 2, 3)
        for number in (1, 2):
            sealer = Sealer(KeyRing({number: os.urandom(32)}), self.group_id, stranger, 9)
            for data in self.recorded[:400]:
                self._send(sealer.seal(data[HEADER_BYTES:-MAC_BYTES], Channel.TO_GROUP))

    @contextmanager
    def besieging(self, count: int) -> Iterator[None]:
        """Connections to the service ports that say nothing, or garbage."""
        with ExitStack() as open_connections:
            for port in {port for port in self.processes.values() if port}:
                for index in range(count):
                    try:
                        connection = socket.create_connection(("127.0.0.1", port), timeout=20)
                    except ConnectionRefusedError:
                        break  # that process was killed
                    open_connections.callback(connection.close)
                    connection.setblocking(False)
                    try:
                        connection.send(self._random.randbytes(200 * (index % 3)))
                    except (BlockingIOError, ConnectionError):
                        continue  # it was thrown out at once
            yield


def transport_counts(trial: Trial) -> dict[str, dict[str, int]]:
    """Of each replica, by its birth."""
    answers = [ask(trial.directory.socket(f"replica-{number}"), {"do": "status"}) for number in (1, 2, 3)]
    return {answer["birth"]: answer["transport"] for answer in answers}


def views(trial: Trial) -> set[str]:
    answers = [ask(trial.directory.socket(f"replica-{number}"), {"do": "status"}) for number in (1, 2, 3)]
    return {answer["view"] for answer in answers}


def attack(intruder: Intruder) -> None:
    with intruder.besieging(40):
        intruder.play_back()
        intruder.send_garbage(FLOOD)
        intruder.send_damaged()
        intruder.send_forgeries()


def assert_attack_fails(trial: Trial, intruder: Intruder) -> None:
    before, view = transport_counts(trial), views(trial)
    replies = trial.count()["replies"]
    attack(intruder)
    until("requests go on", lambda: bool(trial.count()["replies"] > replies + 50))
    after = transport_counts(trial)
    assert after.keys() == before.keys(), "the same processes, in the same lives"
    assert views(trial) == view
    for birth, counts in after.items():
        grown = {name: counts[name] - before[birth][name] for name in DROPPED}
        assert all(grown.values()), grown


def test_strangers_change_nothing_but_counters(monkeypatch: pytest.MonkeyPatch) -> None:
    with short_directory() as home, ExitStack() as stack:
        key_file = home / "keys"
        key_file.write_text(f"1:{os.urandom(32).hex()}\n")
        key_file.chmod(0o600)
        settings = write_settings(home, f'key_file = "{key_file}"')
        with running(monkeypatch, home, settings) as trial:
            intruder = Intruder(trial.directory.group, settings)
            stack.callback(intruder.close)
            intruder.record(RECORDED)
            assert_attack_fails(trial, intruder)
            trial.kill_primary()  # whoever joins now has never heard those who were recorded
            intruder.record(RECORDED // 5)
            assert_attack_fails(trial, intruder)
            assert_nothing_went_wrong(trial.stop())
        assert_journals_hold(trial.directory.path)
