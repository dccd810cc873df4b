"""What a checker found: a property that does not hold, and the evidence in a sentence or two."""

from __future__ import annotations

from typing import NamedTuple


class Violation(NamedTuple):
    property: str
    """The name of the checker's module, or "crash" for a replica that raised."""
    explanation: str
    """Names group, view, order number, replica and the two values that differ, where they exist."""
