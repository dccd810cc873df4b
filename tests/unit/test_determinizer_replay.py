"""Live runs, followed by other replicas; promotion and checkpoints at every entry of the log."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest

from llft.config import ThreadMode
from llft.core.determinizer.operations import Operation, Yield
from llft.errors import DivergenceError, MisuseError
from llft.identifiers import BirthId, ViewId
from llft.wire.order import (
    PRIMARY_VIEW,
    REMOTE_VIEW,
    SEND,
    Entry,
    OrderContext,
    OrderDecoder,
    OrderEncoder,
)
from tests.unit.determinizer_world import OutputDiffersError, Program, Replica

MODES = pytest.mark.parametrize("mode", list(ThreadMode), ids=lambda mode: mode.value)


def live(mode: ThreadMode, seed: int, incoming: int = 2, quantum_calls: int = 64) -> Replica:
    primary = Replica(mode, seed, incoming=incoming, name="primary", quantum_calls=quantum_calls)
    primary.begin_live()
    primary.run_live()
    return primary


def backup(
    mode: ThreadMode, seed: int, incoming: int = 2, name: str = "backup", quantum_calls: int = 64
) -> Replica:
    replica = Replica(mode, seed, incoming=incoming, skew_ns=10**12, name=name, quantum_calls=quantum_calls)
    replica.determinizer.start()
    replica.drain()
    return replica


@MODES
@pytest.mark.parametrize("seed", range(60))
def test_a_backup_does_what_the_primary_did(mode: ThreadMode, seed: int) -> None:
    primary = live(mode, seed, incoming=1 + seed % 4)
    follower = backup(mode, seed, incoming=1 + seed % 4)
    follower.follow(primary.log)
    assert follower.determinizer.caught_up
    assert follower.program.finished
    assert follower.outcome() == primary.outcome()
    assert follower.log == []


@pytest.mark.parametrize("seed", range(60))
def test_claims_and_releases_may_be_followed_together(seed: int) -> None:
    """As a cursor hands them on (D-72), and between view changes."""
    primary = live(ThreadMode.ORDERED, seed, incoming=1 + seed % 4)
    rng, view = random.Random(seed), ViewId(2, 2, BirthId(1, 2, 3))
    log: list[Entry] = []
    for entry in primary.log:
        log += [entry, (REMOTE_VIEW, 1, view, 7)][: 1 + (rng.random() < 0.1)]
    follower = backup(ThreadMode.ORDERED, seed, incoming=1 + seed % 4)
    consumed: list[tuple[int, Entry]] = []
    follower.determinizer.on_consumed = lambda number, entry: consumed.append((number, entry))
    follower.follow(log, locks_together=True)
    assert follower.outcome() == primary.outcome()
    assert sorted(consumed) == list(enumerate(log, 1))


@pytest.mark.parametrize("quantum_calls", [1, 2, 3, 5])
@pytest.mark.parametrize("seed", range(8))
def test_a_short_quantum_switches_alike(seed: int, quantum_calls: int) -> None:
    primary = live(ThreadMode.TOKEN, seed, quantum_calls=quantum_calls)
    for length in range(0, len(primary.log), 3):
        promoted = backup(ThreadMode.TOKEN, seed, quantum_calls=quantum_calls)
        promoted.follow(primary.log[:length])
        assert promoted.determinizer.caught_up
        promoted.determinizer.go_live(promoted.now_ns)
        promoted.drain()
        promoted.run_live()
        follower = backup(ThreadMode.TOKEN, seed, quantum_calls=quantum_calls)
        follower.follow(primary.log[:length] + promoted.log)
        assert follower.outcome() == promoted.outcome()


@MODES
@pytest.mark.parametrize("seed", range(8))
def test_through_the_codec_and_with_view_changes_between(mode: ThreadMode, seed: int) -> None:
    primary = live(mode, seed)
    rng = random.Random(seed)
    view = ViewId(2, 2, BirthId(1, 2, 3))
    log: list[Entry] = []
    for entry in primary.log:
        log.append(entry)
        if rng.random() < 0.1:
            log.append((PRIMARY_VIEW, view, ((1, 5),)) if rng.random() < 0.5 else (REMOTE_VIEW, 1, view, 7))
    encoder = OrderEncoder(OrderContext())
    for entry in log:
        encoder.append(entry)
    decoder = OrderDecoder(OrderContext())
    decoder.feed(encoder.take())
    follower = backup(mode, seed)
    consumed: list[tuple[int, Entry]] = []
    follower.determinizer.on_consumed = lambda number, entry: consumed.append((number, entry))
    follower.follow(iter(decoder.next, None))
    assert follower.outcome() == primary.outcome()
    barriers = [entry for entry in log if entry[0] >= PRIMARY_VIEW]
    assert follower.connections.passed_entries == barriers
    assert sorted(number for number, _ in consumed) == list(range(1, len(log) + 1))
    assert follower.determinizer.consumed_count == len(log)
    # A barrier comes after all that is before it in the log, and before all that is behind it.
    for place, (number, entry) in enumerate(consumed):
        if entry[0] >= PRIMARY_VIEW:
            assert number == place + 1


@MODES
@pytest.mark.parametrize("seed", range(2))
def test_promotion_at_every_prefix_of_the_log(mode: ThreadMode, seed: int) -> None:
    primary = live(mode, seed)
    for length in range(len(primary.log) + 1):
        prefix = primary.log[:length]
        promoted = backup(mode, seed, name=f"promoted {length}")
        promoted.follow(prefix)
        assert promoted.determinizer.caught_up, f"prefix of {length}"
        promoted.determinizer.go_live(promoted.now_ns)
        promoted.drain()
        promoted.run_live()
        other = backup(mode, seed, name="other")
        other.follow(prefix + promoted.log)
        assert other.determinizer.caught_up
        assert other.outcome() == promoted.outcome(), f"prefix of {length}"


class Checkpoint:
    def __init__(self, replica: Replica) -> None:
        self.state = replica.determinizer.snapshot()
        self.connections = copy.deepcopy(replica.connections)
        self.ready = list(replica.ready)
        self.history = list(replica.program.history)
        self.log_length = len(replica.log)

    def restore(self, mode: ThreadMode, seed: int, name: str) -> Replica:
        replica = Replica(mode, seed, skew_ns=-5_000_000, name=name)
        replica.connections = copy.deepcopy(self.connections)
        replica.program.repeat(self.history)
        replica.ready = list(self.ready)
        replica.determinizer = replica.new_determinizer()
        replica.determinizer.restore(self.state, replica.now_ns)
        return replica


def live_with_checkpoints(mode: ThreadMode, seed: int) -> tuple[Replica, list[Checkpoint]]:
    primary = Replica(mode, seed, name="primary")
    primary.begin_live()
    checkpoints = [Checkpoint(primary)]
    while not primary.program.finished:
        primary.live_step()
        checkpoints.append(Checkpoint(primary))
    return primary, checkpoints


@MODES
@pytest.mark.parametrize("seed", range(2))
def test_a_checkpoint_at_every_step_continues_identically(mode: ThreadMode, seed: int) -> None:
    primary, checkpoints = live_with_checkpoints(mode, seed)
    for checkpoint in checkpoints:
        joiner = checkpoint.restore(mode, seed, "joiner")
        joiner.follow(primary.log[checkpoint.log_length :])
        joiner.run_dry()
        assert joiner.determinizer.caught_up
        assert joiner.outcome() == primary.outcome()


@MODES
@pytest.mark.parametrize("seed", range(12))
def test_the_successor_of_a_primary_that_fails_at_its_checkpoint_is_where_the_checkpoint_is(
    mode: ThreadMode, seed: int
) -> None:
    """No later entry proves to the successor what the primary had decided; the checkpoint's own one must."""
    primary = Replica(mode, seed, name="primary")
    primary.begin_live()
    while not primary.program.finished:
        primary.live_step()
        if primary.rng.random() > 0.1:
            continue
        primary.determinizer.record_checkpoint()
        checkpoint = Checkpoint(primary)
        successor = backup(mode, seed, name=f"successor {checkpoint.log_length}")
        successor.follow(primary.log)
        assert successor.determinizer.caught_up
        successor.determinizer.go_live(successor.now_ns)
        successor.drain()
        successor.run_live()
        joiner = checkpoint.restore(mode, seed, "joiner")
        joiner.follow(successor.log)
        assert joiner.outcome() == successor.outcome()
    joiner = backup(mode, seed, name="joiner")
    joiner.follow(primary.log)
    assert joiner.outcome() == primary.outcome()


