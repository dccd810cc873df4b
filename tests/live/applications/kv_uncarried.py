"""The socketserver of `kv_locked`, with state that an image of its process does not carry.

With a path as its second argument it writes a file there when somebody named `writer` asks; without, it has a
device open all its life.
"""

import os
import sys

import kv_locked


class Writing(kv_locked.Ledger):
    def add(self, who, number, amount):
        reply = super().add(who, number, amount)
        if who == "writer":
            with open(sys.argv[2], "w") as file:
                file.write(f"{who} {number} {amount}\n")
        return reply


if __name__ == "__main__":
    kv_locked.LEDGER = Writing()
    device = None if sys.argv[2:] else os.open("/dev/zero", os.O_RDONLY)
    with kv_locked.Server(("127.0.0.1", int(sys.argv[1])), kv_locked.Conversation) as server:
        server.serve_forever()
