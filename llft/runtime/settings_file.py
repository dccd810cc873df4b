"""Reads `llft.toml`, and says what is wrong with it: file, line, and what to write instead.

[transport]
mode = "unicast"                      # or "multicast"
interface = "10.0.0.5"                # an address of this host; without a key file only loopback
key_file = "cluster.keys"             # beside this file, or an absolute path

[timeouts]
heartbeat_interval_ms = 10

[groups.bank]
members = ["10.0.0.5:21001", "10.0.0.6:21001"]
endpoints = ["bank:8080"]             # what other groups connect to
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from llft import config
from llft.config import BACKUP_INTERVALS, PAUSE_INTERVALS, Limits, Timeouts
from llft.errors import MisuseError
from llft.instant import MS
from llft.runtime import settings_values as values
from llft.runtime.settings import (
    LIVE_LIMITS,
    LIVE_TIMEOUTS,
    Endpoint,
    GroupSettings,
    Settings,
    TransportMode,
    TransportSettings,
    milliseconds_name,
)
from llft.runtime.settings_values import Reader, is_ip

_LARGEST_FILE_BYTES = 1024 * 1024
_LONGEST_TIMEOUT_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Place:
    """Where a document came from, to point into it."""

    path: str = "settings"
    text: str = ""

    def of(self, table: str, key: str = "") -> str:
        """`file:line` of a key, or of its table; a key that is not found is where its table is."""
        current, table_line = "", 0
        for number, line in enumerate(self.text.splitlines(), 1):
            header = re.match(r"\s*\[\s*([^\]]+?)\s*\]", line)
            if header:
                current = header[1].replace('"', "").replace("'", "")
                table_line = number if current == table else table_line
            elif current == table and key and re.match(rf"""\s*["']?{re.escape(key)}["']?\s*[=.]""", line):
                return f"{self.path}:{number}"
        return f"{self.path}:{table_line}" if table_line else self.path

    def error(self, table: str, key: str, remedy: str) -> MisuseError:
        name = f"{table}.{key}" if table and key else table or key
        return MisuseError("settings_wrong", f"{self.of(table, key)}: {name}: {remedy}")


def load_settings(path: str) -> Settings:
    """The settings of a file; raises MisuseError."""
    try:
        with open(path, "rb") as file:
            content = file.read(_LARGEST_FILE_BYTES + 1)
        if len(content) > _LARGEST_FILE_BYTES:
            raise MisuseError("settings_malformed", f"{path}: longer than {_LARGEST_FILE_BYTES} bytes")
        text = content.decode("utf-8")
        document = tomllib.loads(text)
    except OSError as error:
        raise MisuseError("settings_unreadable", f"{path}: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise MisuseError("settings_malformed", f"{path}: {error}") from error
    except RecursionError as error:
        raise MisuseError("settings_malformed", f"{path}: too many brackets inside one another") from error
    settings = from_document(document, Place(path, text))
    key_file = settings.transport.key_file
    if not key_file:
        return settings
    # Child processes have other working directories.
    absolute = os.path.join(os.path.dirname(os.path.abspath(path)), key_file)
    return replace(settings, transport=replace(settings.transport, key_file=absolute))


def from_document(document: Mapping[str, Any], place: Place | None = None) -> Settings:
    place = place or Place()
    known = ("transport", "timeouts", "limits", "groups")
    for name in document:
        if name not in known:
            raise place.error(name, "", f"unknown; the tables are {', '.join(known)}")
    settings = Settings(
        transport=TransportSettings(**_read(document, "transport", _TRANSPORT, place)),
        timeouts=replace(LIVE_TIMEOUTS, **_read_timeouts(document, place)),
        limits=replace(LIVE_LIMITS, **_read(document, "limits", _LIMITS, place)),
        groups=_read_groups(document, place),
    )
    _check_transport(settings, place)
    _check_timeouts(settings.timeouts, place)
    _check_groups(settings, place)
    return settings


def _read(
    document: Mapping[str, Any], table: str, readers: Mapping[str, Reader], place: Place
) -> dict[str, Any]:
    """A table's values, each by its reader."""
    content: Any = document
    for part in table.split(".", 1):
        content = content.get(part, {})
    if not isinstance(content, Mapping):
        raise place.error(table, "", "this is a table: write [" + table + "]")
    found: dict[str, Any] = {}
    for key, value in content.items():
        reader = readers.get(key)
        if reader is None:
            raise place.error(table, key, f"unknown; known are {', '.join(readers)}")
        try:
            found[key] = reader(value)
        except ValueError as error:
            raise place.error(table, key, f"{error}, not {value!r}") from None
    return found


def _read_timeouts(document: Mapping[str, Any], place: Place) -> dict[str, int]:
    found = _read(document, "timeouts", _TIMEOUTS, place)
    names = {milliseconds_name(each.name): each.name for each in fields(Timeouts)}
    return {
        names[name]: round(value * MS) if name.endswith("_ms") else value for name, value in found.items()
    }


def _read_groups(document: Mapping[str, Any], place: Place) -> tuple[GroupSettings, ...]:
    groups = document.get("groups", {})
    if not isinstance(groups, Mapping):
        raise place.error("groups", "", "write a table for each group: [groups.NAME]")
    return tuple(GroupSettings(name, **_read(document, f"groups.{name}", _GROUP, place)) for name in groups)


# -- what several values must be together -----------------------------------------------------------


def _check_transport(settings: Settings, place: Place) -> None:
    transport = settings.transport
    loopback = transport.interface.startswith("127.")
    if not loopback and not transport.key_file:
        remedy = (
            f"without a key only loopback is allowed (127.0.0.1), and this is {transport.interface}; "
            'make a key, as echo 1:$(openssl rand -hex 32) > cluster.keys, and set key_file = "cluster.keys"'
        )
        raise place.error("transport", "interface", remedy)
    if transport.key_file and not transport.authenticate:
        raise place.error("transport", "authenticate", "there is a key_file: take one of the two out")
    for group in settings.groups:
        far = [
            member for member in group.members if is_ip(member.host) and not member.host.startswith("127.")
        ]
        if loopback and far:
            remedy = f"{far[0]} cannot be reached from {transport.interface}: set transport.interface"
            raise place.error(f"groups.{group.name}", "members", remedy)
        if transport.mode is TransportMode.UNICAST and not group.members:
            remedy = 'with transport.mode = "unicast" list them: members = ["host:port", ...]'
            raise place.error(f"groups.{group.name}", "members", remedy)


def _check_timeouts(timeouts: Timeouts, place: Place) -> None:
    floors = (("primary_timeout_ns", PAUSE_INTERVALS), ("backup_timeout_ns", 2 * BACKUP_INTERVALS))
    for name, intervals in floors:
        if getattr(timeouts, name) < intervals * timeouts.heartbeat_interval_ns:
            least = intervals * timeouts.heartbeat_interval_ns / MS
            remedy = f"late heartbeats would be taken for a failure: at least {least:g}"
            raise place.error("timeouts", milliseconds_name(name), remedy)
    if timeouts.connect_bound_ns < 2 * timeouts.primary_timeout_ns:
        least = 2 * timeouts.primary_timeout_ns / MS
        remedy = f"a connect would be refused while the primary is being replaced: at least {least:g}"
        raise place.error("timeouts", "connect_bound_ms", remedy)
    if timeouts.retransmit_interval_ns <= timeouts.first_ack_patience_ns:
        least = timeouts.first_ack_patience_ns / MS
        remedy = f"messages would be sent again for nothing: more than {least:g} (first_ack_patience_ms)"
        raise place.error("timeouts", "retransmit_interval_ms", remedy)


def _check_groups(settings: Settings, place: Place) -> None:
    names: dict[int, str] = {}
    served: dict[Endpoint, str] = {}
    for group in settings.groups:
        other = names.setdefault(group.group_id, group.name)
        if other != group.name:
            raise place.error(f"groups.{group.name}", "", f"its id is that of {other}: rename one of them")
        if group.obstacle:
            raise place.error(f"groups.{group.name}", "", group.obstacle)
        for endpoint in group.endpoints:
            if served.setdefault(endpoint, group.name) != group.name:
                remedy = f"{endpoint} is served by {served[endpoint]} already"
                raise place.error(f"groups.{group.name}", "endpoints", remedy)


_TRANSPORT: dict[str, Reader] = {
    "mode": values.one_of(TransportMode),
    "interface": values.ip,
    "port": values.integer(1, 65535),
    "key_file": values.text,
    "authenticate": values.truth,
    "spin_us": values.integer(0, 10_000),
    "fault_injection": values.fault_injection,
}
_TIMEOUTS: dict[str, Reader] = {
    milliseconds_name(each.name): (
        values.number(0.001, _LONGEST_TIMEOUT_MS) if each.name.endswith("_ns") else values.integer(1, 1000)
    )
    for each in fields(Timeouts)
}
_LIMITS: dict[str, Reader] = {
    each.name: values.integer(1, 1 << 30) for each in fields(Limits) if each.name != "datagram_bytes"
}
_GROUP: dict[str, Reader] = {
    "members": values.endpoints,
    "endpoints": values.endpoints,
    "partition": values.one_of(config.PartitionPolicy),
    "threads": values.one_of(config.ThreadMode),
    "output_commit": values.integer(0, 15),
    "gateway": values.truth,
    "replication": values.one_of(config.Replication),
    "data": values.absolute,
    "checkpoints": values.one_of(config.Checkpoints),
    "checkpoint_log_kb": values.integer(1, 1 << 20),
    "journal_mb": values.integer(1, 1 << 20),
}
