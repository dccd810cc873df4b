"""Journals at rest: what was read of live segments, sealed into Parquet that the audit can read fast.

    manifest.json    which directories count; of every process how far it was read, and what to go on with
    sealed/N         100,000 records and more, by day and bucket of group, sorted by kind, group and place
    tail/N           the newest, too few to be sealed yet: rewritten with each run until they are enough
    marks/N          of sealed/N: a checkpoint for each life and 4096 order numbers, with a chained digest
    quarantined/N    bytes that were no record

A run adds directories and then replaces the manifest, at once: one that is killed leaves the store as it
was, and rubbish that the next run removes. A second run reads only what is new in the live segments.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812

from llft.errors import MisuseError
from llft.pipeline.audit.prints import PRINT_SCHEMA, fingerprints
from llft.pipeline.ingest import decode_plans, journal_files, split
from llft.pipeline.layout import parquet_files, write_sealed
from llft.pipeline.scan import Rows
from llft.pipeline.schema import PIPELINE_VERSION, RECORD_SCHEMA
from llft.pipeline.segments import PLACE_BITS, TORN, Plan, Segment, plan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SEAL_ROWS = 100_000
MANIFEST = "manifest.json"
QUARANTINE_COLUMNS = (
    "world long, source string, place long, process long, group_id long, wall_ns long, reason string, "
    "size long, sample string"
)
REBUILD = "delete the store, and run again"


@dataclass(slots=True)
class Manifest:
    version: int = PIPELINE_VERSION
    runs: int = 0
    sealed: list[str] = field(default_factory=list)
    tail: str = ""
    tail_rows: int = 0
    quarantined: list[str] = field(default_factory=list)
    torn: str = ""
    """Ends of live segments that are no whole record yet: as of the last run."""
    states: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Of every process: the place behind what was read, and its state."""
    strange: dict[str, int] = field(default_factory=dict)
    """Files that show no process, with the size they had."""


