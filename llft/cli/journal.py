"""`llft journal show` and `check`: what replicas wrote about themselves, as lines.

Several journals are merged by time: those of one host have one clock. Exit status: 1 if a file is damaged.
"""

from __future__ import annotations

import argparse
import heapq
import json
import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

from llft.cli import journal_check
from llft.errors import MisuseError
from llft.identifiers import BirthId, ConnectionId, Member, ViewId
from llft.journal.record import RECORD_TYPES, Record

KINDS = {kind.__name__.lower(): kind for kind in RECORD_TYPES}
NOISE = ("operated", "delivered", "sent", "clockread", "collected", "heartbeatarrived")
"""Shown only if asked for: there is one for every message."""

Entry = tuple[int, str, Record]


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser("journal", help="read journals", description="Read the journals of replicas.")
    actions = parser.add_subparsers(title="actions", dest="action", metavar="ACTION", required=True)
    show = actions.add_parser(
        "show",
        help="a line for each record",
        description="A line for each record, of one journal or of all in a directory, by time.",
    )
    show.add_argument("path", type=Path, metavar="DIR|FILE")
    show.add_argument("--json", action="store_true", help="an object a line")
    show.add_argument(
        "--kind",
        action="append",
        metavar="KIND",
        help=f"only this kind of record, or all; can be repeated (default: all but {', '.join(NOISE)})",
    )
    show.set_defaults(run=run)
    journal_check.add_action(actions)


def run(arguments: argparse.Namespace) -> int:
    """Perform the verb; returns the exit status."""
    kinds = _wanted_kinds(arguments.kind)
    started_ns: int | None = None
    found = shown = 0
    for time_ns, source, record in heapq.merge(
        *map(_entries, journal_files(arguments.path)), key=lambda e: e[0]
    ):
        started_ns = time_ns if started_ns is None else started_ns
        found += 1
        if type(record).__name__.lower() not in kinds:
            continue
        shown += 1
        if arguments.json:
            print(json.dumps({"journal": source, "kind": type(record).__name__, **_as_object(record)}))
        else:
            print(readable(record, source, since_ns=started_ns))
    if not shown:
        print(f"llft: none of the {found} records there is of these kinds (--kind all)", file=sys.stderr)
    return 0


def journal_files(path: Path) -> list[Path]:
    """The journal itself, or those in the directory (or in the `journal` directory of a run directory)."""
    return journal_check.journal_paths([path])


def _wanted_kinds(named: list[str] | None) -> set[str]:
    if named is None:
        return KINDS.keys() - set(NOISE)
    wanted = {name.lower().replace("-", "").replace("_", "") for name in named}
    if "all" in wanted:
        return set(KINDS)
    unknown = wanted - KINDS.keys()
    if unknown:
        remedy = f"one of {', '.join(kind.__name__ for kind in RECORD_TYPES)}, all"
        raise MisuseError("unknown-kind", remedy, kind=sorted(unknown)[0])
    return wanted


def _entries(path: Path) -> Iterator[Entry]:
    from llft.journal.reader import JournalReader

    with JournalReader(path) as reader:
        for record in reader:
            yield record.stamp.time_ns, path.stem, record
        if reader.torn_bytes:
            print(f"llft: {path.name} ends with a torn record of {reader.torn_bytes} bytes", file=sys.stderr)


def readable(record: Record, source: str, *, since_ns: int) -> str:
    """Such as "   1.204311 s  replica-2-17  v2/p2  RoleChanged  role=primary reason=..."."""
    stamp = record.stamp
    fields = " ".join(
        f"{name}={_text(value)}" for name, value in zip(record._fields[1:], record[1:], strict=True)
    )
    seconds = (stamp.time_ns - since_ns) / 1e9
    return f"{seconds:12.6f} s  {source}  {stamp.view!s:<8} {type(record).__name__:<18} {fields}".rstrip()


def _text(value: Any) -> str:
    if isinstance(value, Member):
        return f"{value.birth_id}(p{value.precedence})"
    if isinstance(value, ViewId | BirthId | ConnectionId):
        return str(value)
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_text, value)) + "]"
    return repr(value) if isinstance(value, str) and " " in value else str(value)


def _as_object(record: Record) -> dict[str, Any]:
    stamp = record.stamp
    common = {
        "time_ns": stamp.time_ns,
        "group_id": stamp.group_id,
        "birth": str(stamp.birth_id),
        "view": str(stamp.view),
    }
    rest = zip(record._fields[1:], record[1:], strict=True)
    return common | {name: value if isinstance(value, int | str) else _text(value) for name, value in rest}
