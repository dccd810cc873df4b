"""The segments of one process: which files they are, and how they are read one after the other.

Files are told apart by what is in them, never by their names: two with the same process and segment number
are copies, one perhaps shorter or damaged, and what one lacks the other gives. A file that shows no
process (not a journal, or nothing whole in it) stands alone.
"""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from llft.journal.frame import FRAME, HEADER, HEADER_V1, MAGIC, segment_of
from llft.journal.record import SCHEMA_VERSION
from llft.pipeline.decode import ProcessState, process_number, records_of
from llft.pipeline.frames import Damage, Data, Frame, Tail, scan

PLACE_BITS = 40
"""A segment is far smaller than a terabyte."""

NOT_A_JOURNAL = "not-a-journal"
UNKNOWN_VERSION = "unknown-version"
CORRUPT = "corrupt"
HEALED = "corrupt-but-in-a-copy"
CONFLICT = "conflicting-copy"
MALFORMED = "malformed"
TORN = "torn-tail"
MISSING = "missing-segment"

HARMLESS = (TORN, HEALED)
"""Reasons for which no record is missing: a killed process leaves half a frame, and a copy has the rest."""


class Segment(NamedTuple):
    """One segment of a process: its number, its copies, and from where on and up to where it is to be
    read."""

    number: int
    paths: tuple[str, ...]
    start: int = 0
    end: int | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be read of one process, and what is known of it. Goes through JSON to the executors."""

    segments: tuple[Segment, ...]
    state: str = ""
    world: int = 0
    process: int | None = None
    """None: the file shows none."""

    def to_json(self) -> str:
        return json.dumps([self.segments, self.state, self.world, self.process])

    @classmethod
    def from_json(cls, text: str) -> Plan:
        segments, state, world, process = json.loads(text)
        known = tuple(Segment(number, tuple(paths), *piece) for number, paths, *piece in segments)
        return cls(known, state, world, process)


class Header(NamedTuple):
    version: int
    segment: int
    size: int


class Bad(NamedTuple):
    """Bytes that are no record."""

    offset: int
    size: int
    reason: str
    sample: bytes = b""


def read_header(data: Data) -> Header | None:
    """None if this is not the beginning of a journal."""
    if len(data) < HEADER_V1.size or data[: len(MAGIC)] != MAGIC:
        return None
    version = HEADER_V1.unpack_from(data)[1]
    if version == 1:
        return Header(version, 0, HEADER_V1.size)
    if len(data) < HEADER.size:
        return None
    if version > SCHEMA_VERSION:
        return Header(version, 0, HEADER.size)
    segment = segment_of(bytes(data[: HEADER.size]))
    return None if segment is None else Header(version, segment, HEADER.size)


def open_data(path: str) -> Data:
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            return b""
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def identify(path: str, world: int = 0) -> tuple[int, int] | None:
    """Process and segment number, from the first record that can be read."""
    data = open_data(path)
    header = read_header(data)
    if header is None or header.version > SCHEMA_VERSION:
        return None
    for piece in scan(data, header.size):
        if isinstance(piece, Frame):
            try:
                first = next(iter(records_of(piece.payload)), None)
            except (ValueError, RecursionError):
                continue
            if first is not None:
                stamp = first.stamp
                return process_number(world, stamp.group_id, stamp.birth_id), header.segment
    return None


def plan(paths: Iterable[str], world: int = 0) -> list[Plan]:
    """One for each process, and one for each file that shows none."""
    processes: dict[int, dict[int, list[str]]] = {}
    alone = []
    for path in sorted(set(paths)):
        identity = identify(path, world)
        if identity is None:
            alone.append(Plan((Segment(0, (path,)),), world=world))
        else:
            processes.setdefault(identity[0], {}).setdefault(identity[1], []).append(path)
    return alone + [
        Plan(
            tuple(Segment(number, tuple(copies)) for number, copies in sorted(segments.items())),
            world=world,
            process=process,
        )
        for process, segments in processes.items()
    ]


def read_segment(segment: Segment) -> Iterator[Frame | Bad | Tail]:
    """The sound frames of all copies by offset, and what else there is; ends with a Tail unless nothing at
    all can be read."""
    if len(segment.paths) == 1:
        for piece in _read_copy(segment.paths[0], segment.start):
            if segment.end is not None and piece.offset >= segment.end:
                return
            yield piece
        return
    frames: dict[int, Frame] = {}
    others: list[Bad | Tail] = []
    for path in segment.paths:
        for piece in _read_copy(path, segment.start):
            if not isinstance(piece, Frame):
                others.append(piece)
            elif frames.setdefault(piece.offset, piece) != piece:
                others.append(Bad(piece.offset, len(piece.payload), CONFLICT, piece.payload[:32]))
    yield from _merge(frames, others)


def _merge(frames: dict[int, Frame], others: list[Bad | Tail]) -> Iterator[Frame | Bad | Tail]:
    """Damage counts as healed if frames of other copies fill it from its first byte to its last."""
    ends = {frame.offset: frame.offset + FRAME.size + len(frame.payload) for frame in frames.values()}
    tails = [piece for piece in others if isinstance(piece, Tail)]
    pieces: list[Frame | Bad] = list(frames.values())
    for bad in (piece for piece in others if isinstance(piece, Bad)):
        reached = bad.offset
        while reached < bad.offset + bad.size and reached in ends:
            reached = ends[reached]
        healed = bad.reason == CORRUPT and reached >= bad.offset + bad.size
        pieces.append(bad._replace(reason=HEALED) if healed else bad)
    yield from sorted(pieces, key=lambda piece: (piece.offset, isinstance(piece, Frame)))
    if tails:
        yield max(tails)


def _read_copy(path: str, start: int) -> Iterator[Frame | Bad | Tail]:
    data = open_data(path)
    header = read_header(data)
    if header is None:
        if MAGIC.startswith(data[: len(MAGIC)]) and len(data) < HEADER.size:
            yield Tail(0, len(data))  # killed while it wrote the header
        else:
            yield Bad(0, len(data), NOT_A_JOURNAL, data[:32])
        return
    if header.version > SCHEMA_VERSION:
        yield Bad(0, len(data), f"{UNKNOWN_VERSION} {header.version}", data[:32])
        return
    for piece in scan(data, max(start, header.size)):
        if isinstance(piece, Damage):
            yield Bad(piece.offset, piece.size, CORRUPT, data[piece.offset : piece.offset + 32])
        else:
            yield piece


def state_of(plan: Plan) -> ProcessState:
    return ProcessState.from_json(plan.state) if plan.state else ProcessState(world=plan.world)
