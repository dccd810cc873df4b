"""A key-value server on socketserver, its data under a lock. Lines: SET key value | GET key | DUMP."""

import socketserver
import sys
import threading

DATA = {}
LOCK = threading.Lock()


class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            self.wfile.write((self.answer(line.decode().split()) + "\n").encode())

    def answer(self, words):
        with LOCK:
            if words[0] == "SET":
                DATA[words[1]] = words[2]
                return f"OK {len(DATA)} {threading.current_thread().name} {self.client_address}"
            if words[0] == "GET":
                return DATA.get(words[1], "-")
            return repr(list(DATA.items()))


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8700
    with Server(("127.0.0.1", port), Handler) as server:
        server.serve_forever()
