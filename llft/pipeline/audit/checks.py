"""All checks, over the records of a fleet: DataFrames in, one DataFrame of findings out.

What several checks need is kept in memory while they run (`Case`), and let go of at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from llft.pipeline.audit import agreement, clock, delivery, losses, watermark
from llft.pipeline.audit.columns import as_findings
from llft.pipeline.audit.findings import VIOLATION
from llft.pipeline.audit.outline import Outline, outline, unfold
from llft.pipeline.audit.streams import streams
from llft.pipeline.histories.transform import check_histories
from llft.pipeline.segments import HARMLESS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass
class Case:
    """The records to be judged, and what is found out about them on the way."""

    records: DataFrame
    quarantined: DataFrame
    known_prints: DataFrame | None = None
    """The fingerprints, if there are some already: of sealed records there are."""
    kept: list[DataFrame] = field(default_factory=list)

    def keep(self, frame: DataFrame) -> DataFrame:
        self.kept.append(frame.persist())
        return self.kept[-1]

    def release(self) -> None:
        for frame in self.kept:
            frame.unpersist()

    @cached_property
    def prints(self) -> DataFrame:
        if self.known_prints is not None:
            return self.keep(self.known_prints)
        return self.keep(agreement.fingerprints(self.records))

    @cached_property
    def outline(self) -> Outline:
        return unfold(self.keep(outline(self.records, self.prints)))

    @cached_property
    def lives(self) -> DataFrame:
        """On the driver, from where every check broadcasts it: one row for each life of a process."""
        return self.records.sparkSession.createDataFrame(self.outline.lives.toArrow())

    @cached_property
    def suspected(self) -> DataFrame:
        return self.keep(agreement.suspects(self.prints, self.lives))

    @cached_property
    def delivered(self) -> DataFrame:
        return delivery.surviving_delivered(self.records, self.lives)

    @cached_property
    def written(self) -> DataFrame:
        return self.keep(streams(self.records, self.lives))

    @cached_property
    def excused(self) -> DataFrame:
        return self.keep(delivery.excused_connections(self.records, self.lives))


@contextmanager
def judging(records: DataFrame, quarantined: DataFrame, prints: DataFrame | None = None) -> Iterator[Case]:
    case = Case(records, quarantined, prints)
    try:
        yield case
    finally:
        case.release()


def parts(case: Case) -> Iterator[tuple[str, Callable[[], DataFrame]]]:
    """Every check by name. The drill and the list of losses read rows again: they are there only where there
    is something to look at."""
    yield "outline", lambda: case.outline.findings
    yield "damages", lambda: damages(case.quarantined)
    yield "clock", lambda: clock.steps_back(case.records, case.lives)
    yield "jumps", lambda: delivery.jumps(case.delivered)
    yield "disagreements", lambda: delivery.disagreements(case.delivered, case.lives)
    yield "strangers", lambda: delivery.strangers(case.delivered, case.written, case.lives, case.excused)
    yield "missing messages", lambda: delivery.missing_messages(case.written, case.lives)
    yield (
        "watermark",
        lambda: watermark.collected_too_early(
            case.records, case.delivered, case.written, case.lives, case.excused
        ),
    )
    yield "histories", lambda: check_histories(case.records)
    if not case.suspected.isEmpty():
        yield "agreement", lambda: agreement.divergences(case.records, case.suspected, case.lives)
    if not case.lives.filter(losses.IS_CUT).isEmpty():
        yield "losses", lambda: losses.lost_operations(case.records, case.lives)


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
