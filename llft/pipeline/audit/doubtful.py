"""Whole worlds in which there may be something to be found (`worlds`): all checks, as of any fleet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema

from llft.pipeline.audit.checks import findings, judging
from llft.pipeline.audit.findings import FINDING_SCHEMA
from llft.pipeline.ingest import split
from llft.pipeline.schema import RECORD_SCHEMA

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


def judge_doubtful(spark: SparkSession, files: Sequence[str], worlds: Sequence[int]) -> pa.Table:
    """Findings (`FINDING_SCHEMA`) of these worlds, which the files have all rows of."""
    records = spark.read.schema(RECORD_SCHEMA).parquet(*files)
    nothing = split(spark.createDataFrame([], RECORD_SCHEMA)).quarantined
    with judging(records, nothing, files=files) as case:
        found = findings(case).filter(F.col("world").isin(*worlds)).select(*FINDING_SCHEMA.names).toArrow()
    return found.cast(to_arrow_schema(FINDING_SCHEMA))
