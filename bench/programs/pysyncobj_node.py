"""A key-value store on PySyncObj: `pysyncobj_node.py PORT OWN_ADDRESS OTHER_ADDRESS...`.

It speaks the lines of `kv_server`, and `LEADER`. A write is answered when a majority has it. Its timeouts are
as short as it bears.
"""

from __future__ import annotations

import socketserver
import sys
from typing import Any

import pysyncobj
from pysyncobj.batteries import ReplDict

REPLY_PATIENCE_S = 5.0


class Conversation(socketserver.StreamRequestHandler):
    disable_nagle_algorithm = True
    store: Any

    def handle(self) -> None:
        for line in self.rfile:
            self.wfile.write(f"{self._answer(line.decode().split())}\n".encode())

    def _answer(self, words: list[str]) -> str:
        if words[0] == "SET":
            self.store.set(words[1], words[2], sync=True, timeout=REPLY_PATIENCE_S)
            return "OK"
        if words[0] == "LEADER":
            return str(self.server.node.getStatus()["leader"])
        return str(self.store.get(words[1], "-"))


class Server(socketserver.ThreadingTCPServer):
    node: Any
    allow_reuse_address = True
    daemon_threads = True


def main() -> None:
    port, own, *others = sys.argv[1:]
    Conversation.store = ReplDict()
    settings = pysyncobj.SyncObjConf(
        autoTickPeriod=0.001,
        appendEntriesPeriod=0.02,
        raftMinTimeout=0.1,
        raftMaxTimeout=0.2,
        appendEntriesUseBatch=False,
        fullDumpFile=None,
    )
    with Server(("127.0.0.1", int(port)), Conversation) as server:
        server.node = pysyncobj.SyncObj(own, others, settings, consumers=[Conversation.store])
        server.serve_forever()


if __name__ == "__main__":
    main()
