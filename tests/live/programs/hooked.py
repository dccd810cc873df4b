"""A key-value server with one request a connection, and hooks. Lines: SET key value | GET key | DUMP."""

import json
import random
import socketserver
import sys

DATA = {}


def __llft_snapshot__():  # noqa: N807
    return json.dumps(DATA).encode()


def __llft_restore__(state):  # noqa: N807
    DATA.update(json.loads(state))


class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        words = self.rfile.readline().decode().split()
        self.wfile.write((self.answer(words) + "\n").encode())

    def answer(self, words):
        if words[0] == "SET":
            DATA[words[1]] = words[2]
            return f"OK {len(DATA)} {random.random()}"
        if words[0] == "GET":
            return DATA.get(words[1], "-")
        return repr(list(DATA.items()))


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


if __name__ == "__main__":
    with Server(("127.0.0.1", int(sys.argv[1])), Handler) as server:
        server.serve_forever()
