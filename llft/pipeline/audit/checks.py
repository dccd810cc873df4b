"""All checks, over the records of a fleet: DataFrames in, one DataFrame of findings out.

What several checks need is kept in memory while they run (`Case`), and let go of at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from llft.pipeline.audit import agreement, clock, connections, delivery, excuses, losses, watermark
from llft.pipeline.audit.columns import as_findings
from llft.pipeline.audit.findings import VIOLATION
from llft.pipeline.audit.outline import Outline, outline
from llft.pipeline.audit.streams import streams
from llft.pipeline.histories.transform import check_histories
from llft.pipeline.scan import Rows
from llft.pipeline.segments import HARMLESS

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


@dataclass
class Case:
    """The records to be judged, and what is found out about them on the way."""

    records: DataFrame
    quarantined: DataFrame
    known_prints: DataFrame | None = None
    """The fingerprints, if there are some already: of sealed records there are."""
    files: Sequence[str] = ()
    """The Parquet files that have exactly these records, if there are such."""
    kept: list[DataFrame] = field(default_factory=list)

    def keep(self, frame: DataFrame) -> DataFrame:
        self.kept.append(frame.persist())
        return self.kept[-1]

    def release(self) -> None:
        for frame in self.kept:
            frame.unpersist()

    @property
    def rows(self) -> Rows:
        return Rows(self.records, self.files)

    @cached_property
    def outline(self) -> Outline:
        return outline(self.rows, self.known_prints)

    @cached_property
    def lives(self) -> DataFrame:
        return self._local(self.outline.lives)

    @property
    def outlined_findings(self) -> DataFrame:
        return self._local(self.outline.findings)

    def _local(self, table: pa.Table) -> DataFrame:
        return self.records.sparkSession.createDataFrame(table)

    @cached_property
    def delivered(self) -> DataFrame:
        return delivery.surviving_delivered(self.records, self.lives)

    @cached_property
    def written(self) -> DataFrame:
        """Of the connections that are looked at."""
        return self.keep(streams(self.near(self.records.filter("kind = 'Sent'")), self.lives))

    @cached_property
    def unlike(self) -> DataFrame:
        return self.keep(connections.unlike_connections(self.rows, self.lives))

    def near(self, rows: DataFrame) -> DataFrame:
        """Of those connections only of which there may be something to be found."""
        return rows.join(self.unlike, list(connections.CONNECTION), "left_semi")

    @cached_property
    def excused(self) -> DataFrame:
        return self.keep(excuses.excused_connections(self.records, self.lives, self.unlike))


@contextmanager
def judging(
    records: DataFrame,
    quarantined: DataFrame,
    prints: DataFrame | None = None,
    files: Sequence[str] = (),
) -> Iterator[Case]:
    case = Case(records, quarantined, prints, files)
    try:
        yield case
    finally:
        case.release()


def parts(case: Case) -> Iterator[tuple[str, Callable[[], DataFrame]]]:
    """Every check by name. Those that read rows again are there only where there is something to look at."""
    yield "outline", lambda: case.outlined_findings
    yield "damages", lambda: damages(case.quarantined)
    yield "clock", lambda: clock.steps_back(case.rows, case.outline.lives, case.lives)
    yield "histories", lambda: check_histories(case.records)
    if not case.unlike.isEmpty():
        yield from _of_connections(case)
    if case.outline.suspects.num_rows:
        yield "agreement", lambda: agreement.divergences(case.rows, case.outline, case.lives)
    cuts = losses.cuts_of(case.outline.lives)
    if cuts:
        yield "losses", lambda: losses.lost_operations(case.rows, cuts)


def _of_connections(case: Case) -> Iterator[tuple[str, Callable[[], DataFrame]]]:
    read, written = case.near(case.delivered), case.written
    yield "missing messages", lambda: delivery.missing_messages(written, case.lives)
    yield "jumps", lambda: delivery.jumps(read)
    yield "disagreements", lambda: delivery.disagreements(read, case.lives)
    yield "strangers", lambda: delivery.strangers(read, written, case.lives, case.excused)
    yield (
        "watermark",
        lambda: watermark.collected_too_early(case.records, read, written, case.lives, case.excused),
    )


def findings(case: Case) -> DataFrame:
    """Of all checks. It is to be used before the case is released."""
    return reduce(lambda left, right: left.unionByName(right), (part() for _, part in parts(case)))


def damages(quarantined: DataFrame) -> DataFrame:
    """Bytes that are no record, where some were: a gap as good as one that the journal tells itself."""
    values = {
        "condition": F.lit("gap"),
        "severity": F.lit(VIOLATION),
        "found": F.concat_ws(" ", F.col("size"), F.lit("bytes:"), F.col("reason")),
        "explanation": F.format_string(
            "%d bytes at %d of %s are no record (%s): what was there is not known.",
            *("size", F.col("place") % (1 << 40), "source", "reason"),
        ),
    }
    return quarantined.filter(~F.col("reason").isin(*HARMLESS)).transform(as_findings, values)