class Store:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.manifest = self._load()

    def take_in(self, spark: SparkSession, paths: Sequence[str | Path]) -> int:
        """What is new at these paths; returns how many records that were."""
        plans = list(self._news(paths))
        if not plans:
            return 0
        run, before = self.manifest.runs, self.manifest
        self._sweep()
        incoming = self._path(f"incoming/{run}")
        decode_plans(spark, plans).write.mode("overwrite").parquet(incoming)
        got = split(spark.read.schema(RECORD_SCHEMA).parquet(incoming))
        manifest = Manifest(**asdict(before))
        manifest.runs = run + 1
        new_count = got.records.count()
        if new_count:
            self._add_records(spark, got.records, new_count, manifest, run)
        self._add_quarantined(got.quarantined, manifest, run)
        for row in got.states.groupBy("process").agg(F.max_by(F.struct("place", "state"), "place")).collect():
            if row[0]:
                manifest.states[str(row[0])] = (row[1]["place"], row[1]["state"])
        strange = (one.segments[0].paths[0] for one in plans if one.process is None)
        manifest.strange |= {path: os.path.getsize(path) for path in strange}
        self._save(manifest)
        self._sweep()
        return new_count

    def records(self, spark: SparkSession) -> DataFrame:
        return self._read(spark, [*self.manifest.sealed, *filter(None, [self.manifest.tail])])

    def tail(self, spark: SparkSession) -> DataFrame:
        return self._read(spark, list(filter(None, [self.manifest.tail])))

    def files(self) -> list[str]:
        """That have all records."""
        places = [*self.manifest.sealed, *filter(None, [self.manifest.tail])]
        return [file for place in places for file in parquet_files(self._path(place))]

    def prints(self, spark: SparkSession) -> DataFrame:
        """The fingerprints of all records: of sealed ones they are there already."""
        fresh = fingerprints(Rows(self.tail(spark)))
        if not self.manifest.sealed:
            return fresh
        places = [self._path(one.replace("sealed", "marks", 1)) for one in self.manifest.sealed]
        return spark.read.parquet(*places).select(*PRINT_SCHEMA.names).unionByName(fresh)

    def quarantined(self, spark: SparkSession) -> DataFrame:
        places = [*self.manifest.quarantined, *filter(None, [self.manifest.torn])]
        if not places:
            return spark.createDataFrame([], QUARANTINE_COLUMNS)
        return spark.read.schema(QUARANTINE_COLUMNS).parquet(*map(self._path, places))

    def _read(self, spark: SparkSession, places: list[str]) -> DataFrame:
        """Columns that an older version did not have are null."""
        if not places:
            return spark.createDataFrame([], RECORD_SCHEMA)
        reader = spark.read.schema(RECORD_SCHEMA).option("recursiveFileLookup", "true")
        return reader.parquet(*map(self._path, places))

    def _add_records(
        self, spark: SparkSession, new: DataFrame, new_count: int, manifest: Manifest, run: int
    ) -> None:
        """Sealed together with the tail, if they are enough; else they are the tail."""
        every, count = self.tail(spark).unionByName(new), manifest.tail_rows + new_count
        if count >= SEAL_ROWS:
            manifest.sealed.append(f"sealed/{run}")
            write_sealed(every, count, self._path(f"sealed/{run}"), self._path(f"marks/{run}"))
            manifest.tail, manifest.tail_rows = "", 0
        else:
            manifest.tail, manifest.tail_rows = f"tail/{run}", count
            every.coalesce(1).write.mode("overwrite").parquet(self._path(manifest.tail))

    def _add_quarantined(self, quarantined: DataFrame, manifest: Manifest, run: int) -> None:
        """A torn end may be whole the next time; it is read again then, for nothing behind it was."""
        torn = F.col("reason") == TORN
        manifest.torn = f"quarantined/{run}-torn"
        quarantined.filter(torn).coalesce(1).write.mode("overwrite").parquet(self._path(manifest.torn))
        lasting = quarantined.filter(~torn)
        if not lasting.isEmpty():
            manifest.quarantined.append(f"quarantined/{run}")
            lasting.coalesce(1).write.mode("overwrite").parquet(self._path(f"quarantined/{run}"))

    def _news(self, paths: Sequence[str | Path]) -> Iterator[Plan]:
        """The plans of what was not read yet; none if no file has grown."""
        inside = str(self.root.resolve()) + os.sep
        files = [path for path in journal_files(paths) if not path.startswith(inside)]
        for one in plan(files):
            known = self.manifest.states.get(str(one.process))
            if one.process is None:
                path = one.segments[0].paths[0]
                if self.manifest.strange.get(path) != os.path.getsize(path):
                    yield one
            elif known is None:
                yield one
            elif fresh := unread(one, known[0]):
                yield replace(one, segments=fresh, state=known[1])

    def _load(self) -> Manifest:
        path = self.root / MANIFEST
        if not path.exists():
            return Manifest()
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if content.get("version") != PIPELINE_VERSION:
            raise MisuseError(
                "store-of-another-version", REBUILD, path=str(self.root), found=content.get("version")
            )
        content["states"] = {name: (place, state) for name, (place, state) in content["states"].items()}
        return Manifest(**content)

    def _save(self, manifest: Manifest) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        fresh = self.root / f"{MANIFEST}.new"
        fresh.write_text(json.dumps(asdict(manifest)), encoding="utf-8")
        fresh.replace(self.root / MANIFEST)
        self.manifest = manifest

    def _sweep(self) -> None:
        """Removes what no manifest names: left over by a run that was killed, or replaced by one that was
        not."""
        named = {*self.manifest.sealed, *self.manifest.quarantined, self.manifest.tail, self.manifest.torn}
        named |= {one.replace("sealed", "marks", 1) for one in self.manifest.sealed}
        for kind in ("sealed", "marks", "tail", "quarantined", "incoming"):
            for place in (self.root / kind).glob("*"):
                if f"{kind}/{place.name}" not in named:
                    shutil.rmtree(place)

    def _path(self, place: str) -> str:
        return str((self.root / place).resolve())


def unread(one: Plan, place: int) -> tuple[Segment, ...]:
    """The segments, or parts of them, behind this place."""
    number, offset = place >> PLACE_BITS, place & ((1 << PLACE_BITS) - 1)
    fresh = []
    for segment in one.segments:
        if segment.number > number:
            fresh.append(segment)
        elif segment.number == number and any(os.path.getsize(path) > offset for path in segment.paths):
            fresh.append(segment._replace(start=offset))
    return tuple(fresh)
