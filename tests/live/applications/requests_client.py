"""A client program: threads with sessions of `requests`, each adding to a server's ledger.

    requests_client.py PORT URL THREADS REQUESTS

It checks every reply itself, and tells on a port of its own what it has seen.
"""

import json
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import requests

SEEN = []
REPORT = {"finished": 0, "complaints": []}


def converse(url, name, count):
    balance = 0
    try:
        with requests.Session() as session:
            for number in range(1, count + 1):
                reply = session.post(url, json=[name, number, number * 7], timeout=60).json()
                balance += number * 7
                if (reply["number"], reply["balance"]) != (number, balance):
                    REPORT["complaints"].append([name, number, balance, reply])
                SEEN.append([reply["sequence"], name, number, number * 7])
                time.sleep(0.02)
    except requests.RequestException as error:
        REPORT["complaints"].append([name, repr(error)])
    REPORT["finished"] += 1


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps({**REPORT, "seen": SEEN}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


if __name__ == "__main__":
    port, url, threads, count = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with ThreadPoolExecutor(threads) as pool:
        for number in range(threads):
            pool.submit(converse, url, f"worker{number}", count)
    threading.Event().wait()
