"""The simulated world itself, with a toy core: determinism, the network's laws, the shell's laws, the
injector's restraint."""

from __future__ import annotations

import os
import subprocess
import sys
from ast import literal_eval
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from llft.config import GroupConfig, ThreadMode
from llft.core import effects, events
from llft.core.determinizer.operations import Operation, ReadClock, Result
from llft.errors import MisuseError
from llft.instant import MS, NEVER, SECOND, US
from llft.journal.reader import read_journal
from llft.simulator import faults
from llft.simulator.checkers.survey import Survey
from llft.simulator.checkers.violation import Violation
from llft.simulator.clocks import LocalClock
from llft.simulator.cluster import Cluster
from llft.simulator.drawing import draw_topology
from llft.simulator.evidence import Evidence
from llft.simulator.injector import Injector
from llft.simulator.network import CERTIFICATE_MIN_NS, PERFECT, LinkQuality, Network, damage, refused
from llft.simulator.options import SimulationOptions
from llft.simulator.partitions import PARTITIONS, blocked_links
from llft.simulator.process import RECEIVE_BUFFER_DATAGRAMS, Process
from llft.simulator.profiles import PROFILES, TOPOLOGIES, find_profile
from llft.simulator.runner import Simulation, run_seed
from llft.simulator.topology import GroupSpec, Topology
from llft.simulator.world import World
from llft.wire.codec import decode, encode
from llft.wire.messages import Header, Message, MessageType
from tests.simulation.fake_core import FakeProgram, FakeReplica

ROOT = Path(__file__).parents[2]


def simulate(seed: int, profile: str = "default", *, trace: bool = False) -> Simulation:
    options = SimulationOptions(profile=profile, trace=trace)
    simulation = Simulation(seed, options, core=FakeReplica, program=FakeProgram)
    simulation.run()
    return simulation


class TestWorld:
    def test_ties_are_broken_by_the_order_of_scheduling(self) -> None:
        world, seen = World(1), list[int]()
        for number in range(20):
            world.at(5, seen.append, number)
        assert world.run(until_ns=10, event_limit=100)
        assert seen == list(range(20))
        assert world.now_ns == 10

    def test_streams_are_independent_of_each_other_and_of_the_run(self) -> None:
        assert World(7).stream("network").random() == World(7).stream("network").random()
        assert World(7).stream("network").random() != World(7).stream("faults").random()
        assert World(7).stream("network").random() != World(8).stream("network").random()

    def test_events_without_progress_of_time_end_the_run(self) -> None:
        world = World(1)

        def again(_: None) -> None:
            world.at(world.now_ns, again)

        world.at(0, again)
        assert not world.run(until_ns=SECOND, event_limit=1000)
        assert world.event_count == 1000


