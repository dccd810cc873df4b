"""One figure: a table and a picture, or the reason why the journals do not show it."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from llft.pipeline.charts import table

SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
ACCURACY = 10_000
MAX_SAME_CLOCK_NS = 60_000_000_000
"""Processes of one clock whose births and first records lie no further apart than this."""


@dataclass(frozen=True, slots=True)
class Figure:
    name: str
    """Of its files."""
    title: str
    note: str
    head: Sequence[str]
    rows: Sequence[Sequence[object]]
    picture: str = ""
    missing: str = ""
    """Why there is nothing to show."""

    def as_html(self) -> str:
        parts = [f"<h2>{escape(self.title)}</h2>", f"<p>{escape(self.note)}</p>"]
        if not self.rows:
            parts.append(f'<p class="missing">Not shown: {escape(self.missing)}</p>')
            return "\n".join(parts)
        return "\n".join([*parts, self.picture, table(self.head, self.rows)])

    def as_csv(self) -> str:
        text = io.StringIO()
        writer = csv.writer(text)
        writer.writerow(self.head)
        writer.writerows(self.rows)
        return text.getvalue()


def spread_us(duration_ns: str) -> list[Column]:
    """Aggregates of a duration: how many, percentiles and the longest, in microseconds."""
    ranks = [
        (F.percentile_approx(duration_ns, share, ACCURACY) / 1e3).alias(name)
        for name, share in SHARES.items()
    ]
    return [F.count(duration_ns).alias("count"), *ranks, (F.max(duration_ns) / 1e3).alias("max")]


SPREAD = ("count", *SHARES, "max")
SPREAD_HEAD = ("count", *(f"{name} us" for name in SHARES), "max us")


def same_clock(one: str, other: str) -> Column:
    """Whether two columns of `wall_ns - time_ns` show one clock: then `time_ns` may be compared."""
    return F.abs(F.col(one) - F.col(other)) < MAX_SAME_CLOCK_NS
