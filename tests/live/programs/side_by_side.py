"""Threads that run side by side and share only what is safe to share: locks, queues, descriptors, generators.

Everything that depends on who was faster goes into a result. The main thread prints them at the end.
"""

import gc
import importlib
import os
import queue
import random
import select
import signal
import socket
import sys
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

LOCK, RLOCK = threading.Lock(), threading.RLock()
SHARED = []
RESULTS = {}


class Thing:
    """Hashed by address, were it not interposed."""

    def __init__(self, name):
        self.name = name


def share(what):
    with LOCK:
        SHARED.append(what)


def contend(name):
    seen = []
    for turn in range(12):
        with RLOCK, RLOCK:
            share((name, turn))
        if LOCK.acquire(False):
            seen.append(len(SHARED))
            LOCK.release()
        if LOCK.acquire(timeout=0.0005):
            seen.append(-len(SHARED))
            LOCK.release()
        seen.append(LOCK.locked())
    return seen


def wait_in_vain(name):
    held = threading.Lock()
    held.acquire()
    before = time.monotonic()
    taken = held.acquire(timeout=0.01), held.acquire(blocking=False)
    return taken, time.monotonic() - before >= 0.01


def draw(name):
    numbers, letter = [random.random() for _ in range(4)], random.choice("abcdef")
    return numbers, letter, os.urandom(2), time.time_ns(), [str(uuid.uuid1()) for _ in range(8)]


def open_sockets(name):
    """Numbers of descriptors come of one table."""
    numbers = []
    for _ in range(6):
        one, other = socket.socketpair()
        reading, writing = os.pipe()
        numbers += [one.fileno(), reading]
        one.sendall(b"x")
        other.recv(1)
        os.close(reading)
        os.close(writing)
        one.close()
        other.close()
    return numbers


def converse(name):
    with socket.create_connection(("10.9.9.7", 700)) as group:
        group.sendall(f"hello {name}".encode())
        answer = group.recv(100)
        numbers = group.getsockname(), group.fileno()
    with socket.create_connection(("192.0.2.7", 80), timeout=5) as outside:
        outside.sendall(b"to the outside")
        outside.settimeout(5)
        return answer, numbers, outside.recv(100)


def things(name):
    found = {Thing(f"{name}{index}") for index in range(20)}
    share(frozenset(thing.name for thing in found))
    return [thing.name for thing in found]


def import_late(name):
    return (
        importlib.import_module("colorsys").__name__,
        __import__("wave").__name__,
        "\N{EURO SIGN}".encode("cp1252"),
    )


def leave_garbage(name):
    """A pair of sockets in a cycle, left to the collector: it is closed by nobody, at no replica."""
    pair = list(socket.socketpair())
    pair.append(pair)
    del pair
    gc.collect()
    return threading.current_thread().name


WORK = [contend, wait_in_vain, draw, open_sockets, converse, things, import_late, leave_garbage]


def work(name):
    RESULTS[name] = [function(name) for function in WORK]


def crew():
    threads = [threading.Thread(target=work, args=(f"t{index}",)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name in sorted(RESULTS):
        print(name, *RESULTS[name], sep="\n  ")
    print("shared", SHARED)


def signalling():
    """Conditions, events, semaphores, barriers, queues."""
    items, quick, done = queue.Queue(2), queue.SimpleQueue(), threading.Event()
    barrier, few = threading.Barrier(3), threading.Semaphore(2)

    def produce(name):
        barrier.wait()
        for number in range(8):
            items.put((name, number))
            with few:
                quick.put((name, number, done.is_set()))

    taken = []

    def consume():
        barrier.wait()
        while len(taken) < 16:
            taken.append(items.get(timeout=5))
        done.set()

    threads = [threading.Thread(target=produce, args=(name,)) for name in "ab"]
    threads.append(threading.Thread(target=consume, daemon=True))
    for thread in threads:
        thread.start()
    polls = 0
    while not done.is_set():
        polls += 1
        time.sleep(0.0002)
    print("queue", taken, [quick.get() for _ in range(16)], quick.empty(), polls)
    print("alive", threads[2].is_alive() or "ended", threads[0].join(), done.wait(0.01))


def pools_and_timers():
    fired = threading.Event()
    timer = threading.Timer(0.003, fired.set)
    timer.start()
    with ThreadPoolExecutor(3) as pool:
        futures = [pool.submit(lambda n: (n * n, threading.current_thread().name), n) for n in range(12)]
        print("pool", [future.result() for future in futures])
    print("timer", fired.wait(5), timer.is_alive())


def listen_to_oneself():
    """Two acceptors on one listener, clients in threads, and a poll that a close disturbs."""
    server = socket.create_server(("127.0.0.1", 8711))
    served = {"one": [], "two": []}

    def accept(name):
        while True:
            connection, address = server.accept()
            data = connection.recv(10)
            connection.sendall(data.upper())
            connection.close()
            served[name].append((data, address))
            if data == b"end":
                return

    acceptors = [threading.Thread(target=accept, args=(name,)) for name in served]
    answers = {}

    def ask(text):
        with socket.create_connection(("127.0.0.1", 8711)) as own:
            own.sendall(text)
            answers[text] = own.recv(10)

    askers = [threading.Thread(target=ask, args=(f"q{number}".encode(),)) for number in range(6)]
    for thread in acceptors + askers:
        thread.start()
    for thread in askers:
        thread.join()
    ask(b"end")
    ask(b"end")
    for thread in acceptors:
        thread.join()
    print("served", served, sorted(answers.items()))
    server.close()


def wake_a_poll():
    reading, writing = os.pipe()
    poll = select.poll()
    poll.register(reading, select.POLLIN)
    other = threading.Thread(target=lambda: (time.sleep(0.002), os.write(writing, b"now")))
    other.start()
    found = poll.poll(5000)
    while not found:  # a wait may be disturbed for nothing
        found = poll.poll(5000)
    print("poll", found == [(reading, select.POLLIN)], os.read(reading, 10))
    other.join()


def refusals():
    def attempt(function):
        try:
            function()
        except (OSError, ImportError) as error:
            return f"{type(error).__name__} {error}"
        return "done"

    handled = []
    signal.signal(signal.SIGUSR1, lambda number, frame: handled.append(number))
    signal.raise_signal(signal.SIGUSR1)
    print("signal", handled)
    told = []
    other = threading.Thread(
        target=lambda: told.append(attempt(lambda: os.kill(os.getpid(), signal.SIGUSR1)))
    )
    other.start()
    other.join()
    print(told[0])
    print(attempt(lambda: signal.setitimer(signal.ITIMER_REAL, 0.1)))
    print(attempt(lambda: __import__("asyncio")))


def main():
    crew()
    signalling()
    pools_and_timers()
    listen_to_oneself()
    wake_a_poll()
    refusals()
    print("all right")


if __name__ == "__main__":
    main()
    sys.stdout.flush()
