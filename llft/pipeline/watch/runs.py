"""Rows on their way from who reads journals to who judges: packed, many deeds in one row.

A row for each record costs more on the way (Python, Java, a shuffle, Java, Python) than reading it did. So
what one replica did of one kind in one view goes as one row, its numbers and contents as bytes: Java sees
a few rows a second, whatever the rate.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType

from llft.pipeline.watch.watcher import Rows

RUN_SCHEMA = StructType(
    [
        StructField("group_id", LongType()),
        StructField("code", IntegerType()),
        StructField("replica", LongType()),
        StructField("view", LongType()),
        StructField("primary", IntegerType()),
        StructField("name", StringType()),
        StructField("numbers", BinaryType()),
        StructField("contents", BinaryType()),
    ]
)
NUMBER = np.dtype("<i8")


class Source(NamedTuple):
    """Who, in which view."""

    group_id: int
    replica: int
    """The number of the process."""
    view: int
    primary: int
    """1 if it is the primary of the view, else 0."""
    name: str
    """Of the process, for people."""


class Run(NamedTuple):
    """Deeds of one kind and one source, in the order of the journal; the fields are those of RUN_SCHEMA."""

    group_id: int
    code: int
    replica: int
    view: int
    primary: int
    name: str
    numbers: bytes
    contents: bytes


class Deeds(NamedTuple):
    """A run that is being gathered."""

    numbers: list[int]
    contents: list[int]


def packed(code: int, source: Source, deeds: Deeds) -> Run:
    numbers, contents = (np.array(one, NUMBER).tobytes() for one in deeds)
    group_id, replica, view, primary, name = source
    return Run(group_id, code, replica, view, primary, name, numbers, contents)


def unpacked(runs: Iterable[Run]) -> Rows:
    """One behind the other: runs of one group."""
    every = list(runs)
    sizes = [len(run.numbers) // NUMBER.itemsize for run in every]

    def repeated(values: Iterable[int]) -> np.ndarray:
        return np.repeat(np.array(list(values), np.int64), sizes)

    return Rows(
        code=repeated(run.code for run in every),
        replica=repeated(run.replica for run in every),
        number=np.frombuffer(b"".join(run.numbers for run in every), NUMBER),
        content=np.frombuffer(b"".join(run.contents for run in every), NUMBER),
        view=repeated(run.view for run in every),
        primary=repeated(run.primary for run in every),
    )
