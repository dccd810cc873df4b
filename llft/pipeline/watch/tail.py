"""The live tail of journals as runs, for the watch: a data source of format "llft_watch"."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from llft.pipeline.frames import payloads
from llft.pipeline.segments import open_data, read_header
from llft.pipeline.source import JournalSource, JournalStreamReader, Piece, PiecesPartition
from llft.pipeline.watch.runs import RUN_SCHEMA, Run
from llft.pipeline.watch.slim import runs_of

if TYPE_CHECKING:
    import pyarrow as pa


class WatchSource(JournalSource):
    @classmethod
    def name(cls) -> str:
        return "llft_watch"

    def schema(self) -> StructType:
        return RUN_SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return WatchStreamReader(self._paths())


class WatchStreamReader(JournalStreamReader):
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        from pyspark.sql.pandas.types import to_arrow_schema

        assert isinstance(partition, PiecesPartition)
        schema = to_arrow_schema(RUN_SCHEMA)
        for runs in (runs for piece in partition.pieces for runs in read_piece(piece)):
            columns = zip(zip(*runs, strict=True), schema, strict=True)
            arrays = [pa.array(values, one.type) for values, one in columns]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def read_piece(piece: Piece) -> Iterator[list[Run]]:
    """The runs of what a file has got; none of the lists is empty."""
    path, start, end = piece
    data = open_data(path)
    header = read_header(data)
    if header is None:
        return iter(())
    return runs_of(payloads(data, max(start, header.size), end))
