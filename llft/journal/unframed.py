"""Batches that the journal has taken and not framed yet: many at a time take a fraction of one by one.

They are framed when somebody is about to wait, when another record follows, or when there are `FULL` rows.
Only the compiled lane gathers them: to Python a hundred records are a hundred times one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from llft.journal.batch import Batch

FULL: Final = 256
"""Rows: about as many bytes of memory as a tenth of the writer's buffer has room for."""

encode: Callable[[list[Batch]], bytes | None] | None
"""The frames of all their records, one behind the other; None: something is for Python to frame."""
try:
    from llft.journal.frames import encode as compiled_encode
except ModuleNotFoundError:
    encode = None
else:
    encode = compiled_encode


class Unframed:
    __slots__ = ("batches", "row_count")

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.row_count = 0

    def add(self, batch: Batch) -> bool:
        """Whether they are to be framed now."""
        self.batches.append(batch)
        self.row_count += batch.record_count()
        return self.row_count >= FULL or encode is None

    def take(self) -> list[Batch]:
        batches = self.batches
        self.batches, self.row_count = [], 0
        return batches


def frames_of(batches: list[Batch]) -> bytes | None:
    """None: one by one is the only way."""
    return None if encode is None else encode(batches)
