"""Which seeds, in which batches, and what of it is done: a campaign's directory.

    campaign.json              what was asked for; another campaign may not go on here
    outcomes/batch-N.json      a line per seed (`columns.OUTCOME_SCHEMA`), with what the audit found in it at
                               once; its being there says that the batch is done
    journals/batch-N.parquet   the records of its seeds, if there is a doubt or a violation, or all are kept;
                               there before the outcomes are
    findings/slice-N.parquet   all that the audit found in a slice of batches; its being there says that its
                               doubts are settled

Files come into being by a rename, so each is whole or not there. A batch is a function of the campaign, so
whoever does it again writes the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from llft.errors import MisuseError
from llft.pipeline.campaign.outcome import Cell

SLICE_BATCHES = 256
LAST_SHARE = 4
"""Towards the end of a campaign nobody is given more than the fourth part of what is left: else all wait for
the one who was given a whole batch last."""
FEWEST_SEEDS = 2
"""One by one they would cost more in tasks than in waiting."""
VERSION = 5
"""Of how seeds are batched and journals lie: files of another one are not gone on with."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Some seeds of one cell."""

    number: int
    cell: int
    first: int
    end: int

    @property
    def seeds(self) -> range:
        return range(self.first, self.end)


@dataclass(frozen=True, slots=True)
class Campaign:
    cells: tuple[Cell, ...]
    first: int
    end: int
    batch_size: int

    @property
    def seed_count(self) -> int:
        return len(self.cells) * (self.end - self.first)

    def batches(self) -> Iterator[Batch]:
        number = 0
        for cell in range(len(self.cells)):
            for first, end in self._cuts(is_last=cell == len(self.cells) - 1):
                yield Batch(number, cell, first, end)
                number += 1

    def _cuts(self, *, is_last: bool) -> Iterator[tuple[int, int]]:
        first = self.first
        while first < self.end:
            left = self.end - first
            most = max(left // LAST_SHARE, FEWEST_SEEDS) if is_last else left
            end = first + min(left, most, self.batch_size)
            yield first, end
            first = end

    def slices(self) -> list[list[Batch]]:
        every = list(self.batches())
        return [every[start : start + SLICE_BATCHES] for start in range(0, len(every), SLICE_BATCHES)]

    def to_json(self) -> str:
        return json.dumps(
            {
                "version": VERSION,
                "cells": [cell._asdict() for cell in self.cells],
                "seeds": f"{self.first}:{self.end}",
                "batch_size": self.batch_size,
            },
            indent=2,
        )


@dataclass(frozen=True, slots=True)
class Directory:
    """Where a campaign keeps what it has. Driver and executors see it under the same path."""

    path: Path

    def outcome_file(self, batch: int) -> Path:
        return self.path / "outcomes" / f"batch-{batch}.json"

    def journal_file(self, batch: int) -> Path:
        return self.path / "journals" / f"batch-{batch}.parquet"

    def finding_file(self, slice_number: int) -> Path:
        return self.path / "findings" / f"slice-{slice_number}.parquet"

    def is_done(self, batch: Batch) -> bool:
        return self.outcome_file(batch.number).exists()

    def claim(self, campaign: Campaign) -> None:
        """Begin here, or go on; MisuseError if another campaign began here."""
        for name in ("outcomes", "journals", "findings"):
            (self.path / name).mkdir(parents=True, exist_ok=True)
        file = self.path / "campaign.json"
        if not file.exists():
            file.write_text(campaign.to_json(), encoding="utf-8")
        elif file.read_text(encoding="utf-8") != campaign.to_json():
            remedy = "give another --output, or the arguments that it was begun with"
            raise MisuseError("another-campaign", remedy, path=str(self.path))
