"""The same without a lock. It relies on one bytecode running at a time: `next` and `append` are whole.

`witness` is a counter that threads read, and write back after a while: every interleaving shows in it.
"""

import hashlib
import itertools
import json
import socketserver
import sys
import time

ORDER = itertools.count(1)
ENTRIES = {}
RECENT = []
STATE = {"witness": 0}


def add(who, number, amount):
    sequence = next(ORDER)
    ENTRIES[sequence] = [who, number, amount]
    before = STATE["witness"]
    RECENT.append(who)
    while len(RECENT) > 20:
        RECENT.pop(0)
    if number % 3 == 0:
        time.sleep(0)
    STATE["witness"] = before + 1
    seen = "".join(RECENT)
    return {"sequence": sequence, "number": number, "luck": [before, seen, time.time()]}


def dump():
    history = [ENTRIES[sequence] for sequence in sorted(ENTRIES)]
    digest = hashlib.sha256(json.dumps(history).encode()).hexdigest()
    return {"history": history, "digest": digest, "luck": [STATE["witness"], RECENT]}


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
