"""Journals of a fleet that never was, in the columns of sealed records: clean but for one operation.

A server group performs cycles of four operations: it receives, reads the clock, sends, and takes a mutex.
Its client sends and receives. Every fifty cycles there is a new connection. Rows are made by Spark in the
order in which they lie, so that no sort is needed beyond that of a file.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from llft.identifiers import BirthId
from llft.pipeline.schema import RECORD_SCHEMA

GROUPS = 64
REPLICAS = 3
CYCLES_PER_CONNECTION = 50
MESSAGE_BYTES = 100
OPERATIONS = 4
ROWS_PER_CYCLE = 7 * REPLICAS + 4
FILES = 16
START_NS = 1_700_000_000_000_000_000
CYCLE_NS = 1_000_000
CLIENTS_FROM = 1000
"""The client of server group g is group 1000 + g."""

PLANTED_GROUP, PLANTED_CYCLE = 20, 30
PLANTED_NUMBER = 2 + OPERATIONS * PLANTED_CYCLE + 3
PLANTED_REPLICA = str(BirthId(2, 2, START_NS))

LONG = "long"


def write_fleet(spark: SparkSession, rows: int, directory: str) -> None:
    cycles = max(PLANTED_CYCLE + 1, rows // (GROUPS * ROWS_PER_CYCLE))
    ticks = spark.range(0, GROUPS * cycles, 1, FILES).select(
        (F.col("id") / cycles).cast(LONG).alias("server"), (F.col("id") % cycles).alias("cycle")
    )
    begins = spark.range(0, GROUPS, 1, FILES).select(
        F.col("id").alias("server"), F.lit(-1).cast(LONG).alias("cycle")
    )
    made = _rows(ticks, _deeds()).unionByName(_rows(begins, _begins()))
    ordered = made.coalesce(FILES).sortWithinPartitions("rare", "kind", "group_id", "process", "place")
    ordered.write.mode("overwrite").option("parquet.block.size", 16 << 20).parquet(directory)


def _rows(ticks: DataFrame, deeds: list[Column]) -> DataFrame:
    every = ticks.select("server", "cycle", F.explode(F.array(*deeds)).alias("deed"))
    return every.select("server", "cycle", "deed.*").select(
        *(_column(field.name).cast(field.dataType).alias(field.name) for field in RECORD_SCHEMA)
    )


def _deed(kind: str, replica: int, index: int, *, rare: bool = False) -> Column:
    """`replica` 0 is the client; `index` is the operation of the cycle that it belongs to."""
    values = {"kind": kind, "replica": replica, "index": index, "rare": rare}
    return F.struct(*(F.lit(value).alias(name) for name, value in values.items()))


def _deeds() -> list[Column]:
    deeds = []
    for replica in range(1, REPLICAS + 1):
        deeds += [_deed("Operated", replica, index) for index in range(OPERATIONS)]
        deeds += [_deed("Delivered", replica, 0), _deed("ClockRead", replica, 1), _deed("Sent", replica, 2)]
    client = [_deed("Operated", 0, 0), _deed("Sent", 0, 0), _deed("Operated", 0, 1), _deed("Delivered", 0, 1)]
    return deeds + client


def _begins() -> list[Column]:
    kinds = ("MembershipChanged", "ViewInstalled", "RoleChanged")
    return [_deed(kind, replica, 0, rare=True) for replica in range(REPLICAS + 1) for kind in kinds]


def _column(name: str) -> Column:
    """Of a row that has server, cycle, kind, replica, index and rare."""
    return _COLUMNS[name]() if name in _COLUMNS else F.lit(None)


def _is_client() -> Column:
    return F.col("replica") == 0


def _group() -> Column:
    return F.when(_is_client(), F.col("server") + CLIENTS_FROM).otherwise(F.col("server"))


def _birth(replica: Column) -> Column:
    return F.struct(
        replica.cast(LONG).alias("host_id"),
        replica.cast(LONG).alias("pid"),
        F.lit(START_NS).alias("start_ns"),
    )


def _primary() -> Column:
    """The replica that is primary: the first, and a client's only one."""
    return F.when(_is_client(), F.lit(0)).otherwise(F.lit(1))


def _view() -> Column:
    return F.struct(
        F.lit(1).cast(LONG).alias("precedence"),
        F.lit(1).cast(LONG).alias("primary_view_num"),
        _birth(_primary()).alias("birth_id"),
    )


def _members() -> Column:
    def member(replica: int) -> Column:
        rank = F.lit(max(replica, 1)).cast(LONG)
        return F.struct(_birth(F.lit(replica)).alias("birth_id"), rank.alias("precedence"))

    servers = F.array(*(member(replica) for replica in range(1, REPLICAS + 1)))
    everybody = F.when(_is_client(), F.array(member(0))).otherwise(servers)
    return F.when(F.col("kind").isin("MembershipChanged", "ViewInstalled"), everybody)


