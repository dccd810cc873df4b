"""Two and more transports on the loopback interface, with real sockets."""

from __future__ import annotations

import fcntl
import os
import select
import socket
import time
from collections.abc import Callable, Iterator

import pytest

from llft import originals
from llft.cli.free_port import free_port
from llft.errors import MisuseError
from llft.identifiers import BirthId
from llft.runtime.poller import FIRST_FD
from llft.runtime.settings import (
    Endpoint,
    FaultInjection,
    GroupSettings,
    Settings,
    TransportMode,
    TransportSettings,
)
from llft.runtime.transport import compiled_udp, open_transport
from llft.runtime.transport.compiled_udp import CompiledUdpTransport
from llft.runtime.transport.envelope import Version
from llft.runtime.transport.interface import Peer, Transport
from llft.runtime.transport.keys import KeyRing
from llft.runtime.transport.lossy import Chance, LossyTransport
from llft.runtime.transport.multicast import MulticastAddressing, multicast_ip
from llft.runtime.transport.sockets import RECEIVE_BUFFER_BYTES
from llft.runtime.transport.udp import UdpTransport
from llft.runtime.transport.unicast import UnicastAddressing

GROUP, OTHER_GROUP = 0x7123_4567, 0x0000_0042
HERE = "127.0.0.1"
KEYS = KeyRing({1: b"k" * 32})
Opened = Callable[..., UdpTransport]


def birth(number: int) -> BirthId:
    return BirthId(1, number, 1000 + number)


@pytest.fixture
def opened() -> Iterator[Opened]:
    """Opens transports that end with the test."""
    transports: list[UdpTransport] = []

    def make(
        number: int,
        addressing: MulticastAddressing | UnicastAddressing,
        kind: type[UdpTransport] = UdpTransport,
        **options: object,
    ) -> UdpTransport:
        settings = {
            "keys": KEYS,
            "group_id": GROUP,
            "interface": HERE,
            **options,
        }
        transport = kind(birth_id=birth(number), addressing=addressing, **settings)  # type: ignore[arg-type]
        transport.service_port = 5000 + number
        transports.append(transport)
        return transport

    yield make
    for transport in transports:
        transport.close()


def received(transport: Transport, count: int, seconds: float = 2.0) -> list[bytes]:
    """What comes until there is enough of it, or the time is over."""
    poll = select.poll()
    for fd in transport.filenos():
        poll.register(fd, select.POLLIN)
    found: list[bytes] = []
    until = time.monotonic() + seconds
    while len(found) < count and time.monotonic() < until:
        poll.poll(50)
        found += transport.receive()
    return found


