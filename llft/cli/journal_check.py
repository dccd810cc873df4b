"""`llft journal check`: the properties that simulations are judged by, judged on what real processes wrote.

Exit status: 0 if all hold, 1 if one does not, or if a file is damaged. What a partition pruned is told, and
is no violation: the paper's rule is that one branch goes on.
"""

from __future__ import annotations

import argparse
import json
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llft.errors import MisuseError

if TYPE_CHECKING:
    from llft.simulator.checkers.losses import LostOperation
    from llft.simulator.from_journals import Journal

SHOWN_OPERATIONS = 20

Losses = dict[int, list["LostOperation"]]
"""By group id."""


def add_action(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    check = actions.add_parser(
        "check",
        help="whether the paper's properties hold",
        description="Whether the paper's theorems and the other properties hold in the journals of a "
        "group: its replicas' and its gateways', of all its hosts.",
    )
    check.add_argument("paths", type=Path, nargs="+", metavar="DIR|FILE")
    check.add_argument("--all", action="store_true", help="list every lost operation")
    check.add_argument("--json", action="store_true", help="one object")
    check.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Perform the action; returns the exit status."""
    from llft.simulator.from_journals import judge, read_journals

    journals = read_journals(journal_paths(arguments.paths))
    violations = judge(journals)
    lost, resets = find_losses(journals)
    if arguments.json:
        found = {
            "journals": len(journals),
            "records": sum(len(journal.records) for journal in journals),
            "violations": [violation._asdict() for violation in violations],
            "lost": [_as_object(group, one) for group, all_lost in lost.items() for one in all_lost],
            "resets": resets,
        }
        print(json.dumps(found))
    else:
        _print_scope(journals)
        _print_losses(lost, None if arguments.all else SHOWN_OPERATIONS)
        for text in resets:
            print(f"reset: {text}")
        for violation in violations:
            print(f"VIOLATED {violation.property}: {violation.explanation}")
        print(f"{len(violations)} violations" if violations else "all properties hold")
    return 1 if violations else 0


def journal_paths(paths: list[Path]) -> list[Path]:
    """The journals named, those in a directory, or those of a run directory; each once."""
    found: dict[Path, None] = {}
    for path in paths:
        here = [path] if path.is_file() else sorted(path.glob("*.llj")) or sorted(path.glob("journal/*.llj"))
        if not here:
            raise MisuseError("no-journals", "give a journal, or a directory that has some", path=str(path))
        found.update(dict.fromkeys(file.resolve() for file in here))
    return list(found)


def find_losses(journals: list[Journal]) -> tuple[Losses, list[str]]:
    """Operations that are not of the surviving branch, by group, and the resets of connections."""
    from llft.simulator.checkers.losses import lost_operations
    from llft.simulator.checkers.resets import first_resets
    from llft.simulator.checkers.survey import survey
    from llft.simulator.from_journals import evidence_of

    lost: Losses = {}
    resets = []
    for evidence in evidence_of(journals):
        surveyed = survey(evidence)
        for group in surveyed.groups.values():
            lost.setdefault(group.group_id, []).extend(lost_operations(group))
        resets += [f"{name}: {record.reason}" for name, record in first_resets(surveyed).items()]
    return {group: found for group, found in lost.items() if found}, resets


def _print_scope(journals: list[Journal]) -> None:
    from llft.simulator.checkers import CHECKERS
    from llft.simulator.from_journals import LEFT_OUT

    records = sum(len(journal.records) for journal in journals)
    groups = len({journal.first.group_id for journal in journals})
    print(f"{len(journals)} journals of {groups} groups, {records} records")
    for journal in journals:
        if journal.torn_bytes:
            print(f"{journal.name} ends with a torn record of {journal.torn_bytes} bytes")
    print(f"checked: {', '.join(name for name in CHECKERS if name not in LEFT_OUT)}")
    for name, why in LEFT_OUT.items():
        print(f"not checked: {name} ({why})")


def _print_losses(lost: Losses, limit: int | None) -> None:
    for group, found in lost.items():
        for (category, view), branch in groupby(found, key=lambda one: (one.category, one.view)):
            operations = list(branch)
            first, last = operations[0].order_seq_num, operations[-1].order_seq_num
            what = category.replace("_", " ")
            print(f"{len(operations)} {what} of group {group}, view {view}, numbers {first} to {last}")
            for one in operations[:limit]:
                print(f"  {one.order_seq_num}: {one.entry}")
            if limit is not None and len(operations) > limit:
                print(f"  and {len(operations) - limit} more (--all lists them)")


def _as_object(group: int, one: LostOperation) -> dict[str, Any]:
    return {
        "group_id": group,
        "category": one.category,
        "view": str(one.view),
        "order_seq_num": one.order_seq_num,
        "entry": one.entry,
    }
