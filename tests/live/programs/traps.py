"""The traps of interposition, one function each. It prints what it sees, and "all right" at the end."""

import asyncio
import contextlib
import dataclasses
import datetime
import enum
import errno
import fcntl
import gc
import glob
import logging
import multiprocessing
import os
import random
import select
import signal
import socket
import sqlite3
import ssl
import subprocess
import tempfile
import threading
import time
import uuid
import weakref


@contextlib.contextmanager
def raises(kind, number=None):
    try:
        yield
    except kind as error:
        if number not in (None, getattr(error, "errno", None)):
            raise AssertionError(f"no errno {number}") from error
        print(" ", type(error).__name__, str(error)[:90])
    else:
        raise AssertionError(f"no {kind.__name__}")


def class_attributes():
    class Server:
        lock_class = threading.Lock
        clock = time.time
        rlock_class = threading.RLock

    server = Server()
    with server.lock_class(), server.rlock_class():
        assert abs(server.clock() - time.time()) < 5
    lock = threading.Lock()
    with raises(RuntimeError):
        lock.release()
    with raises(RuntimeError):
        threading.RLock().release()
    with raises(ValueError):
        lock.acquire(False, 1)


def hashes():
    @dataclasses.dataclass(frozen=True)
    class Point:
        x: int

    @dataclasses.dataclass
    class Mutable:
        x: int

    class Plain:
        pass

    class Colour(enum.Enum):
        RED = 1

    assert len({Point(1), Point(1)}) == 1
    with raises(TypeError):
        hash(Mutable(1))
    assert vars(Plain()) == {}
    assert {Colour.RED: 1}[Colour.RED] == 1
    plain = Plain()
    assert plain in {plain}
    assert vars(plain) == {}
    print([hash(thing) for thing in {Plain() for _ in range(3)}])


def times():
    assert isinstance(datetime.datetime.now(), datetime.datetime)
    assert datetime.datetime.now(datetime.UTC).tzinfo is datetime.UTC
    before = time.monotonic()
    time.sleep(0.001)
    assert time.monotonic() > before
    assert time.clock_gettime(time.CLOCK_MONOTONIC) >= before
    with raises(ValueError):
        time.sleep(-1)
    print(time.localtime(), time.gmtime(0), time.strftime("%Y", time.gmtime(0)))


def randomness():
    random.seed(5)
    first = random.random()
    random.seed(5)
    assert random.random() == first
    assert random.Random(5).random() == first
    print(random.SystemRandom().random(), random.Random().random(), uuid.uuid1(), uuid.getnode())
    print(random.sample(range(100), 5), os.getrandom(3), tempfile.mktemp())


def files():
    with tempfile.TemporaryDirectory() as directory:
        for name in "zcamb":
            with open(os.path.join(directory, name), "w") as file:
                file.write(name)
        assert os.listdir(directory) == list("abcmz")
        assert [os.path.basename(path) for path in glob.glob(f"{directory}/*")] == list("abcmz")
        with os.scandir(directory) as entries:
            assert [entry.name for entry in entries] == list("abcmz")


def garbage():
    class Node:
        count = 0

        def __init__(self):
            self.me = self

        def __del__(self):
            Node.count += 1

    lock, seen = threading.Lock(), []
    for _ in range(3000):
        Node()
        with lock:
            pass
        seen.append(Node.count)
    assert Node.count
    print(sorted(set(seen)))
    assert gc.collect() == 0
    assert gc.isenabled()
    reference = weakref.ref(Node())
    gc.collect()
    assert reference() is None


def thread_locals():
    class Ending:
        def __del__(self):
            ended.append(threading.get_ident())

    ended, local = [], threading.local()

    def run():
        local.thing = Ending()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    print(ended, thread.name, thread.ident)
    assert ended == [thread.ident]


def refusals():
    with raises(OSError):
        subprocess.run(["true"], check=False)
    with raises(OSError):
        os.kill(1, signal.SIGTERM)
    with raises(OSError, errno.EAFNOSUPPORT):
        socket.socket(socket.AF_UNIX)
    with raises(OSError, errno.ESOCKTNOSUPPORT):
        socket.socket(type=socket.SOCK_DGRAM)
    with raises(OSError):
        ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO())
    with raises(OSError):
        select.select([0], [], [], 0)
    with raises(OSError):
        select.epoll().register(socket.socket(), select.EPOLLIN | select.EPOLLET)
    with raises(ImportError):
        import gevent  # noqa: F401
    # Its module can be imported, as some servers do; only an object cannot be made.
    from multiprocessing.synchronize import SEM_VALUE_MAX, Semaphore

    assert SEM_VALUE_MAX > 0
    with raises(OSError, errno.ENOSYS):
        Semaphore(1, ctx=multiprocessing.get_context("spawn"))


