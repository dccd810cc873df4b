"""The bank's protocol: requests and replies, each behind its length, on a byte stream.

A reply says everything that could differ between replicas: the number of the operation in the
one sequence that the server performs, the group clock, and a running digest of all the
server's shared data. So a divergence shows in the next reply, whoever reads it.
"""

from __future__ import annotations

from hashlib import blake2b
from struct import Struct
from typing import NamedTuple

DEPOSIT, TRANSFER, AUDIT, POLL = range(4)
KIND_COUNT = 4

OK, INDEFINITE, NOT_DONE = range(3)

INDEFINITE_OUTCOME = "indefinite"
"""The connection was reset: the request may have been performed, or not (D-20)."""
NOT_DONE_OUTCOME = "not done"
"""A middle server answered that its back end cannot be reached: definitely not performed."""
ACCEPTED_OUTCOME = "accepted"
"""A request without reply, followed by the orderly end of the stream: definitely performed."""


class Request(NamedTuple):
    request_id: int
    kind: int
    one_way: bool
    account: int
    amount: int
    reply_padding: int


class Reply(NamedTuple):
    """`behind_*`: what the back end answered to the request that a middle server made of this one."""

    request_id: int
    status: int
    sequence: int
    clock_ns: int
    digest: int
    behind_id: int = 0
    behind_sequence: int = 0


_LENGTH = Struct(">I")
_REQUEST = Struct(">QB?HiH")
_REPLY = Struct(">QBQqQQQ")


def make_request_id(*, group_id: int, nonce: int, number: int) -> int:
    """Unique also when a group dies out and is born again: the nonce (24 bits) is drawn at birth."""
    return group_id << 48 | nonce << 24 | number


def group_of_request(request_id: int) -> int:
    return request_id >> 48


def encode_request(request: Request, padding_size: int = 0) -> bytes:
    body = _REQUEST.pack(*request) + bytes(padding_size)
    return _LENGTH.pack(len(body)) + body


def decode_request(body: bytes) -> Request:
    return Request(*_REQUEST.unpack_from(body))


def encode_reply(reply: Reply, padding_size: int) -> bytes:
    body = _REPLY.pack(*reply) + _filler(reply.digest, padding_size)
    return _LENGTH.pack(len(body)) + body


def decode_reply(body: bytes) -> Reply | None:
    """None if the padding is not the one that belongs to the reply."""
    reply = Reply(*_REPLY.unpack_from(body))
    padding = body[_REPLY.size :]
    return reply if padding == _filler(reply.digest, len(padding)) else None


def take_frame(inbox: bytearray) -> bytes | None:
    """Removes the first whole frame from the bytes received so far, and returns its body."""
    if len(inbox) < _LENGTH.size:
        return None
    end = _LENGTH.size + _LENGTH.unpack_from(inbox)[0]
    if len(inbox) < end:
        return None
    body = bytes(inbox[_LENGTH.size : end])
    del inbox[:end]
    return body


def extend_digest(digest: int, *values: int) -> int:
    """The running digest of shared data after a change described by `values`."""
    text = repr((digest, values)).encode()
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big")


def _filler(digest: int, size: int) -> bytes:
    pattern = digest.to_bytes(8, "big")
    return (pattern * (size // 8 + 1))[:size]
