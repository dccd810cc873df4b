"""A key-value store: `kv_server.py PORT`. Lines `SET key value` and `GET key`; replies are lines."""

from __future__ import annotations

import socketserver
import sys

_values: dict[str, str] = {}


class Conversation(socketserver.StreamRequestHandler):
    disable_nagle_algorithm = True

    def handle(self) -> None:
        for line in self.rfile:
            self.wfile.write(f"{answer(line.decode().split())}\n".encode())


def answer(words: list[str]) -> str:
    if words[0] == "SET":
        _values[words[1]] = words[2]
        return "OK"
    return _values.get(words[1], "-")


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


if __name__ == "__main__":
    with Server(("127.0.0.1", int(sys.argv[1])), Conversation) as server:
        server.serve_forever()
