from typing import Any

from llft.journal.packed import Packed, Strip
from llft.journal.record import Record

def know(types: tuple[Any, ...], words: tuple[str, ...]) -> None:
    """The types and words that records are made of, before all else."""

def pack(strip: Strip) -> list[Packed] | None:
    """Its frames; None if something in it is for Python."""

def unpack(payload: bytes) -> list[Record] | None:
    """The records of a payload; None if Python has to say what is wrong with it."""