@MODES
def test_a_restored_replica_can_be_promoted(mode: ThreadMode) -> None:
    primary, checkpoints = live_with_checkpoints(mode, 5)
    for checkpoint in checkpoints[::3]:
        promoted = checkpoint.restore(mode, 5, "promoted")
        promoted.run_dry()
        promoted.determinizer.go_live(promoted.now_ns)
        promoted.drain()
        promoted.run_live()
        other = backup(mode, 5)
        other.follow(primary.log[: checkpoint.log_length] + promoted.log)
        assert other.outcome() == promoted.outcome()


@MODES
def test_a_backup_caught_up_captures_what_the_primary_would(mode: ThreadMode) -> None:
    primary, _ = live_with_checkpoints(mode, 3)
    for length in range(0, len(primary.log), 5):
        follower = backup(mode, 3)
        follower.follow(primary.log[:length])
        joiner = Checkpoint(follower).restore(mode, 3, "joiner")
        joiner.follow(primary.log[length:])
        assert joiner.outcome() == primary.outcome()


class Deviant(Program):
    """One of its threads ends early, after a given number of resumptions."""

    place = 0
    deviated = False

    def run(self, completion: Any) -> Operation | None:
        operation = super().run(completion)
        if len(self.history) == self.place and operation is not None:
            self.threads[completion[1]].close()
            del self.threads[completion[1]]
            self.deviated = True
            return None
        return operation