def _of(*kinds: str) -> Column:
    return F.col("kind").isin(*kinds)


def _number() -> Column:
    per_cycle = F.when(_is_client(), 2).otherwise(OPERATIONS)
    number = 2 + F.col("cycle") * per_cycle + F.col("index")
    return F.when(_of("ViewInstalled"), F.lit(1)).when(_of("Operated", "Sent", "ClockRead"), number)


def _position() -> Column:
    return F.col("cycle") % CYCLES_PER_CONNECTION + 1


def _connection() -> Column:
    identity = F.struct(
        (F.col("server") + CLIENTS_FROM).alias("client_group_id"),
        F.col("server").alias("server_group_id"),
        ((F.col("cycle") / CYCLES_PER_CONNECTION).cast(LONG) + 1).alias("conn_seq_num"),
    )
    return F.when(_of("Sent", "Delivered"), identity)


def _digest() -> Column:
    """Of the direction up to there: the client's requests and the server's replies are different bytes."""
    upwards = (_is_client() & _of("Sent")) | (~_is_client() & _of("Delivered"))
    crc = F.abs(F.hash(upwards, "server", "cycle")).cast(LONG)
    return F.when(_of("Sent", "Delivered"), crc)


def _planted() -> Column:
    where = (F.col("server") == PLANTED_GROUP) & (F.col("cycle") == PLANTED_CYCLE) & (F.col("index") == 3)
    return where & (F.col("replica") == 2) & _of("Operated")


def _clock() -> Column:
    return START_NS + F.col("cycle") * CYCLE_NS


def _wall() -> Column:
    return START_NS + (F.col("cycle") + 1) * CYCLE_NS + F.col("index") * 1000 + F.col("replica") * 100


def _performed() -> Column:
    before = F.when(_of("Operated"), _cycle_number() - 1).otherwise(_cycle_number())
    return F.when(F.col("cycle") < 0, F.lit(0)).otherwise(F.when(before == 1, F.lit(0)).otherwise(before))


def _cycle_number() -> Column:
    per_cycle = F.when(_is_client(), 2).otherwise(OPERATIONS)
    return 2 + F.col("cycle") * per_cycle + F.col("index")


def _previous() -> Column:
    return (
        F.when(_of("ClockRead"), F.when(F.col("cycle") == 0, F.lit(0)).otherwise(_clock() - CYCLE_NS))
        .when(_of("Sent"), _position() - 1)
        .when(_of("Delivered"), (_position() - 1) * MESSAGE_BYTES)
    )


def _content() -> Column:
    """What replicas have in common: of the planted row it is something else."""
    common = F.xxhash64("kind", "server", "cycle", "index", _is_client())
    return F.when(_planted(), common + 1).when(_of("Operated", "Sent", "ClockRead"), common)


def _rare() -> Column:
    """The first operation follows none."""
    first = _of("Operated") & (F.col("cycle") == 0) & (F.col("index") == 0)
    return F.col("rare") | first


_COLUMNS = {
    "world": lambda: F.lit(0),
    "source": lambda: F.lit("synthetic"),
    "place": lambda: (F.col("cycle") + 1) * 64 + F.col("index") * 8 + F.when(_of("Operated"), 0).otherwise(1),
    "version": lambda: F.lit(2),
    "kind": lambda: F.col("kind"),
    "time_ns": _wall,
    "wall_ns": _wall,
    "group_id": _group,
    "birth_id": lambda: _birth(F.col("replica")),
    "view": _view,
    "role": lambda: F.when(_of("RoleChanged"), F.when(F.col("replica") < 2, "primary").otherwise("backup")),
    "change_num": lambda: F.when(_of("MembershipChanged"), F.lit(1)),
    "order_seq_num": _number,
    "membership": _members,
    "entry": lambda: F.when(
        _of("Operated"), F.concat(F.lit("operation "), F.when(_planted(), "X").otherwise("x"))
    ),
    "connection": _connection,
    "fd": lambda: F.when(_of("Sent", "Delivered"), F.lit(3)),
    "size": lambda: F.when(_of("Sent", "Delivered"), F.lit(MESSAGE_BYTES)),
    "stream_offset": lambda: F.when(_of("Delivered"), _position() * MESSAGE_BYTES),
    "digest": _digest,
    "position": lambda: F.when(_of("Sent"), _position()),
    "timestamp": lambda: F.when(_of("Sent"), F.col("cycle") * 10 + F.col("index")),
    "clock_id": lambda: F.when(_of("ClockRead"), F.lit(0)),
    "value_ns": lambda: F.when(_of("ClockRead"), _clock()),
    "process": lambda: F.xxhash64(_group(), F.col("replica")),
    "life": lambda: F.lit(0),
    "performed": _performed,
    "previous": _previous,
    "content": _content,
    "rare": _rare,
}
