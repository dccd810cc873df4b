"""Certificates of death (D-23): from a killed process at once, and from nothing else ever."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from llft.errors import PeerError
from llft.identifiers import BirthId
from llft.instant import MS, SECOND
from llft.runtime.handshake import ClientHandshake, Purpose, ServerHandshake
from llft.runtime.liveness import Liveness, LogSource, fetch_log
from llft.runtime.log_service import Frames
from llft.runtime.poller import FIRST_FD
from llft.runtime.service_connection import FAREWELL
from llft.runtime.service_port import MOST_STRANGERS
from llft.runtime.settings import Settings, TransportSettings
from llft.runtime.transport import Peer
from llft.runtime.transport.keys import MAC_BYTES, KeyRing

ROOT = Path(__file__).resolve().parents[2]
GROUP = 77
HERE = "127.0.0.1"

# -- members that are processes --------------------------------------------------------------------------


class Child:
    """A `liveness_member`, and what it said."""

    def __init__(self, settings: Settings, *, namespace: str = "") -> None:
        enter = ["ip", "netns", "exec", namespace] if namespace else []
        command = [sys.executable, "-m", "tests.live.liveness_member", json.dumps(settings.to_json())]
        self.process = subprocess.Popen(
            [*enter, *command], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self.lines: list[list[Any]] = []
        self._text = b""
        self.birth: str = self.wait_for("born")[1]

    def wait_for(self, what: str, birth: str = "", *, seconds: float = 10.0) -> list[Any]:
        """The line, of any time since the start; fails if it does not come."""
        until = time.monotonic() + seconds
        while True:
            for line in self.lines:
                if line[0] == what and birth in (line[1], ""):
                    return line
            if time.monotonic() > until:
                pytest.fail(f"no {what} {birth} within {seconds} s; it said {self.lines}")
            self.listen(0.05)

    def said(self, what: str) -> list[str]:
        return [line[1] for line in self.lines if line[0] == what]

    def listen(self, seconds: float) -> None:
        assert self.process.stdout is not None
        fd = self.process.stdout.fileno()
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if not select.select([fd], [], [], left)[0]:
                return
            piece = os.read(fd, 65536)
            if not piece:
                return
            *whole, self._text = (self._text + piece).split(b"\n")
            self.lines += [json.loads(line) for line in whole]

    def order(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text + "\n")

    def end(self) -> None:
        self.process.kill()
        self.process.wait(10)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()


Start = Callable[..., Child]


@pytest.fixture
def start() -> Iterator[Start]:
    children: list[Child] = []

    def start(*arguments: Any, **options: Any) -> Child:
        children.append(Child(*arguments, **options))
        return children[-1]

    yield start
    for child in children:
        child.end()


def on_loopback() -> Settings:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind((HERE, 0))
        return Settings(TransportSettings(port=probe.getsockname()[1]))


def introduce(*children: Child) -> None:
    """Until each watches all the others."""
    for child in children:
        for other in children:
            if other is not child:
                child.wait_for("watches", other.birth)


def test_a_killed_process_is_certified_at_once(start: Start) -> None:
    """Within 20 ms for most of them; the machine is shared, so one may be late."""
    settings = on_loopback()
    observer = start(settings)
    delays_ms = []
    for _ in range(5):
        victim = start(settings)
        introduce(observer, victim)
        killed_ns = time.monotonic_ns()
        victim.process.kill()
        delays_ms.append((observer.wait_for("certificate", victim.birth)[2] - killed_ns) / MS)
    observer.listen(0.3)
    certificates = observer.said("certificate")
    assert len(certificates) == len(set(certificates)) == 5, "each death once"
    assert statistics.median(delays_ms) < 20, delays_ms
    assert max(delays_ms) < 1000, delays_ms


def test_all_survivors_are_told(start: Start) -> None:
    settings = on_loopback()
    members = [start(settings) for _ in range(3)]
    introduce(*members)
    members[0].process.kill()
    for survivor in members[1:]:
        survivor.wait_for("certificate", members[0].birth)
        assert survivor.said("certificate") == [members[0].birth]


def test_a_process_that_became_another_program_is_certified(start: Start) -> None:
    """Reset is an exec: the process is there, the birth is over."""
    settings = on_loopback()
    observer, reborn = start(settings), start(settings)
    introduce(observer, reborn)
    reborn.order("exec")
    observer.wait_for("certificate", reborn.birth)
    assert reborn.process.poll() is None


def test_a_stopped_process_is_not_certified(start: Start) -> None:
    settings = on_loopback()
    observer, stopped = start(settings), start(settings)
    introduce(observer, stopped)
    stopped.process.send_signal(signal.SIGSTOP)
    observer.listen(1.5)
    stopped.process.send_signal(signal.SIGCONT)
    observer.listen(0.5)
    assert observer.said("certificate") == []
    assert observer.said("watches no longer") == []
    stopped.process.kill()
    observer.wait_for("certificate", stopped.birth)


def test_a_farewell_is_no_certificate(start: Start) -> None:
    settings = on_loopback()
    observer, leaver = start(settings), start(settings)
    introduce(observer, leaver)
    leaver.order("farewell")
    leaver.wait_for("farewell said")
    observer.wait_for("watches no longer", leaver.birth)
    leaver.process.kill()
    observer.listen(0.5)
    assert observer.said("certificate") == []


# -- a host that is cut off ------------------------------------------------------------------------------


def ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=10)
    if done.returncode:
        pytest.fail(f"ip {' '.join(words)}: {done.stderr.strip()}: run as root, with iproute2")


@pytest.fixture
def hosts() -> Iterator[tuple[str, str]]:
    """Two network namespaces with a cable between them: 10.99.0.1 and 10.99.0.2."""
    names = (f"llft-a-{os.getpid()}", f"llft-b-{os.getpid()}")
    made = []
    try:
        for name in names:
            ip("netns", "add", name)
            made.append(name)
        ip("-n", names[0], "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", names[1])
        for number, name in enumerate(names, 1):
            ip("-n", name, "address", "add", f"10.99.0.{number}/24", "dev", "cable")
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", name, "link", "set", "cable", "up")
        yield names
    finally:
        for name in made:
            subprocess.run(["ip", "netns", "delete", name], check=True, timeout=10)


def test_a_host_that_is_cut_off_is_not_certified(
    start: Start, hosts: tuple[str, str], tmp_path: Path
) -> None:
    keys = tmp_path / "keys"
    keys.write_text(f"1:{'ab' * 32}\n")
    keys.chmod(0o600)
    members = [
        start(Settings(TransportSettings(interface=f"10.99.0.{number}", key_file=str(keys))), namespace=host)
        for number, host in enumerate(hosts, 1)
    ]
    introduce(*members)
    ip("-n", hosts[1], "link", "set", "cable", "down")
    for member in members:
        member.listen(2.0)
    ip("-n", hosts[1], "link", "set", "cable", "up")
    for member in members:
        member.listen(1.0)
        assert (member.said("certificate"), member.said("watches no longer")) == ([], [])
    ip("-n", hosts[1], "link", "set", "cable", "down")
    members[1].process.kill()
    members[0].listen(1.5)
    assert members[0].said("certificate") == [], "its kernel had no way to say so"


# -- members in this process, with the time in our hands ---------------------------------------------------


class Heard:
    """A transport that has heard whom we say, and carries nothing."""

    payload_limit = 1000
    service_port = 0

    def __init__(self) -> None:
        self.warnings: list[str] = []
        self.found: list[Peer] = []

    def multicast(self, group_id: int, data: bytes) -> None: ...
    def transmit(self, birth_id: BirthId, data: bytes) -> None: ...
    def receive(self) -> list[bytes]:
        return []

    def filenos(self) -> tuple[int, ...]:
        return ()

    def peers(self) -> list[Peer]:
        return self.found

    def statistics(self) -> dict[str, int]:
        return {}

    def close(self) -> None: ...


class Member:
    def __init__(self, number: int, settings: Settings, provide: Callable[[int, int], bytes | None]) -> None:
        self.transport = Heard()
        self.birth_id = BirthId(1, number, number)
        self.liveness = Liveness(settings, GROUP, self.birth_id, self.transport, provide=provide)
        self.peer = Peer(self.birth_id, HERE, self.liveness.port)
        self.now_ns = 0

    def work(self, ahead_ns: int = MS) -> None:
        self.now_ns += ahead_ns
        self.liveness.work(self.now_ns)


Join = Callable[..., Member]


@pytest.fixture
def join() -> Iterator[Join]:
    members: list[Member] = []

    def join(
        settings: Settings | None = None,
        provide: Callable[[int, int], bytes | None] = lambda start, end: None,
    ) -> Member:
        members.append(Member(len(members) + 1, settings or Settings(), provide))
        return members[-1]

    yield join
    for member in members:
        member.liveness.close()


def rounds(members: list[Member], done: Callable[[], bool]) -> bool:
    """Everybody works, a millisecond of their time each round, until it is done; bounded."""
    for _ in range(400):
        for member in members:
            member.work()
        if done():
            return True
    return False


def acquainted(join: Join, **options: Any) -> tuple[Member, Member]:
    ann, bob = join(**options), join()
    ann.transport.found, bob.transport.found = [bob.peer], [ann.peer]
    assert rounds([ann, bob], lambda: bool(ann.liveness.watched()) and bool(bob.liveness.watched()))
    return ann, bob


def test_nobody_waits_for_anybody(join: Join) -> None:
    ann, bob = acquainted(join)
    assert ann.liveness.watched() == (bob.birth_id,)
    (fd,) = ann.liveness.filenos()
    assert fd >= FIRST_FD
    assert not select.select([fd], [], [], 0)[0], "silent"


def test_one_that_is_not_heard_for_long_is_left_with_a_farewell(join: Join) -> None:
    ann, bob = acquainted(join)
    ann.transport.found = []
    ann.work(59 * SECOND)
    assert ann.liveness.watched() == (bob.birth_id,)
    ann.work(2 * SECOND)
    bob.transport.found = []
    assert rounds([bob, ann], lambda: not bob.liveness.watched())
    assert bob.liveness.take_certificates() == []
    assert bob.liveness.statistics()["farewells"] >= 1
    assert rounds([bob, ann], lambda: ann.liveness.statistics()["connections"] == 0)
    assert ann.liveness.take_certificates() == []


def test_a_client_that_gives_up_after_its_proof_says_farewell(join: Join) -> None:
    """The server may have taken the connection for established in the same instant."""
    ann = join()
    server_birth_id = BirthId(9, 9, 9)
    with socket.create_server((HERE, 0)) as listener:
        ann.transport.found = [Peer(server_birth_id, HERE, listener.getsockname()[1])]
        ann.work(20 * MS)
        listener.settimeout(5)
        server, _ = listener.accept()
    with server:
        server.settimeout(5)
        handshake = ServerHandshake(KeyRing(), GROUP, server_birth_id, bytes(16))
        ann.work()
        server.sendall(handshake.feed(server.recv(handshake.wanted)))
        ann.work()
        handshake.feed(server.recv(handshake.wanted))
        assert handshake.established, "here, though its confirmation never gets there"
        ann.work(3 * SECOND)
        assert server.recv(10) == FAREWELL
        assert server.recv(10) == b""


def convince(member: Member, client: socket.socket, birth_id: BirthId) -> None:
    """The handshake of a process with this birth id; its last message is left unread."""
    handshake = ClientHandshake(
        KeyRing(), GROUP, birth_id, bytes(16), server_birth_id=member.birth_id, purpose=Purpose.LIVENESS
    )
    client.sendall(handshake.hello)
    assert rounds([member], lambda: bool(select.select([client], [], [], 0)[0]))
    client.sendall(handshake.feed(client.recv(handshake.wanted)))
    assert rounds([member], lambda: bool(select.select([client], [], [], 0)[0]))
    assert birth_id in member.liveness.watched()


@pytest.mark.parametrize("unread", [False, True])
def test_an_end_without_a_farewell_is_a_certificate(join: Join, unread: bool) -> None:
    """As a kernel does it: an end of the stream, or a reset if something was not read."""
    ann, client_birth_id = join(), BirthId(9, 9, 9)
    with socket.create_connection((HERE, ann.liveness.port), timeout=5) as client:
        convince(ann, client, client_birth_id)
        if not unread:
            client.recv(MAC_BYTES)
    assert rounds([ann], lambda: not ann.liveness.watched())
    assert ann.liveness.take_certificates() == [client_birth_id]
    assert ann.liveness.take_certificates() == []


def test_the_dead_are_left_in_peace(join: Join) -> None:
    """A transport goes on naming a peer for a minute after its last datagram."""
    ann, bob = acquainted(join)
    with socket.create_connection((HERE, ann.liveness.port), timeout=5) as imitation:
        # Somebody with the key who takes bob's name: whichever of two connections ends is a certificate.
        convince(ann, imitation, bob.birth_id)
    bob.liveness.close()
    assert rounds([ann], lambda: not ann.liveness.watched())
    assert ann.liveness.take_certificates() == [bob.birth_id]
    ann.work(5 * SECOND)
    assert rounds([ann], lambda: ann.liveness.statistics()["connections"] == 0)
    assert ann.liveness.statistics()["failed_connects"] == 0


def test_a_failed_connect_is_no_certificate(join: Join) -> None:
    ann = join()
    with socket.socket() as closed:
        closed.bind((HERE, 0))
        port = closed.getsockname()[1]
    ann.transport.found = [Peer(BirthId(9, 9, 9), HERE, port)]
    assert rounds([ann], lambda: ann.liveness.statistics()["failed_connects"] >= 1)
    assert ann.liveness.take_certificates() == []


def test_another_process_at_that_port_is_not_watched(join: Join) -> None:
    ann, bob = join(), join()
    ann.transport.found = [Peer(BirthId(9, 9, 9), HERE, bob.liveness.port)]
    assert rounds([ann, bob], lambda: ann.liveness.statistics()["strangers_refused"] >= 1)
    assert ann.liveness.watched() == bob.liveness.watched() == ()


def test_strangers_are_bounded_and_closed_in_time(join: Join) -> None:
    ann, bob = join(), join()
    strangers = [
        socket.create_connection((HERE, ann.liveness.port), timeout=5) for _ in range(MOST_STRANGERS + 20)
    ]
    try:
        strangers[0].sendall(b"GET / HTTP/1.1\r\nHost: of somebody else\r\n\r\n")
        rounds([ann], lambda: False)
        assert ann.liveness.statistics()["connections"] <= MOST_STRANGERS
        ann.work(2 * SECOND)
        assert ann.liveness.statistics()["connections"] == 0
    finally:
        for stranger in strangers:
            stranger.close()
    bob.transport.found = [ann.peer]
    assert rounds([ann, bob], lambda: ann.liveness.watched() == (bob.birth_id,))
    assert ann.liveness.take_certificates() == []


def test_another_key_does_not_get_in(join: Join, tmp_path: Path) -> None:
    def keyed(digits: str) -> Settings:
        path = tmp_path / digits
        path.write_text(f"1:{digits * 16}")
        path.chmod(0o600)
        return Settings(TransportSettings(key_file=str(path)))

    ann, bob, eve = join(keyed("aa")), join(keyed("aa")), join(keyed("ee"))
    for member in (bob, eve):
        member.transport.found = [ann.peer]
    assert rounds([ann, bob, eve], lambda: bool(eve.liveness.statistics()["strangers_refused"]))
    assert rounds([ann, bob, eve], lambda: ann.liveness.watched() == (bob.birth_id,))


# -- the birth log -----------------------------------------------------------------------------------------

LOG = bytes(range(256)) * 20_000


def provide(start: int, end: int) -> bytes | None:
    return LOG[start:end] if end <= len(LOG) else None


def fetched(member: Member, source: LogSource, length: int, timeout_s: float = 20.0) -> bytes | Exception:
    """What a joiner's thread gets while the member works."""
    found: list[bytes | Exception] = []

    def run() -> None:
        try:
            found.append(fetch_log(source, length, timeout_s=timeout_s))
        except (OSError, PeerError) as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    until = time.monotonic() + 30
    while thread.is_alive() and time.monotonic() < until:
        select.select(member.liveness.filenos(), [], [], 0.01)
        member.work()
    thread.join(1)
    return found[0]


