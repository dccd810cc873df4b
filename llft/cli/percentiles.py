"""Percentiles of what was measured."""

from __future__ import annotations

import math
from collections.abc import Sequence


def percentiles(values: Sequence[float]) -> dict[str, float | None]:
    """Nearest rank: each is a value that occurred."""
    ordered = sorted(values)

    def rank(share: float) -> float | None:
        return round(ordered[max(0, math.ceil(share * len(ordered)) - 1)], 3) if ordered else None

    return {"p50": rank(0.5), "p99": rank(0.99), "max": rank(1.0)}
