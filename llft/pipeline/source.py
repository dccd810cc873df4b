"""The live tail of journals as a Spark data source: `spark.read` or `spark.readStream` of format
"llft_journal".

    spark.dataSource.register(JournalSource)
    spark.readStream.format("llft_journal").option("path", directory).load()

The offset of a stream is, for every file, the place behind its last whole frame: a torn tail waits for its
rest. A stream decodes each piece by itself, so what is derived from the records before (`performed`,
`previous`) is not known at the beginning of a piece; what does not parse is a row of kind "_Quarantined".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from llft.errors import MisuseError
from llft.journal.frame import FRAME, MAX_PAYLOAD_BYTES
from llft.journal.record import SCHEMA_VERSION
from llft.pipeline.decode import ProcessState, records_of
from llft.pipeline.frames import Data, Frame, Tail, scan
from llft.pipeline.ingest import decode_processes, journal_files
from llft.pipeline.schema import RECORD_SCHEMA
from llft.pipeline.segments import Header, Plan, Segment, open_data, plan, read_header

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

Ends = dict[str, int]
MOST_PARTITIONS = 4
"""Of a micro-batch of a stream."""


class JournalSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "llft_journal"

    def schema(self) -> StructType:
        return RECORD_SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        return JournalBatchReader(self._paths())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return JournalStreamReader(self._paths())

    def _paths(self) -> list[str]:
        path = self.options.get("path")
        if not path:
            raise MisuseError("no-path", 'give option("path", directory of journals)')
        return [path]


class PlanPartition(InputPartition):
    def __init__(self, text: str) -> None:
        self.text = text


class JournalBatchReader(DataSourceReader):
    def __init__(self, paths: list[str]) -> None:
        self.paths = paths

    def partitions(self) -> list[InputPartition]:
        return [PlanPartition(one.to_json()) for one in plan(journal_files(self.paths))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, PlanPartition)
        return decode_processes([Plan.from_json(partition.text)])


class Piece(NamedTuple):
    """What a file has got since."""

    path: str
    start: int
    end: int


class PiecesPartition(InputPartition):
    def __init__(self, pieces: list[Piece]) -> None:
        self.pieces = pieces


class JournalStreamReader(DataSourceStreamReader):
    def __init__(self, paths: list[str]) -> None:
        self.paths = paths
        self.ends: Ends = {}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return {}

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, Any]:  # noqa: N802
        """Spark 4.2 gives no arguments, 4.3 does."""
        for path in files_there(self.paths):
            self.ends[path] = whole_frames_end(path, self.ends.get(path, 0))
        return dict(self.ends)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        grown = (Piece(path, start.get(path, 0), upto) for path, upto in end.items())
        return bundled(piece for piece in grown if piece.end > piece.start)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, PiecesPartition)
        for piece in partition.pieces:
            yield from decode_piece(piece)

    def commit(self, end: dict[str, Any]) -> None:
        """The files stay: the audit reads them too."""


def bundled(pieces: Iterable[Piece]) -> list[InputPartition]:
    """A few partitions of about the same size: a task costs more than a file that has hardly grown."""
    bundles: list[list[Piece]] = [[] for _ in range(MOST_PARTITIONS)]
    sizes = [0] * MOST_PARTITIONS
    for piece in sorted(pieces, key=lambda one: one.start - one.end):
        smallest = sizes.index(min(sizes))
        bundles[smallest].append(piece)
        sizes[smallest] += piece.end - piece.start
    return [PiecesPartition(bundle) for bundle in bundles if bundle]


def files_there(paths: list[str]) -> list[str]:
    """None yet is no error for a stream: they may come."""
    try:
        return journal_files(paths)
    except MisuseError:
        return []


def whole_frames_end(path: str, start: int) -> int:
    """The place behind the last whole frame from `start` on, from lengths alone; damage is looked at
    closely."""
    data = open_data(path)
    header = read_header(data)
    if header is None or header.version > SCHEMA_VERSION:
        return start
    offset, size = max(start, header.size), len(data)
    while offset + FRAME.size <= size:
        length = FRAME.unpack_from(data, offset)[0]
        if not 0 < length <= MAX_PAYLOAD_BYTES:
            return next(piece.offset for piece in scan(data, offset) if isinstance(piece, Tail))
        if offset + FRAME.size + length > size:
            break
        offset += FRAME.size + length
    return offset


def decode_piece(piece: Piece) -> Iterator[pa.RecordBatch]:
    """The records of a file that begin in it."""
    path, start, end = piece
    data = open_data(path)
    header = read_header(data)
    number = header.segment if header is not None else 0
    state = ""
    if header is not None and start > header.size:
        state = _state_behind_a_gap(data, header)
    return decode_processes([Plan((Segment(number, (path,), start, end),), state)])


def _state_behind_a_gap(data: Data, header: Header) -> str:
    """Who writes, and how its clock goes, from the first record; but not what came between."""
    state = ProcessState(segment=header.segment)
    for piece in scan(data, header.size):
        if isinstance(piece, Frame):
            try:
                first = next(iter(records_of(piece.payload)), None)
            except (ValueError, RecursionError):
                continue
            if first is not None:
                state.derive(first)
                break
    state.forget()
    return state.to_json()