def source_of(join: Join, member: Member) -> LogSource:
    asking = join()
    asking.transport.found = [member.peer]
    return asking.liveness.peer(member.birth_id)


@pytest.mark.parametrize("length", [0, 1, 65536, 65537, len(LOG)])
def test_the_birth_log_is_fetched(join: Join, length: int) -> None:
    ann = join(provide=provide)
    assert fetched(ann, source_of(join, ann), length) == LOG[:length]
    assert rounds([ann], lambda: ann.liveness.statistics()["connections"] == 0)
    assert ann.liveness.take_certificates() == [], "a joiner that has fetched it is not dead"


def test_a_log_that_is_not_there_is_refused(join: Join) -> None:
    ann = join(provide=provide)
    error = fetched(ann, source_of(join, ann), len(LOG) + 1)
    assert isinstance(error, PeerError)
    assert error.condition == "log_refused"


def test_a_log_that_goes_while_it_is_sent_is_told(join: Join) -> None:
    ann = join(provide=lambda start, end: None if 500_000 <= start < end else provide(start, end))
    error = fetched(ann, source_of(join, ann), len(LOG))
    assert isinstance(error, PeerError)
    assert error.condition == "log_cut_short"


def test_a_log_is_only_taken_from_whom_it_was_asked(join: Join) -> None:
    ann = join(provide=provide)
    error = fetched(ann, source_of(join, ann)._replace(birth_id=BirthId(9, 9, 9)), 10)
    assert isinstance(error, PeerError)
    assert error.condition == "handshake_other_process"


