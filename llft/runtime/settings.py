"""Settings of a cluster: what `llft.toml` says, and what holds without it.

Without a file everything is on the loopback interface and needs no key. The values are frozen, and go to
child processes as a JSON object with the same names as in the file; `runtime.settings_file` reads both and
says what is wrong with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from hashlib import blake2b
from typing import Any, NamedTuple

from llft.config import (
    Checkpoints,
    GroupConfig,
    Limits,
    PartitionPolicy,
    Replication,
    ThreadMode,
    Timeouts,
)
from llft.identifiers import GroupId
from llft.instant import MS

DEFAULT_PORT = 20947
LOOPBACK = "127.0.0.1"

CARRIED_SHARE = 16
"""Such a part of a datagram may be order information, if that is more than the limit asks for."""
LIVE_TIMEOUTS = Timeouts(
    heartbeat_interval_ns=10 * MS,
    primary_timeout_ns=45 * MS,
    backup_timeout_ns=150 * MS,
    retransmit_interval_ns=125 * MS,
    first_ack_delay_ns=20 * MS,
    first_ack_patience_ns=100 * MS,
    nack_interval_ns=5 * MS,
    keep_alive_interval_ns=40 * MS,
    propose_interval_ns=10 * MS,
    join_interval_ns=50 * MS,
    recovery_bound_ns=400 * MS,
    connect_bound_ns=3000 * MS,
    switch_bound_ns=200 * MS,
    lag_bound_ns=2000 * MS,
    state_update_interval_ns=100 * MS,
)
"""For interpreters that share two busy cores, where a thread may wait 20 ms for its turn. A killed process is
noticed by its certificate (D-23) and not by these, so they can afford to be patient. A primary on the same
host that lives is given twice its timeout (D-73); one on another host is replaced so soon that clients
wait less than 60 ms. The others are guesses, to be measured."""
LIVE_LIMITS = Limits(window_messages=8192, window_bytes=32 << 20, order_lag_bytes=1 << 20)
"""What was sent, and the order information, is kept until all members of the remote group, or of one's own,
have said that they have it, with their heartbeats: at fifty thousand messages a second these are a thousand
messages, or more, and with a hundred clock readings in each request hundreds of kilobytes."""


class TransportMode(Enum):
    MULTICAST = "multicast"
    UNICAST = "unicast"


class Endpoint(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class FaultInjection:
    """For tests: probabilities from 0 to 1. One seed gives different faults to different processes.

    `kernel_loss` is without a seed; what it loses no code of ours has seen (`transport.kernel_loss`), so it
    is for dialogues, which a transport that injects the other faults does without."""

    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    kernel_loss: float = 0.0
    seed: int = 1

    def __bool__(self) -> bool:
        """Whether what was heard is to be spoiled."""
        return bool(self.loss or self.duplicate or self.reorder)


@dataclass(frozen=True, slots=True)
class TransportSettings:
    mode: TransportMode = TransportMode.MULTICAST
    interface: str = LOOPBACK
    """The IPv4 address of this host that members reach one another by."""
    port: int = DEFAULT_PORT
    """Of multicasts. The sockets for one process have ports of their own."""
    key_file: str = ""
    authenticate: bool = True
    """Without a key file `llft run` makes a key for this host's groups. False, on loopback: none."""
    spin_us: int = 60
    """A primary that waits looks for datagrams at most so long before it sleeps, where that pays
    (`runtime.spinning`)."""
    fault_injection: FaultInjection = field(default_factory=FaultInjection)


@dataclass(frozen=True, slots=True)
class GroupSettings:
    name: str
    members: tuple[Endpoint, ...] = ()
    """Without multicast: where its members are. A replica takes the first free one of its host."""
    endpoints: tuple[Endpoint, ...] = ()
    """Addresses that this group serves, for the connects of other groups."""
    partition: PartitionPolicy = PartitionPolicy.PRECEDENCE
    threads: ThreadMode = ThreadMode.TOKEN
    output_commit: int = 1
    """So many backups hold the order information before output leaves the system (D-10)."""
    gateway: bool = True
    replication: Replication = Replication.SEMI_ACTIVE
    data: str = ""
    """The data directory: each replica has its own files there (`own_directory`)."""
    checkpoints: Checkpoints = Checkpoints.AUTO
    checkpoint_log_kb: int = 4096
    """A checkpoint is due when the log has grown by so much."""
    journal_mb: int = 512
    """Of the journal of one process life at most so much is kept, the newest half of it always."""

    @property
    def group_id(self) -> GroupId:
        return group_id_of(self.name)

    @property
    def obstacle(self) -> str:
        """Why a group cannot be run so; "": it can."""
        if self.data and self.checkpoints is Checkpoints.IMAGE:
            return 'an image does not carry the files of a data directory: checkpoints = "auto"'
        if self.replication is Replication.SEMI_ACTIVE:
            return ""
        if self.threads is not ThreadMode.TOKEN:
            return 'semi-passive backups need states of the program, which only threads = "token" has'
        if self.checkpoints is Checkpoints.NONE:
            return 'semi-passive backups need states of the program: checkpoints = "auto", "hooks" or "image"'
        return ""