class TestDeterminism:
    def test_same_seed_same_trace_other_seed_other_trace(self) -> None:
        hashes = [simulate(seed).world.trace.hexdigest() for seed in (3, 3, 4)]
        assert hashes[0] == hashes[1] != hashes[2]

    def test_the_hash_does_not_depend_on_tracing(self) -> None:
        traced, untraced = simulate(5, trace=True), simulate(5)
        assert traced.world.trace.hexdigest() == untraced.world.trace.hexdigest()
        assert untraced.world.trace.lines == []
        assert any(" (backup v1/p1) <- KEEP_ALIVE S>S#0 " in line for line in traced.world.trace.lines)
        assert any(" !! crash S." in line for line in traced.world.trace.lines)

    def test_the_hash_does_not_depend_on_the_hash_seed(self) -> None:
        script = (
            "from tests.simulation.test_world import simulate; print(simulate(9).world.trace.hexdigest())"
        )
        outputs = {
            subprocess.run(
                [sys.executable, "-c", script],
                cwd=ROOT,
                env={**os.environ, "PYTHONHASHSEED": hash_seed},
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            for hash_seed in ("1", "2")
        }
        assert outputs == {simulate(9).world.trace.hexdigest() + "\n"}


class Receiver:
    def __init__(self, world: World, number: int = 1) -> None:
        self.number = number
        self.arrivals: list[tuple[int, bytes]] = []
        self.receive: Callable[[bytes], None] = lambda data: self.arrivals.append((world.now_ns, data))


def transmit(quality: LinkQuality, count: int, *, quiet: bool = False) -> tuple[Network, Receiver]:
    """Send numbered datagrams over one link, one every 10 us."""
    world = World(11)
    network, receiver = Network(world, world.stream("network"), quality), Receiver(world)
    if quiet:
        network.begin_quiet()

    def send(number: int) -> None:
        header = Header(MessageType.REQUEST, 1, 2, msg_seq_num=number)
        network.send(0, receiver, encode(Message(header, payload=b"x" * 50)))

    for number in range(1, count + 1):
        world.at(number * 10 * US, send, number)
    world.run(until_ns=10 * SECOND, event_limit=10 * count)
    return network, receiver


class TestNetwork:
    def test_a_perfect_link_keeps_order_and_loses_nothing(self) -> None:
        _, receiver = transmit(PERFECT, 500)
        data = [data for _, data in receiver.arrivals]
        assert len(data) == 500
        assert data == sorted(data, key=_seq_num)

    def test_loss_and_duplication_have_their_rates(self) -> None:
        network, receiver = transmit(LinkQuality(loss=0.1, duplication=0.05), 4000)
        assert 300 < network.counters["lost"] < 500
        assert 130 < network.counters["duplicated"] < 270
        expected = 4000 - network.counters["lost"] + network.counters["duplicated"]
        assert len(receiver.arrivals) == expected

    def test_reordering_overtakes(self) -> None:
        _, receiver = transmit(LinkQuality(reorder=0.2), 500)
        numbers = [_seq_num(data) for _, data in receiver.arrivals]
        assert sorted(numbers) == list(range(1, 501))
        assert numbers != sorted(numbers)

    def test_a_damaged_datagram_never_arrives_as_another_valid_one(self) -> None:
        network, receiver = transmit(LinkQuality(corruption=1.0), 500)
        assert network.counters["corrupted"] == 500
        assert receiver.arrivals
        assert all(refused(data) for _, data in receiver.arrivals)

    def test_damage_changes_or_shortens(self) -> None:
        rng = World(1).stream("damage")
        assert damage(rng, b"") == b""
        assert all(len(damage(rng, b"abc")) <= 3 for _ in range(50))

    def test_quiet_is_perfect_and_faster_than_a_certificate(self) -> None:
        quality = LinkQuality(loss=0.2, duplication=0.2, reorder=0.2, corruption=0.2, spike=0.2)
        network, receiver = transmit(quality, 300, quiet=True)
        delays = [arrival - (index + 1) * 10 * US for index, (arrival, _) in enumerate(receiver.arrivals)]
        assert len(delays) == 300
        assert max(delays) < CERTIFICATE_MIN_NS
        network.end_quiet()
        network.set_quality(None)

    def test_a_burst_does_not_break_the_quiet(self) -> None:
        world = World(1)
        network, receiver = Network(world, world.stream("network"), PERFECT), Receiver(world)
        network.begin_quiet()
        network.set_quality(LinkQuality(loss=1.0))
        network.send(0, receiver, b"quiet")
        network.end_quiet()
        network.set_quality(LinkQuality(loss=1.0))
        network.send(0, receiver, b"burst")
        network.set_quality(None)
        world.run(until_ns=SECOND, event_limit=10)
        assert [data for _, data in receiver.arrivals] == [b"quiet"]

    def test_loss_may_be_selective(self) -> None:
        world = World(1)
        network = Network(world, world.stream("network"), PERFECT)
        one, two = Receiver(world, 1), Receiver(world, 2)
        network.set_quality(LinkQuality(loss=1.0), receiver=2)
        for receiver in (one, two):
            network.send(0, receiver, b"during")
        network.set_quality(None)
        network.send(0, two, b"after")
        world.run(until_ns=SECOND, event_limit=10)
        assert [data for _, data in one.arrivals] == [b"during"]
        assert [data for _, data in two.arrivals] == [b"after"]

    def test_blocked_links_are_directed(self) -> None:
        world = World(1)
        network = Network(world, world.stream("network"), PERFECT)
        one, two = Receiver(world, 1), Receiver(world, 2)
        network.block([(1, 2)])
        network.send(1, two, b"blocked")
        network.send(2, one, b"open")
        network.heal()
        network.send(1, two, b"healed")
        world.run(until_ns=SECOND, event_limit=10)
        assert [data for _, data in one.arrivals] == [b"open"]
        assert [data for _, data in two.arrivals] == [b"healed"]


def _seq_num(data: bytes) -> int:
    return decode(data).header.msg_seq_num


class TestClocks:
    def test_skew_drift_and_jump(self) -> None:
        world = World(1)
        clock = LocalClock(world, world.stream("clocks"), skew_limit_ns=SECOND, drift_limit_ppm=1000)
        other = LocalClock(world, world.stream("other"), skew_limit_ns=SECOND, drift_limit_ppm=1000)
        assert clock.read(0) != other.read(0)
        wall_ns, boot_ns = clock.read(0), clock.read(1)
        world.run(until_ns=SECOND, event_limit=1)
        elapsed_ns = clock.read(0) - wall_ns
        assert elapsed_ns == clock.read(1) - boot_ns
        assert abs(elapsed_ns - SECOND) <= MS
        clock.jump(-5 * SECOND)
        assert clock.read(0) == wall_ns + elapsed_ns - 5 * SECOND
        assert clock.read(1) == boot_ns + elapsed_ns


class ScriptedCore(FakeReplica):
    """Starts the application at once; otherwise answers an event with the effects prepared for its type."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.role = "primary"
        self.answers: dict[type, list[effects.Effect]] = {}
        self.deadline_ns = NEVER
        self.times: list[int] = []

    def next_deadline(self) -> int:
        return self.deadline_ns

    def step(self, event: events.Event, now_ns: int) -> list[effects.Effect]:
        self.events.append(event)
        self.times.append(now_ns)
        if isinstance(event, events.DeadlinePassed):
            self.deadline_ns = NEVER
        return self.answers.get(type(event), [])


BAD_RESULT = b"bad"


class Recorder:
    """A program that notes which thread ran with which result, and asks for the clock each time."""

    finished = False

    def __init__(self, spec: GroupSpec) -> None:
        self.calls: list[tuple[int, object]] = []

    def start_thread(self, thread: int, argument: object) -> Operation | None:
        self.calls.append((thread, argument))
        return ReadClock()

    def resume(self, thread: int, result: Result) -> Operation | None:
        self.calls.append((thread, result))
        if result == BAD_RESULT:
            raise ValueError("a program's own mistake")
        return None if result is None else ReadClock()

    def capture(self) -> bytes:
        return repr(self.calls).encode()

    def restore(self, state: bytes) -> None:
        self.calls = literal_eval(state.decode())


def small_cluster(
    seed: int = 1, *, replicas: int = 2, threads: ThreadMode = ThreadMode.TOKEN
) -> tuple[World, Cluster]:
    """One group of scripted cores, all started."""
    world = World(seed)
    spec = GroupSpec(9, "S", "server", (), replicas, 1, "locked", GroupConfig(9, threads=threads))
    network = Network(world, world.stream("network"), PERFECT)
    profile = replace(PROFILES["calm"], certificate=1.0)
    cluster = Cluster(
        world, network, profile, Topology("test", (spec,)), make_core=ScriptedCore, make_program=Recorder
    )
    cluster.start()
    run(world, 20 * MS)
    return world, cluster


def run(world: World, duration_ns: int) -> None:
    assert world.run(until_ns=world.now_ns + duration_ns, event_limit=100_000)


def core_of(process: Process) -> ScriptedCore:
    assert isinstance(process.core, ScriptedCore)
    return process.core


def program_of(process: Process) -> Recorder:
    assert isinstance(process.program, Recorder)
    return process.program


def answer(process: Process, *todo: effects.Effect) -> None:
    """Have the core answer the next SwitchRequested with these effects, and let that happen."""
    core_of(process).answers[events.SwitchRequested] = list(todo)
    process.happen(events.SwitchRequested())


class TestProcess:
    def test_multicast_reaches_the_others_and_transmit_reaches_one(self) -> None:
        world, cluster = small_cluster(replicas=3)
        one, two, three = cluster.processes
        answer(one, effects.Multicast(9, b"to all"), effects.Transmit(three.birth_id, b"to one"))
        run(world, MS)
        assert events.MessageReceived(b"to all") not in core_of(one).events
        assert core_of(two).events[1:] == [events.MessageReceived(b"to all")]
        assert core_of(three).events[1:] == [
            events.MessageReceived(b"to all"),
            events.MessageReceived(b"to one"),
        ]

    def test_the_timer_follows_the_next_deadline(self) -> None:
        world, cluster = small_cluster()
        process = cluster.processes[0]
        core = core_of(process)
        core.deadline_ns = later_ns = world.now_ns + 5 * MS
        process.happen(events.SwitchRequested())
        core.deadline_ns = sooner_ns = world.now_ns + 2 * MS
        process.happen(events.SwitchRequested())
        run(world, 3 * MS)
        core.deadline_ns = later_ns
        process.happen(events.SwitchRequested())
        run(world, 10 * MS)
        passed = [
            time
            for time, event in zip(core.times, core.events, strict=True)
            if isinstance(event, events.DeadlinePassed)
        ]
        assert passed == [sooner_ns, later_ns]

    def test_token_threads_run_in_the_order_of_resumption(self) -> None:
        for seed in range(5):
            world, cluster = small_cluster(seed)
            answer(cluster.processes[0], *(effects.ResumeThread(thread, 0) for thread in range(1, 9)))
            run(world, 5 * MS)
            assert program_of(cluster.processes[0]).calls == [(thread, 0) for thread in range(1, 9)]

    def test_ordered_threads_run_in_an_order_of_each_replica(self) -> None:
        world, cluster = small_cluster(replicas=3, threads=ThreadMode.ORDERED)
        orders = []
        for process in cluster.processes:
            answer(process, *(effects.ResumeThread(thread, 0) for thread in range(1, 9)))
            run(world, 5 * MS)
            orders.append(program_of(process).calls)
        assert sorted(orders[0]) == sorted(orders[1]) == [(thread, 0) for thread in range(1, 9)]
        assert len({tuple(order) for order in orders}) == 3

    def test_capture_takes_results_that_were_not_run_and_restore_runs_them(self) -> None:
        world, cluster = small_cluster()
        one, two = cluster.processes
        answer(one, effects.StartApplication())
        run(world, MS)
        answer(one, effects.StartThread(2, "argument"), effects.ResumeThread(1, 77), effects.CaptureState())
        captured = core_of(one).events[-1]
        assert isinstance(captured, events.StateCaptured)
        answer(two, effects.RestoreState(captured.state))
        run(world, 5 * MS)
        for process in (one, two):
            assert program_of(process).calls == [(1, None), (2, "argument"), (1, 77)]

    def test_effects_of_the_capture_come_after_those_that_were_issued_before_it(self) -> None:
        world, cluster = small_cluster()
        one, two = cluster.processes
        core_of(one).answers[events.StateCaptured] = [effects.Multicast(9, b"second")]
        answer(one, effects.CaptureState(), effects.Multicast(9, b"first"))
        run(world, MS)
        received = [event.data for event in core_of(two).events if isinstance(event, events.MessageReceived)]
        assert received == [b"first", b"second"]

    def test_reset_gives_a_new_birth_and_a_fresh_program(self) -> None:
        world, cluster = small_cluster()
        process = cluster.processes[0]
        answer(process, effects.StartApplication())
        run(world, MS)
        old_birth, old_core = process.birth_id, process.core
        answer(process, effects.ResumeThread(1, 5), effects.ResetApplication())
        run(world, MS)
        assert process.birth_id != old_birth
        assert process.core is not old_core
        assert core_of(process).events == [events.Started(may_found=False, former=old_birth)]
        assert program_of(process).calls == []

    def test_reset_without_a_new_birth_keeps_the_core(self) -> None:
        _, cluster = small_cluster()
        process = cluster.processes[0]
        old_birth, old_program = process.birth_id, process.program
        answer(process, effects.ResetApplication(new_birth_wanted=False))
        assert process.birth_id == old_birth
        assert process.program is not old_program

    def test_a_paused_process_does_nothing_and_its_buffer_is_bounded(self) -> None:
        world, cluster = small_cluster()
        process = cluster.processes[0]
        core = core_of(process)
        answer(process, effects.ResumeThread(1, 3))
        core.deadline_ns = world.now_ns + MS
        event_count = len(core.events)
        cluster.pause(process, 10 * MS)
        for _ in range(RECEIVE_BUFFER_DATAGRAMS + 10):
            process.receive(b"datagram")
        run(world, 9 * MS)
        assert len(core.events) == event_count
        assert program_of(process).calls == []
        run(world, 2 * MS)
        assert core.events.count(events.MessageReceived(b"datagram")) == RECEIVE_BUFFER_DATAGRAMS
        assert events.DeadlinePassed() in core.events
        assert program_of(process).calls == [(1, 3)]

    def test_a_crash_leaves_what_is_in_flight_and_gives_certificates(self) -> None:
        world, cluster = small_cluster()
        one, two = cluster.processes
        answer(one, effects.Multicast(9, b"last words"), effects.ResumeThread(1, 3))
        cluster.crash(one)
        answer(two, effects.Multicast(9, b"too late"))
        run(world, 5 * MS)
        assert core_of(two).events[-2:] == [
            events.MessageReceived(b"last words"),
            events.PeerDied(one.birth_id),
        ]
        assert program_of(one).calls == []
        assert events.MessageReceived(b"too late") not in core_of(one).events

    def test_no_certificate_passes_a_partition_and_a_pause_gives_none(self) -> None:
        world, cluster = small_cluster(replicas=3)
        one, two, three = cluster.processes
        cluster.pause(two, 2 * MS)
        run(world, 5 * MS)
        cluster.network.block([(one.number, three.number)])
        cluster.crash(one)
        run(world, 5 * MS)
        assert events.PeerDied(one.birth_id) in core_of(two).events
        assert events.PeerDied(one.birth_id) not in core_of(three).events
        assert events.PeerDied(two.birth_id) not in core_of(three).events

    def test_stop_ends_the_process_after_its_last_effects(self) -> None:
        world, cluster = small_cluster()
        one, two = cluster.processes
        answer(one, effects.Stop("done"), effects.Multicast(9, b"goodbye"))
        run(world, 5 * MS)
        assert not one.alive
        assert events.MessageReceived(b"goodbye") in core_of(two).events
        assert cluster.core_failures == []

    def test_a_core_or_program_that_raises_is_reported(self) -> None:
        world, cluster = small_cluster()
        one, two = cluster.processes
        answer(one, effects.ResumeThread(1, BAD_RESULT))
        answer(two, "no effect")  # type: ignore[arg-type]
        run(world, 5 * MS)
        assert not one.alive
        assert not two.alive
        assert sorted(text[:3] for text in cluster.core_failures) == ["S.1", "S.2"]
        assert any("a program's own mistake" in text for text in cluster.core_failures)

    def test_births_are_never_used_twice(self) -> None:
        births = [process.birth_id for process in simulate(2, "pause").cluster.processes]
        assert len(set(births)) == len(births)


class TestInjector:
    @pytest.mark.parametrize("profile", ["default", "double-crash", "pause", "partition"])
    def test_groups_survive_and_primaries_fail(self, profile: str) -> None:
        failures = 0
        for seed in range(4):
            simulation = simulate(seed, profile)
            assert simulation.quiesced, simulation.describe_unrest()
            assert simulation.cluster.core_failures == []
            failures += simulation.primary_failures
        assert failures >= 2 * 4

    def test_the_last_member_with_state_is_never_taken(self) -> None:
        world, cluster = small_cluster(replicas=2)
        one, two = cluster.processes
        plan: list[faults.Fault] = [
            faults.CrashPrimary(world.now_ns + MS, 9),
            faults.PausePrimary(world.now_ns + MS, 9, MS),
        ]
        core_of(two).role, core_of(two).has_state = "backup", False
        injector = Injector(cluster, plan)
        run(world, SECOND)
        assert injector.performed == []
        assert injector.skipped_count == 2
        assert injector.idle
        core_of(two).has_state = True
        injector = Injector(cluster, [faults.CrashPrimary(world.now_ns + MS, 9)])
        run(world, 10 * MS)
        assert [fault.victims for fault in injector.performed] == [((9, one.birth_id),)]

    def test_around_a_double_crash_nothing_is_lost(self) -> None:
        options = SimulationOptions(profile="double-crash")
        simulation = Simulation(1, options, core=FakeReplica, program=FakeProgram)
        network, world = simulation.network, simulation.world
        losses: list[tuple[int, int]] = []

        def look(_: None) -> None:
            losses.append((world.now_ns, network.counters["lost"]))
            world.at(world.now_ns + MS, look)

        network.set_quality(None)
        world.at(0, look)
        simulation.run()
        crashes = [fault for fault in simulation.injector.performed if fault.kind == "CrashPrimaries"]
        assert crashes
        for crash in crashes:
            near = [
                lost for time_ns, lost in losses if crash.at_ns - 29 * MS <= time_ns <= crash.at_ns + 59 * MS
            ]
            assert len(set(near)) == 1
        assert network.counters["lost"] > 0

    def test_nobody_counts_on_a_member_that_is_leaving(self) -> None:
        world, cluster = small_cluster(replicas=2)
        core_of(cluster.processes[1]).role = "backup"
        cluster.processes[1].leave()
        injector = Injector(cluster, [faults.CrashPrimary(world.now_ns + MS, 9)])
        run(world, SECOND)
        assert injector.performed == []

    def test_every_kind_of_partition_blocks_links_of_its_group(self) -> None:
        simulation = simulate(3, "calm")
        cluster = simulation.cluster
        group = next(group for group in cluster.groups.values() if len(group.processes) > 1)
        members = {process.number for process in group.processes}
        for kind in PARTITIONS:
            links = blocked_links(simulation.world.stream(kind), cluster, group, kind)
            assert kind == "split-all" or links
            assert kind == "split-all" or all(members & set(link) for link in links) or "clients" in kind
            assert all(sender != receiver for sender, receiver in links)


class TestPlans:
    def test_plans_follow_from_the_seed_alone_and_end_before_the_horizon(self) -> None:
        for profile in PROFILES.values():
            for seed in range(10):
                plans = []
                for _ in range(2):
                    world = World(seed)
                    topology = draw_topology(world.stream("topology"), profile, SimulationOptions())
                    plans.append(faults.plan(world.stream("faults"), profile, topology))
                assert plans[0] == plans[1]
                assert all(fault.at_ns < profile.horizon_ns + 30 * MS for fault in plans[0])
                assert bool(plans[0]) == bool(profile.faults)

    @pytest.mark.parametrize("name", list(TOPOLOGIES))
    def test_options_decide_what_they_name(self, name: str) -> None:
        options = SimulationOptions(topology=name, replicas=4, replication="semi-passive", threads="ordered")
        for seed in range(5):
            topology = draw_topology(World(seed).stream("topology"), find_profile("default"), options)
            assert topology.name == name
            server = topology.groups[0]
            assert server.replicas == 4
            for spec in topology.groups:
                assert spec.replicas in (1, 4)
                assert spec.config.replication.value == "semi-passive"
                assert spec.config.threads is ThreadMode.ORDERED
                assert "racy" not in spec.variant
                assert all(spec.group_id in topology.neighbours(server) for server in spec.servers)

    @pytest.mark.parametrize(
        "options",
        [
            SimulationOptions(profile="none"),
            SimulationOptions(topology="none"),
            SimulationOptions(replicas=6),
            SimulationOptions(replication="none"),
            SimulationOptions(threads="none"),
        ],
    )
    def test_what_does_not_exist_is_refused(self, options: SimulationOptions) -> None:
        with pytest.raises(MisuseError):
            Simulation(1, options, core=FakeReplica, program=FakeProgram)


class TestRunner:
    def test_a_result_is_assembled_and_journals_are_written(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        judged: list[Evidence] = []

        def check_surveyed(surveyed: Survey) -> list[Violation]:
            judged.append(surveyed.evidence)
            return [Violation("planted", "by the test")]

        monkeypatch.setattr("llft.simulator.checkers.check_surveyed", check_surveyed)
        monkeypatch.setattr("llft.simulator.checkers.count_losses", lambda surveyed: {"things": 1})
        options = SimulationOptions(profile="crash", topology="many-clients", journal_dir=str(tmp_path))
        result = run_seed(4, options, core=FakeReplica, program=FakeProgram)
        assert result.seed == 4
        assert result.operations == 4 * 50
        assert result.violations == [Violation("planted", "by the test")]
        assert result.losses == {"things": 1}
        assert result.simulated_ns >= PROFILES["crash"].horizon_ns
        assert result.primary_failures == sum(fault.primary_count for fault in judged[0].faults) > 0
        journals = [record for path in (tmp_path / "seed-4").iterdir() for record in read_journal(path)]
        assert sorted(journals) == sorted(judged[0].records)

    def test_what_never_quiesces_and_what_raises_is_a_violation(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("llft.simulator.checkers.check_surveyed", lambda surveyed: [])
        monkeypatch.setattr("llft.simulator.checkers.count_losses", lambda surveyed: {})

        class Raising(FakeReplica):
            def step(self, event: events.Event, now_ns: int) -> list[effects.Effect]:
                if self.config.group_id == 100 and now_ns > 50 * MS:
                    raise ZeroDivisionError("planted")
                return [] if self.config.group_id == 1 else super().step(event, now_ns)

        options = SimulationOptions(profile="calm", topology="many-clients")
        result = run_seed(4, options, core=Raising, program=FakeProgram)
        found = [violation.property for violation in result.violations]
        assert found == ["crash"] * (len(found) - 1) + ["progress"]
        assert "ZeroDivisionError: planted" in result.violations[0].explanation
        assert "C1 unsettled" in result.violations[-1].explanation
