"""The kinds of order entries, the ranges of their fields, and their text.

`llft.wire.order` explains the entries and is what others import.
"""

from __future__ import annotations

from itertools import chain
from typing import Any, Final

from llft.errors import MisuseError
from llft.identifiers import ConnectionId

READ: Final = 1
SEND: Final = 2
MUTEX: Final = 3
TIME: Final = 4
SOCKET: Final = 5
GENERAL: Final = 6
WAKE: Final = 7
CHECKPOINT: Final = 8
PRIMARY_VIEW: Final = 9
REMOTE_VIEW: Final = 10
CONNECTION: Final = 11

Entry = tuple[Any, ...]

U32_MAX: Final = (1 << 32) - 1
U64_MAX: Final = (1 << 64) - 1
SIZE_MAX: Final = 1 << 31
DATA_BYTES_MAX: Final = 65_535
RUN_MAX: Final = 65_535
"""Entries in one run: lets a decoder count a run without holding it."""
VIEW_BASES_MAX: Final = 65_536

# The high four bits of an entry's first byte: what differs from the entry before it.
KIND_MASK: Final = 0x0F
NEW_PICK: Final = 0x10
NEW_THREAD: Final = 0x20
NEW_ITEM: Final = 0x40
"""READ, SEND, SOCKET: another fd. TIME: another clock. MUTEX: a result other than True."""
RUN: Final = 0x80
"""READ, SEND: a run of more than one."""
NEW_COUNT: Final = 0x80
"""MUTEX, SOCKET, GENERAL: the count is not the operation's last one plus 1."""


def check_range(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise MisuseError(
            "order_field_out_of_range", f"keep it within {low}..{high}", field=name, value=value
        )


def describe(entry: Entry) -> str:
    """One short line. The same at the primary and at its backups, whose entries lack the digests
    of merged SENDs and hold 1 for True: so digests are left out and results are numbers."""
    kind = entry[0]
    template = TEMPLATES.get(kind)
    if template is not None:
        return template % entry[1 : 1 + template.count("%d")]
    if kind in (SOCKET, GENERAL):
        return counted_template(kind, entry[5]) % entry[1:5]
    if kind == PRIMARY_VIEW:
        template, numbers = view_told(entry)
        return template % numbers[1:]
    if kind == REMOTE_VIEW:
        return f"remote_view fd={entry[1]} {_describe_view(entry[2])} from={entry[3]}"
    if kind == CONNECTION:
        return f"connection what={entry[1]} fd={entry[2]} {ConnectionId(*entry[3:])}"
    raise MisuseError("order_entry_kind_unknown", "see llft.wire.order", entry=entry)


_VIEW: Final = "primary_view v%%d/p%%d of %%d.%%d.%%d [%s]"
_VIEW_ALONE: Final = _VIEW % ""


def view_told(entry: Entry) -> tuple[str, Entry]:
    """Of a PRIMARY_VIEW: a template like those of `TEMPLATES`, and what fills it behind a kind. The text is
    made when somebody wants it, for at a change of the primary clients wait."""
    kind, (precedence, primary_view_num, (host_id, pid, start_ns)), bases = entry
    numbers = (kind, primary_view_num, precedence, host_id, pid, start_ns)
    if not bases:
        return _VIEW_ALONE, numbers
    return _VIEW % " ".join(["%d:%d"] * len(bases)), numbers + tuple(chain.from_iterable(bases))


def counted_template(kind: int, data: bytes) -> str:
    """Like `TEMPLATES`, for an entry with such data."""
    if kind == SOCKET:
        return f"socket pick=%d thread=%d fd=%d count=%d data={_text(data)}"
    return f"general pick=%d thread=%d operation=%d count=%d data={_text(data)}"


TEMPLATES: Final[dict[int, str]] = {
    READ: "read pick=%d thread=%d fd=%d size=%d",
    SEND: "send pick=%d thread=%d fd=%d timestamp=%d",
    MUTEX: "mutex pick=%d thread=%d mutex=%d count=%d result=%d",
    TIME: "time pick=%d thread=%d clock=%d value=%d",
    WAKE: "wake pick=%d thread=%d",
    CHECKPOINT: "checkpoint pick=%d thread=%d",
}
"""The text of entries that are all numbers: each %d is the next item of the entry, behind its kind."""


def _describe_view(view: Any) -> str:
    return f"{view} of {view.birth_id}"


def _text(value: bytes | bytearray | memoryview) -> str:
    data = bytes(value)
    if len(data) <= 24:
        return data.hex() or "-"
    return f"{data[:16].hex()}..{data[-8:].hex()}({len(data)})"
