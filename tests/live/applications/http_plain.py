"""The standard library's http.server, with a thread for each connection, and connections that stay open."""

import json
import random
import sys
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from ledger import Ledger

LEDGER = Ledger()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        luck = [str(uuid.uuid4()), random.random(), self.log_date_time_string()]
        self.answer({**LEDGER.add(*request), "luck": luck})

    def do_GET(self):
        self.answer(LEDGER.dump())

    def answer(self, reply):
        body = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