@MODES
@pytest.mark.parametrize("seed", range(10))
def test_a_backup_that_does_something_else_is_told(mode: ThreadMode, seed: int) -> None:
    primary = live(mode, seed)
    named: list[set[str]] = []
    for place in range(2, len(primary.program.history), 7):
        follower = backup(mode, seed)
        deviant = Deviant(follower.incoming, follower.program.racy)
        deviant.place = place
        follower.program = deviant
        try:
            follower.follow(primary.log)
            # Unnoticed only where the thread had nothing left to do that makes an entry.
            assert (follower.outcome() != primary.outcome()) == deviant.deviated
        except DivergenceError as error:
            named.append(set(error.parameters))
        except OutputDiffersError:
            continue
    assert named
    assert all(names == {"operation_id", "thread", "count", "expected", "found"} for names in named)


@MODES
def test_a_changed_entry_is_noticed(mode: ThreadMode) -> None:
    primary = live(mode, 1)
    for index, entry in enumerate(primary.log):
        changed = list(primary.log)
        changed[index] = (*entry[:2], entry[2] + 1, *entry[3:])
        follower = backup(mode, 1)
        try:
            follower.follow(changed)
        except DivergenceError:
            continue
        # Only this can still resolve itself, as far as a backup knows: a thread yet to be spawned.
        assert mode is ThreadMode.ORDERED
        assert not follower.determinizer.caught_up


@MODES
def test_misuse_is_refused(mode: ThreadMode) -> None:
    primary = live(mode, 0)
    with pytest.raises(MisuseError):
        primary.determinizer.follow(primary.log[0])
    with pytest.raises(MisuseError):
        primary.determinizer.go_live(0)
    with pytest.raises(MisuseError):
        primary.determinizer.start()
    with pytest.raises(MisuseError):
        primary.determinizer.restore(b"{}", 0)
    with pytest.raises(MisuseError):
        primary.determinizer.invoke(77, Yield(), 0)
    follower = backup(mode, 0)
    follower.ready.clear()
    for entry in primary.log:
        follower.determinizer.follow(entry)
    assert not follower.determinizer.caught_up
    with pytest.raises(MisuseError):
        follower.determinizer.go_live(0)
    with pytest.raises(MisuseError):
        follower.determinizer.snapshot()


@MODES
def test_other_seeds_give_other_logs(mode: ThreadMode) -> None:
    logs = {repr(live(mode, seed).log) for seed in range(5)}
    assert len(logs) == 5
    assert repr(live(mode, 3).log) == repr(live(mode, 3).log)


def test_digests_of_merged_sends_may_be_missing() -> None:
    primary = live(ThreadMode.TOKEN, 4)
    follower = backup(ThreadMode.TOKEN, 4)
    follower.follow([(*entry[:5], None) if entry[0] == SEND else entry for entry in primary.log])
    assert follower.outcome() == primary.outcome()