def group_id_of(name: str) -> GroupId:
    """Stable: 31 bits of a hash of the name, and never 0, which means none."""
    digest = blake2b(name.encode(), digest_size=4, person=b"llft-group").digest()
    return int.from_bytes(digest, "big") & 0x7FFF_FFFF or 1


@dataclass(frozen=True, slots=True)
class Settings:
    transport: TransportSettings = field(default_factory=TransportSettings)
    timeouts: Timeouts = LIVE_TIMEOUTS
    limits: Limits = LIVE_LIMITS
    groups: tuple[GroupSettings, ...] = ()

    def group(self, name: str) -> GroupSettings:
        """Of a configured group, or the defaults."""
        return next((group for group in self.groups if group.name == name), GroupSettings(name))

    def endpoints(self) -> dict[str, GroupId]:
        """Which group serves which address."""
        return {str(endpoint): group.group_id for group in self.groups for endpoint in group.endpoints}

    def members(self) -> dict[GroupId, tuple[Endpoint, ...]]:
        return {group.group_id: group.members for group in self.groups}

    def with_key_file(self, path: str) -> Settings:
        return replace(self, transport=replace(self.transport, key_file=path))

    def with_group(self, name: str, **values: Any) -> Settings:
        """Other values for one group, configured or not."""
        others = tuple(group for group in self.groups if group.name != name)
        return replace(self, groups=(*others, replace(self.group(name), **values)))

    def with_updates(self, *, interval_ms: int | None, operations: int | None) -> Settings:
        """How often semi-passive backups get the state; None: as it is."""
        settings = self
        if interval_ms is not None:
            timeouts = replace(self.timeouts, state_update_interval_ns=interval_ms * MS)
            settings = replace(settings, timeouts=timeouts)
        if operations is not None:
            settings = replace(settings, limits=replace(self.limits, state_update_operations=operations))
        return settings

    @property
    def is_local(self) -> bool:
        """No member can be on another host."""
        return self.transport.interface.startswith("127.")

    def host_id(self) -> int:
        """The first part of a birth id. The interface's address is what is unique in a cluster."""
        return int.from_bytes(bytes(map(int, self.transport.interface.split("."))), "big")

    def group_config(self, name: str, *, datagram_bytes: int, durable: bool = False) -> GroupConfig:
        """For the core. `datagram_bytes` is what the transport can carry."""
        group = self.group(name)
        # Where datagrams are large a message need not wait until its many decisions are known otherwise.
        carried_bytes = max(self.limits.order_carried_bytes, datagram_bytes // CARRIED_SHARE)
        return GroupConfig(
            group_id=group.group_id,
            replication=group.replication,
            threads=group.threads,
            partition=group.partition,
            output_commit_level=group.output_commit,
            durable=durable,
            timeouts=self.timeouts,
            limits=replace(self.limits, datagram_bytes=datagram_bytes, order_carried_bytes=carried_bytes),
        )

    def to_json(self) -> dict[str, Any]:
        """The document that `from_json` reads; the one in a file has the same names."""
        document: dict[str, Any] = {
            "transport": _plain(self.transport),
            "timeouts": milliseconds_of(self.timeouts),
            "limits": _plain(self.limits),
            "groups": {group.name: _plain(group) for group in self.groups},
        }
        # The transport knows what a datagram can carry; only a file may ask for less.
        del document["limits"]["datagram_bytes"]
        for group in document["groups"].values():
            del group["name"]
        return document

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Settings:
        from llft.runtime import settings_file

        return settings_file.from_document(document)


def milliseconds_of(timeouts: Timeouts) -> dict[str, float]:
    """As in the file: times in milliseconds, counts as they are."""
    found: dict[str, float] = {}
    for each in fields(timeouts):
        value = getattr(timeouts, each.name)
        found[milliseconds_name(each.name)] = value / MS if each.name.endswith("_ns") else value
    return found


def milliseconds_name(name: str) -> str:
    return name.removesuffix("_ns") + "_ms" if name.endswith("_ns") else name


def _plain(value: Any) -> dict[str, Any]:
    """A frozen dataclass as JSON has it."""

    def convert(inner: Any) -> Any:
        if isinstance(inner, Enum):
            return inner.value
        if isinstance(inner, FaultInjection):
            return _plain(inner)
        if isinstance(inner, tuple):
            return [str(each) for each in inner]
        return inner

    return {each.name: convert(getattr(value, each.name)) for each in fields(value)}
