"""Settings: defaults that need nothing, and errors that name file, line and remedy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llft.config import PartitionPolicy, Replication, ThreadMode, Timeouts
from llft.errors import MisuseError
from llft.instant import MS
from llft.runtime.settings import (
    LIVE_TIMEOUTS,
    Endpoint,
    GroupSettings,
    Settings,
    TransportMode,
    group_id_of,
)
from llft.runtime.settings_file import load_settings

FULL = """\
[transport]
mode = "unicast"
interface = "10.0.0.5"
port = 30000
key_file = "cluster.keys"
fault_injection = { loss = 0.25, seed = 9 }

[timeouts]
heartbeat_interval_ms = 2.5
max_count = 9

[limits]
window_messages = 32

[groups.bank]
members = ["10.0.0.5:21001", "other:21001"]
endpoints = ["bank:8080"]
partition = "majority"
threads = "ordered"
output_commit = 0
gateway = false

[groups.shop]
members = ["10.0.0.5:22001"]
"""


def load(tmp_path: Path, text: str) -> Settings:
    path = tmp_path / "llft.toml"
    path.write_text(text)
    return load_settings(str(path))


def test_without_a_file_all_is_on_loopback() -> None:
    settings = Settings()
    assert settings == Settings.from_json({})
    assert settings.transport.mode is TransportMode.MULTICAST
    assert settings.transport.interface == "127.0.0.1"
    assert settings.timeouts == LIVE_TIMEOUTS


def test_a_file_is_read(tmp_path: Path) -> None:
    settings = load(tmp_path, FULL)
    assert settings.transport.mode is TransportMode.UNICAST
    assert settings.transport.key_file == str(tmp_path / "cluster.keys")
    assert settings.transport.fault_injection.loss == 0.25
    assert settings.timeouts.heartbeat_interval_ns == 5 * MS // 2
    assert settings.timeouts.max_count == 9
    assert settings.timeouts.primary_timeout_ns == LIVE_TIMEOUTS.primary_timeout_ns
    assert settings.limits.window_messages == 32
    bank = settings.group("bank")
    assert bank.members == (Endpoint("10.0.0.5", 21001), Endpoint("other", 21001))
    assert (bank.partition, bank.threads) == (PartitionPolicy.MAJORITY, ThreadMode.ORDERED)
    assert settings.endpoints() == {"bank:8080": group_id_of("bank")}
    assert settings.host_id() == 0x0A00_0005


def test_it_survives_the_environment(tmp_path: Path) -> None:
    settings = load(tmp_path, FULL)
    assert Settings.from_json(json.loads(json.dumps(settings.to_json()))) == settings


@given(st.integers(1000, 10**12))
def test_times_survive_to_the_nanosecond(time_ns: int) -> None:
    settings = Settings(timeouts=Timeouts(idle_connection_bound_ns=time_ns))
    again = Settings.from_json(json.loads(json.dumps(settings.to_json())))
    assert again.timeouts.idle_connection_bound_ns == time_ns


def test_the_core_is_configured(tmp_path: Path) -> None:
    config = load(tmp_path, FULL).group_config("bank", datagram_bytes=1352)
    assert config.group_id == group_id_of("bank")
    assert config.limits.datagram_bytes == 1352
    assert config.limits.window_messages == 32
    assert config.output_commit_level == 0
    assert config.threads is ThreadMode.ORDERED
    assert Settings().group("unheard of") == GroupSettings("unheard of")


def test_group_ids_are_stable() -> None:
    """Another hash would be another group: hosts of different versions would not meet."""
    assert group_id_of("bank") == 0x547C_50E1
    assert 0 < group_id_of("") < 1 << 31


BAD = [
    ('[transport]\nmode = "carrier pigeon"', ":2: transport.mode: one of"),
    ("[transport]\n\n# x\nport = 0", ":4: transport.port: a whole number from 1 to 65535, not 0"),
    ("[transport]\nport = true", ":2: transport.port:"),
    ('[transport]\ninterface = "eth0"', ":2: transport.interface: an IPv4 address"),
    ('[transport]\ninterface = "10.0.0.5"', ":2: transport.interface: without a key only loopback"),
    ("[transport]\nprot = 1", ":2: transport.prot: unknown; known are mode"),
    (
        "[transport]\nfault_injection = { loss = 2 }",
        ":2: transport.fault_injection: a number from 0.0 to 1.0",
    ),
    ("[transport]\nfault_injection = { lost = 1 }", ":2: transport.fault_injection: a table of loss"),
    ("[timeouts]\nheartbeat_interval_ms = 0", ":2: timeouts.heartbeat_interval_ms: a number from 0.001"),
    ("[timeouts]\nheartbeat_interval_ns = 5", ":2: timeouts.heartbeat_interval_ns: unknown"),
    ("[timeouts]\nprimary_timeout_ms = 29.9", ":2: timeouts.primary_timeout_ms: late heartbeats"),
    ("[timeouts]\nprimary_timeout_ms = 15", ":2: timeouts.primary_timeout_ms: late heartbeats"),
    ("[timeouts]\nretransmit_interval_ms = 50", ":2: timeouts.retransmit_interval_ms: messages would"),
    ("[timeouts]\nprimary_timeout_ms = 4000", ":1: timeouts.connect_bound_ms: a connect would be refused"),
    ("[timeouts]\nheartbeat_interval_ms = 50", ":1: timeouts.primary_timeout_ms: late heartbeats"),
    ("[limits]\ndatagram_bytes = 9000", ":2: limits.datagram_bytes: unknown"),
    ("[limit]\nwindow_messages = 9", ":1: limit: unknown; the tables are transport"),
    ('[groups.a]\nmembers = "x:1"', ":2: groups.a.members: a list as"),
    ('[groups.a]\nmembers = ["x"]', ':2: groups.a.members: "host:port" for'),
    ('[groups.a]\nmembers = ["x:70000"]', ':2: groups.a.members: "host:port" for'),
    ('[groups.a]\nmembers = ["10.0.0.5:1"]', ":2: groups.a.members: 10.0.0.5:1 cannot be reached"),
    ('[transport]\nmode = "unicast"\n[groups.a]\n', ":3: groups.a.members: with transport.mode"),
    ("[groups]\na = 3", ": groups.a: this is a table"),
    (
        '[groups.a]\nendpoints = ["x:1"]\n[groups.b]\nendpoints = ["x:1"]',
        ":4: groups.b.endpoints: x:1 is served by a",
    ),
    ('[groups."a.b"]\ngateway = 1', ":2: groups.a.b.gateway: true or false"),
    ("groups = 1", ": groups: write a table"),
    ('[groups.a]\ndata = "shop"', ":2: groups.a.data: an absolute path"),
    ('[groups.a]\nreplication = "passive"', ":2: groups.a.replication: one of"),
    (
        '[groups.a]\nreplication = "semi-passive"\nthreads = "ordered"',
        ":1: groups.a: semi-passive backups need states of the program",
    ),
    ('[groups.a]\ndata = "/x"\ncheckpoints = "image"', ":1: groups.a: an image does not carry"),
]


@pytest.mark.parametrize(("text", "expected"), BAD)
def test_a_mistake_is_told_with_its_line(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(MisuseError) as caught:
        load(tmp_path, text)
    assert "llft.toml" + expected in caught.value.remedy.replace(str(tmp_path) + "/", "")


def test_what_is_no_toml_is_told_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(MisuseError, match=r"settings_malformed.*line 2"):
        load(tmp_path, "[transport]\nmode = unicast\n")


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(MisuseError, match="settings_unreadable"):
        load_settings(str(tmp_path / "none.toml"))


@pytest.mark.parametrize(
    ("text", "told"),
    [("a = " + "[" * 50_000, "too many brackets"), ("#" * (1024 * 1024 + 1), "longer than 1048576 bytes")],
)
def test_a_monstrous_file_is_refused(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(MisuseError, match=told):
        load(tmp_path, text)


def test_a_group_may_be_semi_passive(tmp_path: Path) -> None:
    settings = load(tmp_path, '[groups.a]\nreplication = "semi-passive"\ndata = "/srv/shop"')
    settings = Settings.from_json(settings.with_updates(interval_ms=20, operations=7).to_json())
    config = settings.group_config("a", datagram_bytes=1352)
    assert config.replication is Replication.SEMI_PASSIVE
    assert config.timeouts.state_update_interval_ns == 20 * MS
    assert config.limits.state_update_operations == 7
    assert settings.group("a").data == "/srv/shop"
    assert settings.group_config("b", datagram_bytes=1352).replication is Replication.SEMI_ACTIVE
