"""An ordinary server, as anybody might write it: accounts, one thread per connection, a lock, the time and
luck.

It knows nothing of LLFT; `llft demo` runs it as a process group and kills its primary. A request is a line,
and so is its reply:

    ADD name number amount   ->  OK number count balance digest moment lot
    TOTAL                    ->  TOTAL count balance

The digest is over the account's whole history, the moments and lots in the replies included. So a client
that has seen all replies can compute it, and nothing can be forgotten, done twice or changed without its
noticing.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import socketserver
import threading
import time
from dataclasses import dataclass

NO_HISTORY = "0" * 16


@dataclass
class Account:
    count: int = 0
    balance: int = 0
    digest: str = NO_HISTORY


def next_digest(digest: str, entry: str) -> str:
    return hashlib.sha256(f"{digest} {entry}".encode()).hexdigest()[:16]


class Bank:
    def __init__(self, state_mb: int = 0) -> None:
        self._lock = threading.Lock()
        self._accounts: dict[str, Account] = {}
        luck = random.Random(state_mb)
        self._papers = {f"paper{number}": luck.randbytes(1000) for number in range(state_mb * 1000)}

    def add(self, name: str, number: str, amount: int) -> str:
        moment, lot = time.monotonic_ns(), random.getrandbits(32)
        with self._lock:
            account = self._accounts.setdefault(name, Account())
            account.count += 1
            account.balance += amount
            account.digest = next_digest(account.digest, f"{number} {amount} {moment} {lot}")
            return f"OK {number} {account.count} {account.balance} {account.digest} {moment} {lot}"

    def total(self) -> str:
        with self._lock:
            accounts = list(self._accounts.values())
        count = sum(account.count for account in accounts)
        return f"TOTAL {count} {sum(account.balance for account in accounts)}"


class Conversation(socketserver.StreamRequestHandler):
    disable_nagle_algorithm = True

    def handle(self) -> None:
        assert isinstance(self.server, BankServer)
        for line in self.rfile:
            words = line.decode().split()
            if words and words[0] == "ADD" and len(words) == 4:
                reply = self.server.bank.add(words[1], words[2], int(words[3]))
            elif words == ["TOTAL"]:
                reply = self.server.bank.total()
            else:
                reply = "WHAT"
            self.wfile.write(reply.encode() + b"\n")


class BankServer(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], state_mb: int = 0) -> None:
        self.bank = Bank(state_mb)
        super().__init__(address, Conversation)


def main() -> None:
    parser = argparse.ArgumentParser(description="Keeps accounts.")
    parser.add_argument("--port", type=int, default=8765)
    parser.add_argument("--state-mb", type=int, default=0, help="papers to keep besides")
    arguments = parser.parse_args()
    port = arguments.port
    with BankServer(("127.0.0.1", port), arguments.state_mb) as server:
        print(f"serving on port {port}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