def connected_sockets(port: int) -> list[tuple[int, str]]:
    """Of this process, with that port at the other end: their numbers, and the addresses there."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            with socket.socket(fileno=os.dup(int(name))) as sock:
                ip, number = sock.getpeername()
        except (OSError, ValueError):
            continue
        if number == port:
            found.append((int(name), ip))
    return found


def test_multicast_reaches_the_others_and_not_oneself(opened: Opened) -> None:
    port = free_port()
    ann, bob, cat = (opened(n, MulticastAddressing(GROUP, HERE, port)) for n in (1, 2, 3))
    ann.multicast(GROUP, b"hello")
    assert received(bob, 1) == [b"hello"]
    assert received(cat, 1) == [b"hello"]
    assert received(ann, 1, 0.1) == []
    assert ann.statistics()["dropped_own"] == 1
    assert list(bob.peers()) == [Peer(birth(1), HERE, 5001)]


def test_strangers_words_are_dropped(opened: Opened) -> None:
    port = free_port()
    ann = opened(1, MulticastAddressing(GROUP, HERE, port))
    lengths = (0, 1, 21, 22, 23, 60)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(HERE))
        for length in lengths:
            stranger.sendto(b"x" * length, (multicast_ip(GROUP), port))
    assert received(ann, 1, 0.1) == []
    assert ann.statistics()["dropped_malformed"] == len(lengths)


def test_the_kernel_loses_as_many_as_it_is_told_to(opened: Opened) -> None:
    """By either way, and of ones own words as well."""
    port = free_port()
    ann, bob = (opened(n, MulticastAddressing(GROUP, HERE, port)) for n in (1, 2))
    bob.multicast(GROUP, b"hello")
    assert received(ann, 1) == [b"hello"]
    bob.lose(0.5)
    for _ in range(200):
        ann.multicast(GROUP, b"to all")
        bob.multicast(GROUP, b"of bob")
        ann.transmit(birth(2), b"to one")
    found = received(bob, 400, 0.2)
    for word in (b"to all", b"to one"):
        assert 60 <= found.count(word) <= 140
    assert set(found) == {b"to all", b"to one"}
    assert 60 <= bob.statistics()["dropped_own"] <= 140


@pytest.mark.skipif(not compiled_udp.AVAILABLE, reason="only the compiled lane has ways")
def test_a_group_that_is_talked_with_has_a_way_of_its_own(opened: Opened) -> None:
    """From the same address as all else, which goes on hearing what is for this process."""
    port = free_port()
    ann = opened(1, MulticastAddressing(GROUP, HERE, port), CompiledUdpTransport)
    bob = opened(2, MulticastAddressing(OTHER_GROUP, HERE, port), CompiledUdpTransport, group_id=OTHER_GROUP)
    cat = opened(3, MulticastAddressing(OTHER_GROUP, HERE, port), CompiledUdpTransport, group_id=OTHER_GROUP)
    bob.multicast(GROUP, b"request")
    assert received(ann, 1) == [b"request"]
    for word in (b"reply", b"another"):
        assert ann.line(birth(2), OTHER_GROUP) is not None
        ann.multicast(OTHER_GROUP, word)
        for member in (bob, cat):
            assert received(member, 1) == [word]
    assert [ends for _, ends in connected_sockets(port)] == [multicast_ip(OTHER_GROUP)]
    bob.transmit(birth(1), b"for you")
    assert received(ann, 1) == [b"for you"]
    ann.multicast(GROUP, b"of our own")
    assert received(ann, 1, 0.1) == []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with pytest.raises(OSError, match="in use"):
            stranger.bind(ann.address)


@pytest.mark.skipif(not compiled_udp.AVAILABLE, reason="only the compiled lane has ways")
def test_ways_are_bounded_and_go_with_the_transport(opened: Opened) -> None:
    port = free_port()
    ann = opened(1, MulticastAddressing(GROUP, HERE, port), CompiledUdpTransport)
    bob = opened(2, MulticastAddressing(GROUP, HERE, port), CompiledUdpTransport)
    bob.multicast(GROUP, b"hello")
    assert received(ann, 1) == [b"hello"]
    groups = range(OTHER_GROUP, OTHER_GROUP + 2 * compiled_udp.WAYS_MAX)
    for group in groups:
        assert ann.line(birth(2), group) is not None
        ann.multicast(group, b"nobody hears it")
    assert {ends for _, ends in connected_sockets(port)} == {
        multicast_ip(group) for group in groups[-compiled_udp.WAYS_MAX :]
    }
    assert ann.statistics()["lost_at_sending"] == 0
    ann.close()
    assert connected_sockets(port) == []


def test_a_group_does_not_hear_another_and_can_be_spoken_to(opened: Opened) -> None:
    port = free_port()
    ann = opened(1, MulticastAddressing(GROUP, HERE, port))
    gateway = opened(9, MulticastAddressing(OTHER_GROUP, HERE, port), group_id=OTHER_GROUP)
    gateway.multicast(GROUP, b"request")
    assert received(ann, 1) == [b"request"]
    ann.multicast(OTHER_GROUP, b"reply")
    assert received(gateway, 1) == [b"reply"]
    assert list(ann.peers()) == [], "a process of another group is no peer"


def test_transmit_goes_to_one_that_was_heard(opened: Opened) -> None:
    port = free_port()
    ann, bob, cat = (opened(n, MulticastAddressing(GROUP, HERE, port)) for n in (1, 2, 3))
    bob.transmit(birth(1), b"too early")
    assert bob.statistics()["unknown_process"] == 1
    ann.multicast(GROUP, b"hello")
    assert received(bob, 1) == [b"hello"]
    assert received(cat, 1) == [b"hello"]
    bob.transmit(birth(1), b"for you")
    assert received(ann, 1) == [b"for you"]
    assert received(cat, 1, 0.1) == []


@pytest.mark.skipif(not compiled_udp.AVAILABLE, reason="the reference lane has one kind")
def test_lanes_hear_each_other_whichever_mac_they_send(opened: Opened) -> None:
    port = free_port()
    plain = opened(1, MulticastAddressing(GROUP, HERE, port))
    quick = opened(2, MulticastAddressing(GROUP, HERE, port), kind=CompiledUdpTransport)
    quicker = Version.GMAC if compiled_udp.BY_INSTRUCTIONS else Version.BLAKE2B
    assert plain.seal_pulse(b"unsent")[0] == Version.BLAKE2B
    assert quick.seal_pulse(b"unsent")[0] == quicker
    for one, other in ((plain, quick), (quick, plain)):
        one.multicast(GROUP, b"hello")
        assert received(other, 1) == [b"hello"]
    for one, other, number in ((plain, quick, 2), (quick, plain, 1)):
        one.transmit(birth(number), b"for you")
        assert received(other, 1) == [b"for you"]
        with socket.socket(fileno=os.dup(one.sending_fileno)) as pulse:
            pulse.sendto(one.seal_pulse(b"beat"), other.address)
        assert received(other, 1) == [b"beat"]
        dropped = {name: count for name, count in other.statistics().items() if name.startswith("dropped")}
        assert dropped.pop("dropped_own") == 1, "its hello"
        assert not any(dropped.values()), dropped


def test_unicast_reaches_listed_members_and_learned_gateways(opened: Opened) -> None:
    ports = [free_port() for _ in range(3)]
    members = {GROUP: [(HERE, port) for port in ports]}
    ann, bob, cat = (opened(n, UnicastAddressing(members), ports=[ports[n]]) for n in range(3))
    gateway = opened(9, UnicastAddressing(members), group_id=OTHER_GROUP)
    ann.multicast(GROUP, b"hello")
    assert received(bob, 1) == [b"hello"]
    assert received(cat, 1) == [b"hello"]
    assert received(ann, 1, 0.1) == []
    ann.multicast(OTHER_GROUP, b"nobody is known there")
    assert ann.statistics()["sent"] == 2
    gateway.multicast(GROUP, b"request")
    assert [received(each, 1) for each in (ann, bob, cat)] == [[b"request"]] * 3
    ann.multicast(OTHER_GROUP, b"reply")
    assert received(gateway, 1) == [b"reply"]


def test_an_unlisted_member_is_learned(opened: Opened) -> None:
    port = free_port()
    members = {GROUP: [(HERE, port)]}
    ann, joiner = opened(1, UnicastAddressing(members), ports=[port]), opened(2, UnicastAddressing(members))
    joiner.multicast(GROUP, b"may I?")
    assert received(ann, 1) == [b"may I?"]
    ann.multicast(GROUP, b"welcome")
    assert received(joiner, 1) == [b"welcome"]


def test_nobody_there_is_a_lost_datagram(opened: Opened) -> None:
    ann = opened(1, UnicastAddressing({GROUP: [(HERE, free_port()), ("0.0.0.1", 9), (HERE, 0)]}))
    for _ in range(100):
        ann.multicast(GROUP, b"anybody?")
        assert ann.receive() == []
    assert ann.statistics()["lost_at_sending"] >= 100


def test_a_burst_waits_for_a_lazy_receiver(opened: Opened) -> None:
    """4 MB in datagrams of 1 KB, sent before anybody looks: 92 of them would fit the default buffer."""
    port = free_port()
    ann, bob = (opened(n, MulticastAddressing(GROUP, HERE, port)) for n in (1, 2))
    if bob.warnings:
        pytest.fail(f"this host grants too little for this test: {bob.warnings}")
    count = 4096
    for number in range(count):
        ann.multicast(GROUP, number.to_bytes(4, "big") * 256)
    found = received(bob, count, 5.0)
    assert [data[:4] for data in found] == [number.to_bytes(4, "big") for number in range(count)]


def test_what_does_not_fit_the_buffer_is_lost_and_blocks_nobody(opened: Opened) -> None:
    port = free_port()
    ann, bob = (opened(n, MulticastAddressing(GROUP, HERE, port)) for n in (1, 2))
    largest = bytes(ann.payload_limit)
    count = 4 * RECEIVE_BUFFER_BYTES // len(largest)  # a kernel counts twice what is asked for
    started = time.monotonic()
    for _ in range(count):
        ann.multicast(GROUP, largest)
    assert time.monotonic() - started < 5
    found = received(bob, count, 1.0)
    assert 50 < len(found) < count
    assert all(data == largest for data in found)
    ann.multicast(GROUP, b"after the flood")
    assert received(bob, 1) == [b"after the flood"]


def test_a_receive_is_bounded_and_nothing_is_left_behind(opened: Opened) -> None:
    port = free_port()
    ann, bob = (opened(n, MulticastAddressing(GROUP, HERE, port)) for n in (1, 2))
    for _ in range(300):
        ann.multicast(GROUP, b"x")
    assert len(bob.receive()) == 256
    assert len(bob.receive()) == 44
    assert bob.receive() == []


def test_garbage_and_strangers_are_counted_and_dropped(opened: Opened) -> None:
    ann = opened(1, UnicastAddressing({}))
    stranger = opened(2, UnicastAddressing({GROUP: [ann.address]}), keys=KeyRing({1: b"?" * 32}))
    stranger.multicast(GROUP, b"let me in")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for size in (0, 1, 47, 48, 1000, 61_000):
            sock.sendto(bytes(size), ann.address)
    assert received(ann, 1, 0.2) == []
    statistics = ann.statistics()
    assert (statistics["dropped_wrong_key"], statistics["dropped_malformed"]) == (1, 6)
    assert statistics["senders"] == 0


def test_a_recorded_datagram_is_not_taken_twice(opened: Opened) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as recorder:
        recorder.bind((HERE, 0))
        recorder.settimeout(2)
        ann = opened(1, UnicastAddressing({}))
        bob = opened(2, UnicastAddressing({GROUP: [recorder.getsockname()]}))
        bob.multicast(GROUP, b"pay")
        recorded = recorder.recv(2000)
        for _ in range(3):
            recorder.sendto(recorded, ann.address)
    assert received(ann, 2, 0.2) == [b"pay"]
    assert ann.statistics()["dropped_replayed"] == 2


def test_what_is_sent_to_one_process_comes_in_by_an_urgent_descriptor(opened: Opened) -> None:
    """What is sent to the group does not: it wakes nobody who rests."""
    port = free_port()
    ann, bob = (opened(n, MulticastAddressing(GROUP, HERE, port)) for n in (1, 2))
    bob.multicast(GROUP, b"to all")
    assert select.select(ann.filenos(), [], [], 2)[0]
    assert not select.select(ann.urgent_filenos(), [], [], 0.05)[0]
    assert ann.receive() == [b"to all"]
    ann.multicast(GROUP, b"to all")
    assert received(bob, 1) == [b"to all"]
    bob.transmit(birth(1), b"to one")
    assert select.select(ann.urgent_filenos(), [], [], 2)[0]
    assert ann.receive() == [b"to one"]


def test_where_all_comes_in_by_one_descriptor_none_is_urgent(opened: Opened) -> None:
    assert opened(1, UnicastAddressing({})).urgent_filenos() == ()


def test_descriptors_are_high_and_closed_on_exec(opened: Opened) -> None:
    ann = opened(1, MulticastAddressing(GROUP, HERE, free_port()))
    assert len(ann.filenos()) == 2
    for fd in ann.filenos():
        assert fd >= FIRST_FD
        assert fcntl.fcntl(fd, fcntl.F_GETFD) & fcntl.FD_CLOEXEC


def test_too_large_a_datagram_is_the_callers_error(opened: Opened) -> None:
    ann = opened(1, UnicastAddressing({}))
    with pytest.raises(MisuseError, match="datagram_too_large"):
        ann.multicast(GROUP, bytes(ann.payload_limit + 1))


def test_an_address_of_another_host_is_told(opened: Opened) -> None:
    with pytest.raises(MisuseError, match="cannot_bind"):
        opened(1, UnicastAddressing({}), interface="192.0.2.1")


def test_settings_open_a_transport_at_a_listed_port_that_is_free() -> None:
    ports = [free_port(), free_port()]
    members = tuple(Endpoint(HERE, port) for port in ports)
    group = GroupSettings("bank", members=(*members, Endpoint("nobody.invalid", 9)))
    settings = Settings(TransportSettings(mode=TransportMode.UNICAST), groups=(group,))
    found = [open_transport(settings, group.group_id, birth(number)) for number in range(3)]
    try:
        found[0].multicast(group.group_id, b"hello")
        assert received(found[1], 1) == [b"hello"], "each listed port has its member"
        found[2].multicast(group.group_id, b"I am not listed")
        assert received(found[0], 1) == [b"I am not listed"]
        assert any("nobody.invalid" in warning for warning in found[0].warnings)
        assert [any("listed and free" in warning for warning in each.warnings) for each in found] == [
            False,
            False,
            True,
        ]
    finally:
        for transport in found:
            transport.close()


def test_unicast_to_nobody_is_told() -> None:
    settings = Settings(TransportSettings(mode=TransportMode.UNICAST))
    with pytest.raises(MisuseError, match="no_members"):
        open_transport(settings, GROUP, birth(1))


def test_settings_inject_faults() -> None:
    settings = Settings(TransportSettings(port=free_port(), fault_injection=FaultInjection(loss=1.0)))
    ann, bob = (open_transport(settings, GROUP, birth(number)) for number in (1, 2))
    try:
        ann.service_port = 4711
        ann.multicast(GROUP, b"never heard")
        assert received(bob, 1, 0.2) == []
        assert bob.statistics()["injected_loss"] == 1
        assert list(bob.peers()) == [Peer(birth(1), HERE, 4711)]
        assert "on purpose" in bob.warnings[-1]
    finally:
        ann.close()
        bob.close()


def test_multicast_addresses_follow_from_the_group_id() -> None:
    assert multicast_ip(1) == "239.192.0.1"
    assert multicast_ip(0x7FFF_FFFF) == "239.195.255.255"


def test_injected_faults_are_those_of_the_seed(opened: Opened) -> None:
    def run(seed: int) -> tuple[list[bytes], dict[str, int]]:
        bob = opened(2, UnicastAddressing({}))
        lossy = LossyTransport(bob, FaultInjection(loss=0.2, duplicate=0.2, reorder=0.2, seed=seed), birth(2))
        sender = opened(3, UnicastAddressing({GROUP: [bob.address]}))
        for number in range(200):
            sender.multicast(GROUP, bytes((number,)))
        return lossy.receive() + lossy.receive(), lossy.statistics()

    found, statistics = run(1)
    assert (found, run(1)[0] == found, run(2)[0] == found) == (found, True, False)
    assert len(set(found)) == 200 - statistics["injected_loss"]
    assert len(found) == len(set(found)) + statistics["injected_duplicate"]
    assert found != sorted(found)
    assert all(10 < statistics[f"injected_{fault}"] < 70 for fault in ("loss", "duplicate", "reorder"))


def test_chance_is_what_it_says() -> None:
    chance = Chance(5)
    assert not any(chance.happens(0.0) for _ in range(1000))
    assert all(chance.happens(1.0) for _ in range(1000))
    assert 900 < sum(chance.happens(0.1) for _ in range(10_000)) < 1100


def test_no_patched_module_is_imported() -> None:
    """In an interposed interpreter these would be the program's."""
    import subprocess
    import sys

    text = (
        "import sys; import llft.runtime.transport.udp, llft.runtime.transport.lossy, llft.runtime.liveness;"
        "import llft.runtime.settings;"
        "patched = {'socket', 'threading', 'selectors', 'logging', 'ssl', 'random', 'subprocess'};"
        "print(sorted(patched & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout.strip() == "[]"
    assert originals.Socket is not socket.socket