@pytest.mark.parametrize("alter", ["nothing", "a byte", "the order"])
def test_a_log_that_was_altered_on_the_way_is_told(alter: str) -> None:
    """A member made by hand, whose frames somebody changes."""
    pieces, server_birth_id = [b"one", b"two"], BirthId(9, 9, 9)

    def serve(listener: socket.socket) -> None:
        server, _ = listener.accept()
        with server:
            server.settimeout(5)
            handshake = ServerHandshake(KeyRing(), GROUP, server_birth_id, bytes(16))
            while not handshake.established:
                server.sendall(handshake.feed(server.recv(handshake.wanted)))
            server.recv(64)
            frames = Frames(handshake.session_key())
            agreed, first, second = (frames.seal(data) for data in (b"OK", *pieces))
            if alter == "a byte":
                second = second.replace(b"two", b"too")
            if alter == "the order":
                first, second = second, first
            server.sendall(agreed + first + second)
            select.select([server], [], [], 5)

    with socket.create_server((HERE, 0)) as listener:
        listener.settimeout(5)
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        source = LogSource(HERE, listener.getsockname()[1], server_birth_id, GROUP, KeyRing())
        try:
            if alter == "nothing":
                assert fetch_log(source, 6, timeout_s=5) == b"onetwo"
            else:
                with pytest.raises(PeerError, match="log_frame_altered"):
                    fetch_log(source, 6, timeout_s=5)
        finally:
            thread.join(10)


