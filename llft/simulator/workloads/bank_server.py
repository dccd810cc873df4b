"""A bank: every request meets every source of non-determinism that a server has.

    Deposit   claims the ledger, reads the clock, draws random bytes, changes an account
    Transfer  tries, with the ledger in hand, to claim the vault too; what changes depends on it
    Audit     holds the vault while a select with a timeout waits for more input
    Poll      reads without blocking first; what it finds goes into the shared data

Variant "locked": the ledger's mutex guards all shared data. Variant "racy": no mutex; an account is
read, then other threads run, then it is written, as programs do that lean on the GIL. Lost
updates are then part of the behaviour that replicas must share (D-16: token only).
"""

from __future__ import annotations

from typing import Any

from llft.core.determinizer.operations import (
    WOULD_BLOCK,
    Claim,
    Failure,
    Operation,
    RandomBytes,
    ReadClock,
    Receive,
    Release,
    Result,
    Select,
    TryClaim,
    Yield,
)
from llft.instant import US
from llft.simulator.workloads.protocol import AUDIT, OK, POLL, TRANSFER, Reply, encode_reply, extend_digest
from llft.simulator.workloads.stream_server import ServerThread, StreamServer

LEDGER_MUTEX = 1
VAULT_MUTEX = 2
ACCOUNT_COUNT = 16
AUDIT_TIMEOUT_NS = 300 * US
WITH_LEDGER = ("on_clock_read", "on_drawn", "on_yielded", "on_vault_tried", "on_vault_returned")
"""What a thread waits for while it holds the ledger."""
CONTENDED = 1 << 20
"""Added to `observed` when the vault was taken, so that the digest tells the two cases apart."""


class BankServer(StreamServer):
    def __init__(self, *, group_id: int, variant: str) -> None:
        super().__init__(group_id=group_id, variant=variant)
        self.balances = [0] * ACCOUNT_COUNT
        self.contention_count = 0

    def perform(self, thread: ServerThread) -> Operation | None:
        thread.observed = 0
        thread.borrowed = False
        if thread.request.kind == AUDIT:
            return thread.wait(self.on_vault_held, Claim(VAULT_MUTEX))
        if thread.request.kind == POLL:
            return thread.wait(self.on_polled, Receive(thread.fd, 256, blocking=False))
        return self.open_ledger(thread)

    def on_vault_held(self, thread: ServerThread, result: Result) -> Operation | None:
        return thread.wait(self.on_audited, Select((thread.fd,), AUDIT_TIMEOUT_NS))

    def on_audited(self, thread: ServerThread, result: Any) -> Operation | None:
        thread.observed = len(result)
        return thread.wait(self.on_vault_left, Release(VAULT_MUTEX))

    def on_vault_left(self, thread: ServerThread, result: Result) -> Operation | None:
        return self.open_ledger(thread)

    def on_polled(self, thread: ServerThread, result: Any) -> Operation | None:
        """A reset is not acted on here: the request was received and is performed once all the same."""
        if result == WOULD_BLOCK:
            thread.observed = 1
        elif isinstance(result, Failure):
            thread.observed = 2
        else:
            thread.observed = 3 + len(result)
            thread.ended = not result
            thread.inbox += result
        return self.open_ledger(thread)

    def open_ledger(self, thread: ServerThread) -> Operation | None:
        if self.racy:
            return self.on_ledger_held(thread, True)
        return thread.wait(self.on_ledger_held, Claim(LEDGER_MUTEX))

    def on_ledger_held(self, thread: ServerThread, result: Result) -> Operation | None:
        if not self.racy and any(other.step in WITH_LEDGER for other in self.threads.values()):
            self.malformed.append("two threads hold the ledger")
        thread.balance = self.balances[thread.request.account]
        return thread.wait(self.on_clock_read, ReadClock())

    def on_clock_read(self, thread: ServerThread, result: Any) -> Operation | None:
        thread.clock_ns = result
        return thread.wait(self.on_drawn, RandomBytes(4))

    def on_drawn(self, thread: ServerThread, result: Any) -> Operation | None:
        thread.draw = result
        if result[0] % 4 == 0:
            return thread.wait(self.on_yielded, Yield())
        return self.on_yielded(thread, None)

    def on_yielded(self, thread: ServerThread, result: Result) -> Operation | None:
        if thread.request.kind == TRANSFER:
            return thread.wait(self.on_vault_tried, TryClaim(VAULT_MUTEX))
        return self.settle(thread)

    def on_vault_tried(self, thread: ServerThread, result: Result) -> Operation | None:
        thread.borrowed = result is True
        if not thread.borrowed:
            self.contention_count += 1
            thread.observed += CONTENDED
        return self.settle(thread)

    def settle(self, thread: ServerThread) -> Operation | None:
        """Changes the shared data. In the racy variant `thread.balance` may be stale by now."""
        request = thread.request
        self.balances[request.account] = thread.balance + request.amount
        if thread.borrowed:
            self.balances[-1 - request.account] -= request.amount
        self.sequence += 1
        self.digest = extend_digest(
            self.digest, self.sequence, request.request_id, thread.clock_ns, thread.observed,
            int.from_bytes(thread.draw, "big"), *self.balances,
        )  # fmt: skip
        reply = Reply(request.request_id, OK, self.sequence, thread.clock_ns, self.digest)
        self.answered(reply)
        thread.outgoing = encode_reply(reply, request.reply_padding)
        if thread.borrowed:
            return thread.wait(self.on_vault_returned, Release(VAULT_MUTEX))
        return self.close_ledger(thread)

    def on_vault_returned(self, thread: ServerThread, result: Result) -> Operation | None:
        return self.close_ledger(thread)

    def close_ledger(self, thread: ServerThread) -> Operation | None:
        if self.racy:
            return self.reply(thread, thread.outgoing)
        return thread.wait(self.on_ledger_left, Release(LEDGER_MUTEX))

    def on_ledger_left(self, thread: ServerThread, result: Result) -> Operation | None:
        return self.reply(thread, thread.outgoing)
