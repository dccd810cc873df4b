from typing import Any

def encode(values: list[int]) -> bytes | None:
    """Entries of all these readings but the first; None if one of them is for Python."""

def pack(head: bytes, values: list[int]) -> bytes | None:
    """These numbers as zigzag varints, each behind the same bytes; None if one of them is for Python."""

def decode(buffer: bytearray, position: int, entry: tuple[Any, ...]) -> tuple[list[tuple[Any, ...]], int]:
    """Readings that follow this entry there, and where they end."""
