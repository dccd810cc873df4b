"""A client program that talks with `talking_server`, without a pause for a while and then after one.

    talking_client.py PORT SERVER_PORT

It checks every reply itself. On a port of its own it tells how far it is; whoever says "end" there ends it.
"""

import json
import socket
import sys
import threading
import time
import zlib

REPORT = {"said": 0, "heard": 0, "ending": False, "finished": False, "complaints": []}
AT_ONCE = 40


def text(number):
    return b"%d %s" % (number, b"x" * (number * 37 % 400))


def converse(connection):
    digest, rest, expected = 0, b"", []
    while not REPORT["ending"]:
        several = 1 + REPORT["said"] % 3
        for _ in range(several):
            REPORT["said"] += 1
            line = text(REPORT["said"])
            digest = zlib.crc32(line, digest)
            expected.append(b"%d %d 1" % (REPORT["said"], digest))
            connection.sendall(line + b"\n")
        while expected:
            *lines, rest = (rest + connection.recv(4096)).split(b"\n")
            for line in lines:
                if line != expected.pop(0):
                    REPORT["complaints"].append(repr(line))
                REPORT["heard"] += 1
        if REPORT["heard"] % AT_ONCE < several:
            time.sleep(0.05)
    REPORT["finished"] = True


def tell(listener):
    while True:
        with listener.accept()[0] as asked:
            REPORT["ending"] |= asked.recv(10) == b"end"
            asked.sendall(json.dumps(REPORT).encode())


if __name__ == "__main__":
    port, server_port = map(int, sys.argv[1:3])
    telling = socket.create_server(("127.0.0.1", port))
    threading.Thread(target=tell, args=(telling,), daemon=True).start()
    with socket.create_connection(("127.0.0.1", server_port)) as server:
        converse(server)
        threading.Event().wait()
