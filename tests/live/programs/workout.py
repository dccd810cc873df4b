"""Every tool of `threading` and `queue`, signals, spinning, connections to others; prints what it sees."""

import concurrent.futures
import os
import queue
import signal
import socket
import threading
import time

SEEN = []


def note(*words):
    SEEN.append(" ".join(str(word) for word in words))


def queues():
    jobs, results = queue.Queue(3), queue.SimpleQueue()

    def work(name):
        while True:
            job = jobs.get()
            if job is None:
                return
            results.put((name, job, threading.get_ident()))
            jobs.task_done()

    workers = [threading.Thread(target=work, args=(name,)) for name in "abc"]
    for worker in workers:
        worker.start()
    for job in range(20):
        jobs.put(job)
    jobs.join()
    for _ in workers:
        jobs.put(None)
    for worker in workers:
        worker.join()
    while not results.empty():
        note("queue", *results.get())
    try:
        queue.Queue().get(timeout=0.01)
    except queue.Empty:
        note("empty")


def synchronisers():
    barrier, event, semaphore = threading.Barrier(3), threading.Event(), threading.Semaphore(2)
    condition, turn = threading.Condition(), [0]

    def run(number):
        barrier.wait()
        with semaphore:
            note("semaphore", number)
            time.sleep(0.001 * (3 - number))
        event.wait(1)
        with condition:
            condition.wait_for(lambda: turn[0] == number)
            note("turn", number)
            turn[0] += 1
            condition.notify_all()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    timer = threading.Timer(0.005, event.set)
    timer.start()
    for thread in threads:
        thread.join()
    lock = threading.Lock()
    lock.acquire()
    note("timed", lock.acquire(timeout=0.01), lock.acquire(False))
    note("join", threading.Thread(target=lock.acquire, daemon=True).start())
    recursive = threading.RLock()
    with recursive, recursive:
        note(recursive._is_owned())


def spinning():
    flag = []
    threading.Thread(target=lambda: flag.append(1)).start()
    while not flag:
        pass
    lock = threading.Lock()
    lock.acquire()
    threading.Thread(target=lambda: (time.sleep(0.002), lock.release())).start()
    while not lock.acquire(False):
        pass
    note("spun")


def pools():
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(pow, number, 2) for number in range(10)]
        note("pool", [future.result() for future in concurrent.futures.as_completed(futures)])


def signals():
    signal.signal(signal.SIGUSR1, lambda number, frame: note("signal", number))
    os.kill(os.getpid(), signal.SIGUSR1)
    signal.raise_signal(signal.SIGUSR1)
    signal.signal(signal.SIGALRM, lambda number, frame: note("alarm"))
    signal.setitimer(signal.ITIMER_REAL, 0.005)
    time.sleep(0.3)
    note("handled", signal.getsignal(signal.SIGTERM) == signal.SIG_DFL)


def connections():
    with socket.create_connection(("10.9.9.7", 700)) as echo:
        echo.sendall(b"hello group")
        note("group", echo.recv(100), echo.getpeername())
    with socket.create_connection(("192.0.2.7", 80), timeout=5) as outside:
        outside.sendall(b"hello outside")
        note("outside", outside.recv(100), outside.getsockname())
    for address in (("192.0.2.7", 1), ("10.9.9.9", 999)):
        try:
            socket.create_connection(address)
        except ConnectionRefusedError as error:
            note("refused", error.errno)
    with socket.create_server(("127.0.0.1", 0)) as own:
        client = socket.create_connection(own.getsockname())
        server, _ = own.accept()
        client.sendall(b"to myself")
        client.shutdown(socket.SHUT_WR)
        note("own", server.makefile("rb").read(), own.getsockname()[1] > 0)
    one, other = socket.socketpair()
    one.settimeout(0.01)
    try:
        one.recv(1)
    except TimeoutError:
        note("timeout")
    other.close()
    note("end", one.recv(1), os.fstat(one.fileno()).st_mode)
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as file:
        file.write("through a file")
    with os.fdopen(reading) as file:
        note("pipe", file.read())


def files():
    """A thread reads a file that another one closes."""
    one, other = socket.socketpair()
    file = one.makefile("rb")
    reader = threading.Thread(target=lambda: note("line", file.readline()))
    reader.start()
    time.sleep(0.002)
    closer = threading.Thread(target=lambda: note("closed", file.close()))
    closer.start()
    time.sleep(0.002)
    other.sendall(b"at last\n")
    reader.join()
    closer.join()


def refusals():
    for call in (
        os.fork,
        lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
        lambda: os.system("true"),
    ):
        try:
            call()
        except OSError as error:
            note("refused", type(error).__name__, error)
    try:
        import uvloop  # noqa: F401
    except ImportError as error:
        note(type(error).__name__)


if __name__ == "__main__":
    for part in (queues, synchronisers, spinning, pools, signals, connections, files, refusals):
        part()
        print(part.__name__, *SEEN, sep="\n  ", flush=True)
        SEEN.clear()
