"""A program that is imaged in the midst of its life: `python -m tests.live.image_program IMAGE MEGABYTES`.

Its threads have state in their locals and wait for an event, a lock, a queue, a time; a coroutine is
suspended, a generator and a decompressor are half used. It prints a digest of all that came of them, and
before that `image` if it went on by itself, `restored` if it is a process restored from its image.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import queue
import random
import sys
import threading
import time
import zlib
from collections.abc import Generator, Iterator
from typing import Any

from llft.runtime.native import image

OUT: list[object] = []


def fibonacci() -> Iterator[int]:
    a, b = 0, 1
    while True:
        yield a
        a, b = b, (a + b) % 1_000_000_007


class Signal:
    def __await__(self) -> Generator[str, int, int]:
        return (yield "waiting")


async def suspended() -> int:
    local = 41
    return local + await Signal()


def deep(n: int) -> int:
    return 0 if n == 0 else 1 + deep(n - 1)


def start_workers(
    event: threading.Event, lock: threading.Lock, work: queue.Queue[Any]
) -> list[threading.Thread]:
    def handler(number: int) -> None:
        secret = hashlib.sha256(b"%d" % number)
        if number % 2:
            event.wait()
        else:
            with lock:
                number += 100
        OUT.append((number, secret.hexdigest()))

    def summing() -> None:
        squares = []
        while (value := work.get()) is not None:
            squares.append(value * value)
        OUT.append(("squares", sum(squares)))

    workers = [threading.Thread(target=handler, args=(number,), daemon=True) for number in range(6)]
    workers.append(threading.Thread(target=summing, daemon=True))
    workers.append(threading.Thread(target=lambda: OUT.append(event.wait(3600)), daemon=True))
    for worker in workers:
        worker.start()
    return workers


def main(path: str, megabytes: int) -> None:
    event, lock, work = threading.Event(), threading.Lock(), queue.Queue[Any]()
    lock.acquire()
    workers = start_workers(event, lock, work)
    numbers, chance, coroutine = fibonacci(), random.Random(7), suspended()
    coroutine.send(None)
    for number in range(50):
        next(numbers)
        work.put(number)
    table = {f"k{number}": number * 3 for number in range(100_000)}
    packed, unpacking = zlib.compress(b"abc" * 100_000), zlib.decompressobj()
    half = unpacking.decompress(packed[:300])
    large = [os.urandom(1 << 20) for _ in range(megabytes)]
    taken = image.take(path, "/nowhere")
    if not taken.restored:
        print("pause_ms", taken.pause_ns / 1e6, flush=True)
        until_s = time.monotonic() + 60
        while not image.is_written(taken.child):
            assert time.monotonic() < until_s, "the image is not written"
            time.sleep(0.01)
    print("restored" if taken.restored else "image", flush=True)
    event.set()
    lock.release()
    for number in (*range(50, 100), None):
        work.put(number)
    for worker in workers:
        worker.join(60)
        assert not worker.is_alive()
    try:
        coroutine.send(1)
    except StopIteration as end:
        OUT.append(end.value)
    OUT.append([next(numbers) for _ in range(20)])
    OUT.append((chance.random(), zlib.crc32(half + unpacking.decompress(packed[300:])), id(table)))
    del table["k7"]
    OUT.append(zlib.crc32(repr(table).encode()))
    OUT.append([hashlib.md5(each).hexdigest() for each in large])
    for number in range(4):
        late = threading.Thread(target=lambda number=number: OUT.append(("late", number)))
        late.start()
        late.join()
    import sqlite3  # a library that is loaded only now

    OUT.append(sqlite3.connect(":memory:").execute("select 6*7").fetchone())
    sys.setrecursionlimit(20_000)
    OUT.append(deep(15_000))
    print(hashlib.sha256("\n".join(sorted(map(repr, OUT))).encode()).hexdigest(), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "--restore":
        image.restore(sys.argv[2], 598)
    loaded = [ctypes.CDLL(path) for path in sys.argv[3:]]
    main(sys.argv[1], int(sys.argv[2]))
