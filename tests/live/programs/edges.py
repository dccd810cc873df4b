"""Where two things meet: an exception and a granted lock, the end of a thread and its context, a set that
grows while somebody waits for it, a genuine function and wrong arguments. Prints "all right" at the end."""

import contextvars
import os
import resource
import select
import signal
import socket
import threading
import time


class Interrupted(Exception):
    pass


def interrupt(number, frame):
    raise Interrupted


def lock_granted_to_one_who_is_interrupted():
    """The worker hands the lock over, and its signal comes before the main thread runs again."""
    lock = threading.Lock()
    lock.acquire()

    def worker():
        time.sleep(0.01)  # the main thread waits
        lock.release()
        signal.raise_signal(signal.SIGUSR1)

    former = signal.signal(signal.SIGUSR1, interrupt)
    thread = threading.Thread(target=worker)
    thread.start()
    try:
        lock.acquire()
    except Interrupted:
        print("  interrupted")
    thread.join()
    signal.signal(signal.SIGUSR1, former)
    assert lock.acquire(timeout=5), "nobody has the lock, and nobody gets it"


def context_of_a_thread_that_ended():
    """What a thread kept in a context variable ends with it, not some time after."""
    variable = contextvars.ContextVar("variable")
    ends = []

    class Kept:
        def __del__(self):
            ends.append(threading.get_ident())

    def worker(number):
        assert variable.get(None) is None
        variable.set(Kept())
        numbers.append(threading.get_ident())

    numbers = []
    for number in range(3):
        thread = threading.Thread(target=worker, args=(number,))
        thread.start()
        thread.join()
        assert ends == numbers, (ends, numbers)
    print("  context", ends)


def set_that_grows():
    """A descriptor added to an epoll set by another thread while the main one waits."""
    reading, writing = os.pipe()
    idle = os.pipe()
    epoll = select.epoll()
    epoll.register(idle[0], select.EPOLLIN)

    def worker():
        time.sleep(0.01)  # the main thread waits
        epoll.register(reading, select.EPOLLIN)
        os.write(writing, b"x")

    thread = threading.Thread(target=worker)
    thread.start()
    found = epoll.poll()
    thread.join()
    assert found == [(reading, select.EPOLLIN)], found
    epoll.close()
    for number in (reading, writing, *idle):
        os.close(number)
    print("  grown")


def wrong_arguments():
    for function, argument in (
        (resource.getrusage, 99),
        (socket.getservbyport, 70_000),
        (socket.getservbyname, 5),
        (socket.if_nametoindex, "no such interface"),
    ):
        try:
            function(argument)
        except (OSError, TypeError, ValueError, OverflowError) as error:
            print(" ", type(error).__name__)
        else:
            raise AssertionError(function)


for test in (
    lock_granted_to_one_who_is_interrupted,
    context_of_a_thread_that_ended,
    set_that_grows,
    wrong_arguments,
):
    print(test.__name__)
    test()
print("all right")
