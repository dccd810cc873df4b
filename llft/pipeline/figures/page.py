"""All figures, in the order of the paper."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame

from llft.pipeline.charts import page
from llft.pipeline.figures.changes import changes, detection, recovery, view_change
from llft.pipeline.figures.figure import Figure
from llft.pipeline.figures.lag import backup_lag
from llft.pipeline.figures.operations import per_operation
from llft.pipeline.figures.trips import by_replicas, by_size, round_trips, with_replicas

NOT_IN_JOURNALS = (
    "Throughput by clients needs runs of several loads, and TCP's own latency and throughput are in no "
    "journal: bench/ measures those."
)


def all_figures(records: DataFrame) -> list[Figure]:
    trips = with_replicas(round_trips(records), records).persist()
    elected = changes(records).persist()
    try:
        return [
            by_size(trips),
            by_replicas(trips),
            per_operation(records),
            view_change(elected),
            recovery(elected),
            detection(records),
            backup_lag(records),
        ]
    finally:
        trips.unpersist()
        elected.unpersist()


def write_figures(figures: list[Figure], directory: Path) -> Path:
    """The page, and for each figure a table as CSV and its picture; returns where the page is."""
    directory.mkdir(parents=True, exist_ok=True)
    for figure in figures:
        if figure.rows:
            (directory / f"{figure.name}.csv").write_text(figure.as_csv(), encoding="utf-8")
        if figure.rows and figure.picture:
            (directory / f"{figure.name}.svg").write_text(figure.picture, encoding="utf-8")
    target = directory / "index.html"
    sections = [*(figure.as_html() for figure in figures), f"<p>{NOT_IN_JOURNALS}</p>"]
    target.write_text(page("The evaluation, from journals", sections), encoding="utf-8")
    return target
