"""One item, which every request updates. A line is a request: "add", or "add, and wait" for another line."""

import socketserver
import sys

ITEM = [0]


def __llft_snapshot__():  # noqa: N807
    return str(ITEM[0]).encode()


def __llft_restore__(state):  # noqa: N807
    ITEM[0] = int(state)


class Conversation(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            ITEM[0] += 1
            mine = ITEM[0]
            if line == b"add, and wait\n":
                self.wfile.write(f"added {mine}\n".encode())
                self.rfile.readline()
                self.wfile.write(f"{mine} of {ITEM[0]}\n".encode())
            else:
                self.wfile.write(f"{mine}\n".encode())


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


if __name__ == "__main__":
    with Server(("127.0.0.1", int(sys.argv[1])), Conversation) as server:
        server.serve_forever()
