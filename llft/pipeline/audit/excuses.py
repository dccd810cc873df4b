"""What a pruned branch excuses: connections of which nobody is left silently wrong (D-07, D-11).

told       One end knows that the connection was reset.
finished   It was opened to a branch that was pruned, and closed by the end that is left before anybody could
           tell; the branch that survives at the other end never knew of it, as the pruned one did. Or both
           groups had a pruned branch, and each surviving branch closed it with the other's pruned one.

The simulator's checkers excuse the same (`simulator.checkers.excuses`); they know of the partition itself.
What proves one in journals is a replica that was superseded (`lives.Life.split_off`): a branch that is merely
not there any more may have been lost by a primary which should have gone on from it, and excuses nothing.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from llft.pipeline.audit.columns import by_other
from llft.pipeline.audit.connections import CONNECTION
from llft.pipeline.audit.lives import NO_LIMIT
from llft.pipeline.audit.losses import IS_CUT

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

BEFORE = ("process", "life")
END = (*CONNECTION, "group_id")
"""One end of a connection."""


def excused_connections(records: DataFrame, lives: DataFrame, near: DataFrame) -> DataFrame:
    """World and connection, of those in `near`."""
    rows = records.filter("kind IN ('Sent', 'Delivered', 'ConnectionEnded')").join(
        F.broadcast(near), list(CONNECTION), "left_semi"
    )
    ends = _ends(rows, lives)
    fate = {name: F.col(f"{name}_fate") for name in ("client", "server")}
    told = (fate["client"] == "reset") | (fate["server"] == "reset")
    met = ends.groupBy(*CONNECTION).agg(
        *(_of_end(name, "fate") for name in fate),
        *(_of_end(name, "known") for name in fate),
        *(_of_end(name, "met_astray") for name in fate),
        *(_of_end(name, "strayed") for name in fate),
    )
    split = _split_groups(lives)
    for name in fate:
        whose = split.select("world", F.col("group_id").alias(name), F.lit(True).alias(f"{name}_split"))
        met = met.withColumn(name, F.col(f"connection.{name}_group_id"))
        met = met.join(F.broadcast(whose), ["world", name], "left")
    finished = reduce(lambda left, right: left | right, _finished(fate))
    return met.filter(F.coalesce(told, F.lit(False)) | finished).select(*CONNECTION)


def _finished(fate: dict[str, Column]) -> list[Column]:
    """Null is false: nothing is known of that end."""

    def says(name: str) -> Column:
        return F.coalesce(F.col(name), F.lit(False))

    closed = {name: F.coalesce(one == "closed", F.lit(False)) for name, one in fate.items()}
    opened_to_pruned = [
        closed[one] & ~says(f"{other}_known") & says(f"{other}_met_astray") & says(f"{other}_split")
        for one, other in (("client", "server"), ("server", "client"))
    ]
    strayed = [says(f"{name}_strayed") & says(f"{name}_split") for name in fate]
    return [*opened_to_pruned, closed["client"] & closed["server"] & strayed[0] & strayed[1]]


def _of_end(name: str, what: str) -> Column:
    """Of several histories of a group the worst word counts: "reset" is greater than "closed"."""
    is_it = F.col("group_id") == F.col(f"connection.{name}_group_id")
    return F.max(F.when(is_it, F.col(what))).alias(f"{name}_{what}")


def _ends(rows: DataFrame, lives: DataFrame) -> DataFrame:
    """Of each end its fate, whether the surviving branch knew of it, a pruned one did, or went on with it.
    Only a primary's word on the end of a connection counts, for it is recorded with its order entry; and the
    first: an application that has closed cannot be told more."""
    whose = lives.select(*BEFORE, "epoch", "limit", "split_off")
    taken = rows.select(
        *("world", "group_id", "connection", *BEFORE, "kind", "how", "wall_ns", "size", "position"),
        *(F.coalesce("order_seq_num", "performed").alias("number"), by_other().alias("by_other")),
    ).join(F.broadcast(whose), list(BEFORE), "inner")
    kind = F.col("kind")
    # A delivery that follows the last surviving operation may belong to it or to the next.
    bound = F.when(kind == "Delivered", F.col("limit") - 1).otherwise(F.col("limit"))
    survives = F.coalesce(F.col("number") < bound, F.col("limit") == NO_LIMIT)
    ended = survives & (kind == "ConnectionEnded") & ~F.col("by_other")
    end_ns = F.when(ended, F.col("wall_ns"))
    # A branch that was pruned wrote bytes, or the end behind the message that opened the connection.
    astray = (
        ~survives & (kind == "Sent") & ((F.col("size") > 0) | (F.col("split_off") & (F.col("position") > 1)))
    )
    return taken.groupBy(*END, "epoch").agg(
        F.min_by("how", end_ns).alias("fate"),
        F.max(survives & ((kind != "ConnectionEnded") | ~F.col("by_other"))).alias("known"),
        F.max(~survives & F.col("split_off")).alias("met_astray"),
        F.max(astray).alias("strayed"),
    )


def _split_groups(lives: DataFrame) -> DataFrame:
    """Those of which somebody did behind a partition what the surviving branch does not have."""
    return lives.filter(F.col("split_off") & F.expr(IS_CUT)).select("world", "group_id").distinct()
