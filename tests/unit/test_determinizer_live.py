"""The operations of a live program: followed, promoted at every prefix, checkpointed at every step."""

from __future__ import annotations

import copy

import pytest

from llft.config import ThreadMode
from llft.core.determinizer.operations import Obtain
from llft.errors import DivergenceError
from llft.wire.order import OrderContext, OrderDecoder, OrderEncoder
from tests.unit.determinizer_live_program import LiveProgram
from tests.unit.determinizer_world import OutputDiffersError, Replica

MODES = pytest.mark.parametrize("mode", list(ThreadMode), ids=lambda mode: mode.value)
QUANTA = (64, 1, 2, 3, 5)


def build(mode: ThreadMode, seed: int, name: str, skew_ns: int = 10**12) -> Replica:
    return Replica(
        mode,
        seed,
        incoming=1 + seed % 4,
        skew_ns=skew_ns,
        name=name,
        quantum_calls=QUANTA[seed % len(QUANTA)],
        program=LiveProgram,
    )


def live(mode: ThreadMode, seed: int) -> Replica:
    primary = build(mode, seed, "primary", 0)
    primary.begin_live()
    primary.run_live()
    return primary


def backup(mode: ThreadMode, seed: int, name: str = "backup") -> Replica:
    replica = build(mode, seed, name)
    replica.determinizer.start()
    replica.drain()
    return replica


def promote(replica: Replica) -> None:
    assert replica.determinizer.caught_up
    replica.determinizer.go_live(replica.now_ns)
    replica.drain()
    replica.run_live()


class Checkpoint:
    def __init__(self, replica: Replica) -> None:
        self.state = replica.determinizer.snapshot()
        self.connections = copy.deepcopy(replica.connections)
        self.ready = list(replica.ready)
        self.history = list(replica.program.history)
        self.log_length = len(replica.log)

    def restore(self, mode: ThreadMode, seed: int, name: str) -> Replica:
        replica = build(mode, seed, name, -5_000_000)
        replica.connections = copy.deepcopy(self.connections)
        replica.program.repeat(self.history)
        replica.ready = list(self.ready)
        determinizer = replica.determinizer = replica.new_determinizer()
        determinizer.restore(self.state, replica.now_ns)
        resumed = {thread for _, thread, _ in self.ready}
        for thread in replica.program.threads:
            operation = replica.program.waiting[thread]
            assert thread not in resumed or determinizer.is_out(thread)
            if determinizer.is_out(thread) and thread not in resumed:
                assert isinstance(operation, Obtain)
                determinizer.invoke(thread, operation, replica.now_ns)
                replica.drain()
        return replica


def live_with_checkpoints(mode: ThreadMode, seed: int) -> tuple[Replica, list[Checkpoint]]:
    primary = build(mode, seed, "primary", 0)
    primary.begin_live()
    checkpoints = [Checkpoint(primary)]
    while not primary.program.finished:
        primary.live_step()
        checkpoints.append(Checkpoint(primary))
        assert len(checkpoints) < 3_000
    return primary, checkpoints


@MODES
@pytest.mark.parametrize("seed", range(40))
def test_a_backup_does_what_the_primary_did(mode: ThreadMode, seed: int) -> None:
    primary = live(mode, seed)
    encoder = OrderEncoder(OrderContext())
    for entry in primary.log:
        encoder.append(entry)
    decoder = OrderDecoder(OrderContext())
    decoder.feed(encoder.take())
    follower = backup(mode, seed)
    follower.follow(iter(decoder.next, None))
    assert follower.determinizer.caught_up
    assert follower.program.finished
    assert follower.outcome() == primary.outcome()
    assert follower.connections.established() == primary.connections.established()
    assert follower.log == []


@MODES
@pytest.mark.parametrize("seed", range(2))
def test_promotion_at_every_prefix_of_the_log(mode: ThreadMode, seed: int) -> None:
    primary = live(mode, seed)
    for length in range(seed, len(primary.log) + 1, 2):
        prefix = primary.log[:length]
        promoted = backup(mode, seed, f"promoted {length}")
        promoted.follow(prefix)
        promote(promoted)
        other = backup(mode, seed, "other")
        other.follow(prefix + promoted.log)
        assert other.determinizer.caught_up
        assert other.outcome() == promoted.outcome(), f"prefix of {length}"


@MODES
@pytest.mark.parametrize("seed", range(2))
def test_a_checkpoint_at_every_step_continues_identically(mode: ThreadMode, seed: int) -> None:
    primary, checkpoints = live_with_checkpoints(mode, seed)
    for number, checkpoint in enumerate(checkpoints[seed::2]):
        joiner = checkpoint.restore(mode, seed, "joiner")
        joiner.run_dry()
        joiner.follow(primary.log[checkpoint.log_length :])
        assert joiner.determinizer.caught_up
        assert joiner.outcome() == primary.outcome()
        if number % 9 == 0:
            promoted = checkpoint.restore(mode, seed, "promoted")
            promoted.run_dry()
            promote(promoted)
            other = backup(mode, seed, "other")
            other.follow(primary.log[: checkpoint.log_length] + promoted.log)
            assert other.outcome() == promoted.outcome()


@MODES
@pytest.mark.parametrize("seed", [3])
def test_a_checkpoint_of_a_backup_at_every_entry(mode: ThreadMode, seed: int) -> None:
    primary = live(mode, seed)
    follower = backup(mode, seed)
    follower.run_dry()
    for length, entry in enumerate(primary.log):
        joiner = Checkpoint(follower).restore(mode, seed, "joiner")
        joiner.follow(primary.log[length:])
        assert joiner.outcome() == primary.outcome()
        follower.follow([entry])


@MODES
def test_a_changed_entry_is_noticed(mode: ThreadMode) -> None:
    primary = live(mode, 1)
    unnoticed = 0
    for index, entry in enumerate(primary.log):
        changed = list(primary.log)
        changed[index] = (*entry[:2], entry[2] + 1, *entry[3:])
        follower = backup(mode, 1)
        try:
            follower.follow(changed)
        except (DivergenceError, OutputDiffersError):
            continue
        unnoticed += 1
        assert mode is ThreadMode.ORDERED
        assert not follower.determinizer.caught_up
    assert unnoticed < len(primary.log) // 2
