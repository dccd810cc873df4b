"""A server of lines: one conversation at a time, each reply made of all that was said so far.

talking_server.py PORT
"""

import socket
import sys
import time
import zlib


def converse(connection):
    digest = before = 0
    rest = b""
    while data := connection.recv(700):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            digest = zlib.crc32(line, digest)
            now = time.monotonic()
            reply = b"%d %d %d\n" % (int(line.split(b" ", 1)[0]), digest, now >= before)
            before = now
            connection.sendall(reply)


if __name__ == "__main__":
    with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as listener:
        while True:
            with listener.accept()[0] as accepted:
                converse(accepted)
