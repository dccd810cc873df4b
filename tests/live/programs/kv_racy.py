"""A counter that is changed without a lock: every interleaving of the threads shows in the answers."""

import socketserver
import sys

STATE = {"count": 0, "history": []}


class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            before = STATE["count"]
            for _ in range(50):
                STATE["history"].append(line[:1])
                del STATE["history"][:-20]
            STATE["count"] = before + 1
            self.wfile.write(f"{before} {b''.join(STATE['history']).decode()}\n".encode())


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8700
    with Server(("127.0.0.1", port), Handler) as server:
        server.serve_forever()