def test_a_member_that_does_not_answer_is_not_waited_for(join: Join) -> None:
    ann = join(provide=provide)
    source = source_of(join, ann)
    started = time.monotonic()
    with pytest.raises(PeerError, match="log_fetch_timeout"):
        fetch_log(source, 10, timeout_s=0.2)
    assert time.monotonic() - started < 2


def test_a_log_that_takes_long_is_fetched_while_it_comes() -> None:
    """A group whose log was kept from birth would get no member else, when that is long."""
    server_birth_id = BirthId(9, 9, 9)

    def serve(listener: socket.socket) -> None:
        server, _ = listener.accept()
        with server:
            server.settimeout(5)
            handshake = ServerHandshake(KeyRing(), GROUP, server_birth_id, bytes(16))
            while not handshake.established:
                server.sendall(handshake.feed(server.recv(handshake.wanted)))
            server.recv(64)
            frames = Frames(handshake.session_key())
            server.sendall(frames.seal(b"OK"))
            for _ in range(4):
                select.select([server], [], [], 0.6)  # nothing comes
                server.sendall(frames.seal(b"piece"))

    with socket.create_server((HERE, 0)) as listener:
        listener.settimeout(5)
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        source = LogSource(HERE, listener.getsockname()[1], server_birth_id, GROUP, KeyRing())
        try:
            assert fetch_log(source, 20, timeout_s=1.8) == b"piece" * 4
        finally:
            thread.join(10)


def test_an_unheard_member_is_told(join: Join) -> None:
    with pytest.raises(PeerError, match="peer_unknown"):
        join().liveness.peer(BirthId(9, 9, 9))
