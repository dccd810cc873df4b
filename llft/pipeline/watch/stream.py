"""The watch on Structured Streaming: alarms are written exactly once, whatever is restarted.

Spark repeats a micro-batch that was not committed with the same rows and the same state, so it gives the same
alarms; each batch writes its own directory, at once and under its own number, so a repeated one changes
nothing. An alarm is told to people when its directory is first there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from llft.errors import MisuseError
from llft.pipeline.watch.runs import Run, unpacked
from llft.pipeline.watch.tail import WatchSource
from llft.pipeline.watch.watcher import Watcher

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

ALARM_SCHEMA = StructType(
    [
        StructField("condition", StringType()),
        StructField("group_id", LongType()),
        StructField("order_seq_num", LongType()),
        StructField("replica", StringType()),
        StructField("other_replica", StringType()),
        StructField("explanation", StringType()),
    ]
)
STATE_SCHEMA = StructType([StructField("watcher", BinaryType()), StructField("names", StringType())])
FORGET_AFTER_MS = 24 * 3600 * 1000
"""A group of which nothing was heard for so long leaves no state behind."""
MOST_NAMES = 256
"""Replicas of a group that are remembered by name; whoever writes tells its name again."""

STATE_STORE = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    # A batch writes down what it changed, and waits for no flush of the whole store to the disk.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}

Tell = Callable[[dict[str, Any]], None]


class GroupProcessor(StatefulProcessor):
    """Keeps one watcher for each group."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.state = handle.getValueState("watcher", STATE_SCHEMA, FORGET_AFTER_MS)

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        import pandas as pd

        known = self.state.get()
        watcher = Watcher.from_bytes(bytes(known[0])) if known is not None else Watcher()
        names: dict[str, str] = json.loads(known[1]) if known is not None else {}
        runs = [Run(*values) for frame in rows for values in frame.itertuples(index=False)]
        names.update({str(run.replica): run.name for run in runs})
        for number in list(names)[:-MOST_NAMES]:
            del names[number]
        alarms = watcher.step(unpacked(runs))
        self.state.update((watcher.to_bytes(), json.dumps(names)))
        if alarms:
            yield pd.DataFrame(
                [
                    (
                        alarm.condition,
                        key[0],
                        alarm.order_seq_num,
                        names.get(str(alarm.replica), ""),
                        names.get(str(alarm.other_replica), ""),
                        f"Group {key[0]}, replica {names.get(str(alarm.replica), '')}: {alarm.explanation}.",
                    )
                    for alarm in alarms
                ],
                columns=ALARM_SCHEMA.names,
            )

    def close(self) -> None:
        pass


def watch(
    spark: SparkSession, path: str, store: Path, tell: Tell, *, interval_ms: int = 200, once: bool = False
) -> StreamingQuery:
    """Starts to watch. `once`: what is there now, and no more."""
    if find_spec("google") is None:  # its workers would die without a word
        raise MisuseError("protobuf-missing", "pip install 'llft[pipeline]'")
    # A partition costs a flush and a commit for every micro-batch: more of them than cores only wait.
    cores = {"spark.sql.shuffle.partitions": str(spark.sparkContext.defaultParallelism)}
    for name, value in {**STATE_STORE, **cores}.items():
        spark.conf.set(name, value)
    spark.dataSource.register(WatchSource)
    rows = spark.readStream.format("llft_watch").option("path", path).load()
    alarms = rows.groupBy("group_id").transformWithStateInPandas(
        statefulProcessor=GroupProcessor(),
        outputStructType=ALARM_SCHEMA,
        outputMode="append",
        timeMode="processingTime",
    )
    writer = (
        alarms.writeStream.foreachBatch(lambda batch, number: keep(batch, number, store / "alarms", tell))
        .outputMode("append")
        .option("checkpointLocation", str((store / "checkpoint").resolve()))
    )
    trigger = {"availableNow": True} if once else {"processingTime": f"{interval_ms} milliseconds"}
    return writer.trigger(**trigger).start()


def keep(batch: DataFrame, number: int, directory: Path, tell: Tell) -> None:
    """Writes the alarms of a batch under its number, and tells those that are new."""
    alarms = [row.asDict() for row in batch.collect()]
    target = directory / f"{number:012d}.jsonl"
    if not alarms or target.exists():
        return
    directory.mkdir(parents=True, exist_ok=True)
    fresh = target.with_suffix(".new")
    fresh.write_text("".join(json.dumps(alarm) + "\n" for alarm in alarms), encoding="utf-8")
    os.replace(fresh, target)
    for alarm in alarms:
        tell(alarm)


def alarms_of(store: Path) -> list[dict[str, Any]]:
    """All that were ever given, in order."""
    return [
        json.loads(line)
        for path in sorted((store / "alarms").glob("*.jsonl"))
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
