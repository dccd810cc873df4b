"""Non-deterministic operations that the echo server makes when it is asked to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Operation:
    number: int
    """As the echo server has it."""
    threads: str = "token"


OPERATIONS = {
    "clock": Operation(0),
    "mutex": Operation(1, "ordered"),
    "random": Operation(2),
    "read": Operation(3),
}
