"""A web server that shows everything that differs from one machine to the next."""

import datetime
import http.server
import os
import platform
import random
import secrets
import socket
import sys
import tempfile
import threading
import time
import uuid


class Thing:
    def __init__(self, name):
        self.name = name


THINGS = {Thing(f"thing {index}") for index in range(20)}


def facts():
    return [
        uuid.uuid4(),
        uuid.uuid1(),
        random.random(),
        random.Random().randrange(10**9),
        secrets.token_hex(4),
        datetime.datetime.now().isoformat(),
        datetime.datetime.now(datetime.UTC).isoformat(),
        datetime.datetime.utcnow(),
        datetime.date.today(),
        time.time(),
        time.monotonic_ns(),
        time.perf_counter(),
        time.process_time() >= 0,
        time.strftime("%H:%M:%S"),
        time.ctime(),
        os.getpid(),
        os.getppid(),
        socket.gethostname(),
        platform.node(),
        os.cpu_count(),
        os.urandom(3).hex(),
        [thing.name for thing in THINGS],
        threading.get_ident(),
        os.path.basename(tempfile.mktemp()),
    ]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = "\n".join(str(fact) for fact in facts()).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, text, *args):
        print(text % args)


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8700
    http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