def descriptors():
    one, other = socket.socketpair()
    number = one.fileno()
    one.setblocking(False)
    with raises(BlockingIOError):
        one.recv(1)
    assert fcntl.fcntl(number, fcntl.F_GETFL) & os.O_NONBLOCK
    copy = one.dup()
    one.close()
    other.send(b"to the copy")
    buffer = bytearray(6)
    assert copy.recv(2, socket.MSG_PEEK) == b"to"
    assert copy.recv_into(buffer) == 6
    assert copy.recv(100) == b" copy"
    copy.close()
    with raises(BrokenPipeError):
        other.send(b"nobody")
    assert socket.socket().fileno() == number
    detached = other.detach()
    os.close(detached)
    with raises(OSError, errno.EBADF):
        other.recv(1)
    with raises(OSError, errno.ENOTCONN):
        socket.socket().recv(1)


def polling():
    one, other = socket.socketpair()
    with select.epoll() as epoll:
        epoll.register(one, select.EPOLLIN | select.EPOLLONESHOT)
        assert epoll.poll(0) == []
        other.send(b"x")
        assert epoll.poll() == [(one.fileno(), select.EPOLLIN)]
        assert epoll.poll(0) == []
        epoll.modify(one, select.EPOLLIN | select.EPOLLOUT)
        assert epoll.poll(1) == [(one.fileno(), select.EPOLLIN | select.EPOLLOUT)]
        number = one.fileno()
        one.close()
        assert epoll.poll(0) == []
    poll = select.poll()
    poll.register(other, select.POLLIN)
    assert poll.poll(10) == [(other.fileno(), select.POLLIN)]
    assert select.select([other], [], [], 0)[0] == [other]
    assert number


def connecting():
    client = socket.socket()
    client.setblocking(False)
    with raises(BlockingIOError, errno.EINPROGRESS):
        client.connect(("192.0.2.7", 80))
    while not select.select([], [client], [], 1)[1]:
        pass
    assert client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
    client.setblocking(True)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    assert client.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
    with tempfile.TemporaryFile() as file:
        file.write(b"of a file")
        file.seek(0)
        assert client.sendfile(file) == 9
    assert client.recv(100) == b"of a file"
    refused = socket.socket()
    refused.setblocking(False)
    assert refused.connect_ex(("192.0.2.7", 1)) == errno.EINPROGRESS
    while not select.select([], [refused], [], 1)[1]:
        pass
    assert refused.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNREFUSED
    print(socket.getaddrinfo("localhost", 80, type=socket.SOCK_STREAM), socket.gethostbyname("localhost"))
    with raises(OSError, errno.EADDRINUSE), socket.create_server(("", 7001)):
        socket.create_server(("", 7001))


async def talk():
    reader, writer = await asyncio.open_connection("10.9.9.7", 700)
    writer.write(b"asyncio\n")
    line = await reader.readline()
    writer.close()
    with raises(OSError):
        await asyncio.open_connection("10.9.9.9", 999)
    queue = asyncio.Queue()
    asyncio.get_running_loop().call_later(0.005, queue.put_nowait, "later")
    with raises(TimeoutError):
        await asyncio.wait_for(asyncio.Event().wait(), 0.002)
    results = await asyncio.gather(*(asyncio.to_thread(pow, number, 2) for number in range(5)))
    tasks = {asyncio.create_task(asyncio.sleep(0.001 * (index % 2), index)) for index in range(6)}
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    print(line, await queue.get(), results, [task.result() for task in done], len(pending))
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR2, queue.put_nowait, "signalled")
    os.kill(os.getpid(), signal.SIGUSR2)
    print(await asyncio.wait_for(queue.get(), 1))


def logs():
    logging.basicConfig(format="%(asctime)s %(process)d %(thread)d %(threadName)s %(message)s")
    logging.getLogger().handlers[0].setStream(__import__("sys").stdout)
    threading.Thread(target=logging.warning, args=("hello",)).start()
    logging.error("there")


def databases():
    database = sqlite3.connect(":memory:")
    luck = "random(), hex(randomblob(4)), random()"
    now = "current_timestamp, current_date, datetime('NOW', '+1 day'), julianday(), strftime('%f'), date()"
    print(database.execute(f"SELECT {luck}, {now}").fetchone())
    moment = "datetime('2020-02-28', '+1 day'), strftime('%s', 'bad'), unixepoch(9, 'unixepoch')"
    assert database.execute(f"SELECT {moment}").fetchone() == ("2020-02-29 00:00:00", None, 9)
    database.execute("CREATE TABLE lots (moment TEXT DEFAULT CURRENT_TIMESTAMP, lot DEFAULT (random()))")
    database.execute("CREATE INDEX by_day ON lots (date(moment))")
    for _ in range(3):
        database.execute("INSERT INTO lots DEFAULT VALUES")
    print(database.execute("SELECT * FROM lots ORDER BY random()").fetchall())
    assert type(database) is sqlite3.Connection
    assert issubclass(type("Own", (sqlite3.Connection,), {}), sqlite3.dbapi2.Connection)


PARTS = (
    class_attributes,
    hashes,
    times,
    randomness,
    files,
    garbage,
    thread_locals,
    refusals,
    descriptors,
    polling,
    connecting,
    lambda: asyncio.run(talk()),
    logs,
    databases,
)

if __name__ == "__main__":
    for part in PARTS:
        print(part.__name__, flush=True)
        part()
    print("all right")
