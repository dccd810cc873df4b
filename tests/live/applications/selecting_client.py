"""What `talking_client` does, on several connections at a time, in one thread that selects.

selecting_client.py PORT SERVER_PORT
"""

import selectors
import socket
import sys
import threading
import time
import zlib

from talking_client import AT_ONCE, REPORT, tell, text

CONNECTIONS = 5


class Conversation:
    def __init__(self, connection):
        self.connection = connection
        self.digest, self.rest, self.expected = 0, b"", []

    def say(self):
        for _ in range(1 + REPORT["said"] % 3):
            REPORT["said"] += 1
            line = text(REPORT["said"])
            self.digest = zlib.crc32(line, self.digest)
            self.expected.append(b"%d %d 1" % (REPORT["said"], self.digest))
            self.connection.sendall(line + b"\n")

    def hear(self):
        *lines, self.rest = (self.rest + self.connection.recv(4096)).split(b"\n")
        for line in lines:
            if line != self.expected.pop(0):
                REPORT["complaints"].append(repr(line))
            REPORT["heard"] += 1


def converse(conversations):
    with selectors.DefaultSelector() as selector:
        for each in conversations:
            selector.register(each.connection, selectors.EVENT_READ, each)
            each.say()
        pauses = 0
        while any(each.expected for each in conversations):
            for key, _ in selector.select():
                key.data.hear()
                if not key.data.expected and not REPORT["ending"]:
                    key.data.say()
            if REPORT["heard"] // AT_ONCE > pauses:
                pauses = REPORT["heard"] // AT_ONCE
                time.sleep(0.05)
    REPORT["finished"] = True


if __name__ == "__main__":
    port, server_port = map(int, sys.argv[1:3])
    telling = socket.create_server(("127.0.0.1", port))
    threading.Thread(target=tell, args=(telling,), daemon=True).start()
    address = "127.0.0.1", server_port
    converse([Conversation(socket.create_connection(address)) for _ in range(CONNECTIONS)])
    threading.Event().wait()
