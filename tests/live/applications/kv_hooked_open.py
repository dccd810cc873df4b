"""The server of kv_hooked, whose connections stay open."""

import json
import socketserver
import sys

from ledger import Ledger

LEDGER = Ledger()


def __llft_snapshot__():  # noqa: N807
    return json.dumps(LEDGER.dump()).encode()


def __llft_restore__(state):  # noqa: N807
    LEDGER.load(json.loads(state))


class Conversation(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            request = json.loads(line)
            reply = LEDGER.dump() if request == "dump" else LEDGER.add(*request)
            self.wfile.write(json.dumps(reply).encode() + b"\n")


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


if __name__ == "__main__":
    with Server(("127.0.0.1", int(sys.argv[1])), Conversation) as server:
        server.serve_forever()
