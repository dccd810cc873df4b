"""A server that reads clocks and draws bytes all the time, in runs of all lengths, in several threads.

`luck` has a digest of all that was read. The clocks never go back: the server itself looks.
"""

import datetime
import hashlib
import itertools
import json
import os
import socketserver
import sys
import threading
import time

ORDER = itertools.count(1)
ENTRIES = {}
STATE = {"digest": "", "last": 0.0, "steps_back": 0}
LOOKING = threading.Lock()
CLOCKS = (time.time, time.monotonic, time.time_ns, time.perf_counter, time.process_time)


def read(number):
    values = []
    for round_number in range(number % 7 + 1):
        last = time.time()
        for _ in range(number * 13 % 90):
            now = time.time()
            STATE["steps_back"] += now < last
            last = now
        values.append(last)
        values += [clock() for clock in CLOCKS]
        if round_number % 2:
            values += [os.urandom(size).hex() for size in (1, 8, 300)] + [os.urandom(8).hex()] * 2
        if round_number % 3 == 2:
            time.sleep(0)
        values.append(str(datetime.datetime.now()))
    return values


def add(who, number, amount):
    sequence = next(ORDER)
    ENTRIES[sequence] = [who, number, amount]
    values = read(number)
    with LOOKING:  # else another thread may read the clock and look, between the two here
        now = time.time()
        STATE["steps_back"] += now < STATE["last"]
        STATE["last"] = now
    STATE["digest"] = hashlib.sha256((STATE["digest"] + repr(values)).encode()).hexdigest()
    return {"sequence": sequence, "number": number, "luck": [STATE["digest"], values[0]]}


def dump():
    history = [ENTRIES[sequence] for sequence in sorted(ENTRIES)]
    digest = hashlib.sha256(json.dumps(history).encode()).hexdigest()
    return {
        "history": history,
        "digest": digest,
        "steps_back": STATE["steps_back"],
        "luck": [STATE["digest"]],
    }


class Conversation(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            request = json.loads(line)
            reply = dump() if request == "dump" else add(*request)
            self.wfile.write(json.dumps(reply).encode() + b"\n")


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


if __name__ == "__main__":
    with Server(("127.0.0.1", int(sys.argv[1])), Conversation) as server:
        server.serve_forever()
