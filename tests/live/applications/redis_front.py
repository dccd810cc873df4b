"""A middle tier: HTTP in front, Redis behind.

redis_front.py PORT REDIS_PORT
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import redis


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self):
        who, number, amount = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        sequence = STORE.incr("sequence")
        balance = STORE.hincrby("balances", who, amount)
        length = STORE.rpush(f"history:{who}", number)
        self.answer({"sequence": sequence, "number": length, "balance": balance, "digest": ""})

    def do_GET(self):
        balances = {who.decode(): int(amount) for who, amount in STORE.hgetall("balances").items()}
        self.answer({"balances": balances, "sequence": int(STORE.get("sequence") or 0)})

    def answer(self, reply):
        body = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


if __name__ == "__main__":
    STORE = redis.Redis(port=int(sys.argv[2]), socket_timeout=60)
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
