"""Client histories in the audit: from the calls in journals to findings."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from llft.cli import seed_work
from llft.cli.load_history import LoadHistory
from llft.journal.record import Called
from llft.pipeline.campaign.encode import table_of
from llft.pipeline.campaign.gathered import Gathered, gather
from llft.pipeline.campaign.outcome import Cell
from llft.pipeline.histories.transform import CONDITION, check_histories
from llft.pipeline.ingest import read_journals

GROUP = 77


def loaded(spark: SparkSession, path: Path, *, balance_of_third: int = 18) -> DataFrame:
    """Three requests of each of two clients, and one that nobody answered."""
    history = LoadHistory(str(path / "clients.llj"), GROUP)
    for client in ("client1", "client2"):
        history.answered(client, 5, "1 5", 1, (10, 20))
        history.answered(client, 6, "2 11", 2, (30, 40))
        balance = balance_of_third if client == "client2" else 18
        history.answered(client, 7, f"3 {balance}", 3, (50, 60))
    history.unanswered("client1", 8, 70)
    history.close()
    return read_journals(spark, [path])


def test_the_history_of_a_load_is_clean(spark: SparkSession, tmp_path: Path) -> None:
    records = loaded(spark, tmp_path)
    assert records.filter("kind = 'Called'").count() == 7
    assert check_histories(records).collect() == []


def test_a_wrong_balance_is_found_at_its_place(spark: SparkSession, tmp_path: Path) -> None:
    [found] = check_histories(loaded(spark, tmp_path, balance_of_third=19)).collect()
    assert (found.condition, found.severity, found.group_id) == (CONDITION, "violation", GROUP)
    assert (found.order_seq_num, found.replica) == (3, "client2")
    assert found.found == "ADD 7 = 3 19"
    assert "wrong-history" in found.explanation


def test_histories_of_simulated_clients(spark: SparkSession) -> None:
    """Clean as they are; with two replies exchanged, real-time order is violated and the place is named."""
    outcome = seed_work.run_seed(1, Cell("crash"))
    calls = list(outcome.calls)
    assert len(calls) > 100
    assert check_histories(frame_of(spark, calls)).collect() == []
    answered = sorted((call for call in calls if call.call_order), key=lambda call: call.call_order)
    early, late = answered[5], answered[-5]
    assert early.return_ns < late.call_ns
    calls[calls.index(early)] = with_order(early, late.call_order)
    calls[calls.index(late)] = with_order(late, early.call_order)
    [found] = check_histories(frame_of(spark, calls)).collect()
    assert found.order_seq_num in range(early.call_order, late.call_order + 1)
    assert "wrong-real-time-order" in found.explanation
    assert "wrong-history" in found.explanation


def with_order(call: Called, order: int) -> Called:
    return call._replace(call_order=order, result=str(order))


def frame_of(spark: SparkSession, calls: list[Called]) -> DataFrame:
    gathered = Gathered()
    gather(gathered, calls, world=3)
    return spark.createDataFrame(table_of(gathered))
