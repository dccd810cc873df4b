"""Coverage-guided fuzzing of everything that reads bytes from the wire (needs atheris):

    python -m tests.property.fuzz_decoder --seconds 600

The first byte of an input chooses the reader, the rest is what it reads. A reader gives a value, which must
encode to the same bytes, or raises PeerError; anything else is a finding, which atheris
writes to a crash file. The number of executions is printed at the end.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import atheris  # type: ignore[import-untyped]

with atheris.instrument_imports(include=["llft"]):
    from llft.errors import PeerError
    from llft.identifiers import BirthId, Member, ViewId
    from llft.wire import order
    from llft.wire.codec import decode, decode_body, encode, encode_body
    from llft.wire.fragment import Reassembly
    from llft.wire.messages import (
        Body,
        Header,
        HeartbeatBody,
        MembershipBody,
        Message,
        MessageType,
        NackBody,
        NewPrimaryViewAckBody,
        OrderRange,
        StateBody,
    )

ENTRIES_MAX = 200
"""A run may stand for 65535 entries; a fuzzer has better things to do than to count them."""


def read_message(data: bytes) -> None:
    message = decode(data)
    assert encode(message) == data
    if message.header.message_type > MessageType.REPLY:
        read_body(bytes((message.header.message_type,)) + message.payload)


def read_body(data: bytes) -> None:
    if not data:
        return
    message_type = list(MessageType)[data[0] % len(MessageType)]
    payload = data[1:]
    assert encode_body(decode_body(message_type, payload)) == payload


def read_order(data: bytes) -> None:
    """Whole and byte by byte must agree; what was read is written and read again."""
    whole = drain(data, len(data) or 1)
    assert whole == drain(data, 1)
    encoder = order.OrderEncoder(order.OrderContext())
    for entry in whole:
        encoder.append(entry if entry[0] != order.SEND or entry[5] is not None else (*entry[:5], 0))
    again = drain(encoder.take(), 7)
    assert [order.describe(entry) for entry in again] == [order.describe(entry) for entry in whole]


def drain(data: bytes, piece: int) -> list[order.Entry]:
    decoder = order.OrderDecoder(order.OrderContext())
    entries: list[order.Entry] = []
    try:
        for start in range(0, len(data), piece):
            decoder.feed(data[start : start + piece])
            while len(entries) < ENTRIES_MAX and (entry := decoder.next()) is not None:
                entries.append(entry)
    except PeerError:
        pass
    assert len(entries) == decoder.count
    return entries


def read_context(data: bytes) -> None:
    assert order.OrderContext.unpack(data).pack() == data


def read_fragments(data: bytes) -> None:
    reassembly = Reassembly(limit_bytes=2000, limit_messages=4)
    for start in range(0, len(data) - 3, 4):
        key, index, count, size = data[start : start + 4]
        with suppress(PeerError):
            reassembly.add(key % 8, index, count, bytes(size))
        statistics = reassembly.statistics()
        assert statistics["unfinished_bytes"] <= 2000
        assert statistics["unfinished_messages"] <= 4


READERS = (read_message, read_body, read_order, read_context, read_fragments)


def one_input(data: bytes) -> None:
    if not data:
        return
    try:
        READERS[data[0] % len(READERS)](data[1:])
    except PeerError as refusal:
        if not (refusal.condition and refusal.remedy):
            raise AssertionError("a refusal that explains nothing") from refusal


def seeds() -> list[bytes]:
    """Something valid for each reader to begin with."""
    birth = BirthId(1, 2, 3)
    view = ViewId(1, 2, birth)
    bodies: list[tuple[MessageType, Body]] = [
        (MessageType.NACK, NackBody(birth, 1, 2, 3, ((4, (0, 1)), (5, ())), 6, 7)),
        (MessageType.HEARTBEAT, HeartbeatBody(birth, 1, 2, 3, 4, 5, 6)),
        (MessageType.ACCEPT_BACKUP, MembershipBody(birth, 1, 2, (Member(birth, 1),), ())),
        (
            MessageType.NEW_PRIMARY_VIEW_ACK,
            NewPrimaryViewAckBody(view, True, True, view, 1, 7, 2, (OrderRange(view, 1, 2, b"o"),)),
        ),
        (MessageType.STATE, StateBody(birth, 1, 2, b"state")),
    ]
    found = [bytes((1, list(MessageType).index(kind))) + encode_body(body) for kind, body in bodies]
    for kind, body in bodies:
        found.append(b"\0" + encode(Message(Header(kind, 1, 2), 0, b"order", 0, b"seen", encode_body(body))))
    encoder = order.OrderEncoder(order.OrderContext())
    for entry in (
        (order.READ, 1, 1, 3, 10),
        (order.READ, 1, 1, 3, 10),
        (order.SEND, 1, 1, 3, 1, 2),
        (order.SEND, 1, 1, 3, 2, 3),
        (order.MUTEX, 2, 2, 5, 9, False),
        (order.TIME, 2, 2, 1, 1_700_000_000_000_000_000),
        (order.SOCKET, 2, 2, 4, 1, b"data"),
        (order.GENERAL, 2, 2, 6, 1, b"data"),
        (order.WAKE, 3, 1),
        (order.CHECKPOINT, 3, 0),
        (order.PRIMARY_VIEW, view, ((3, 1), (4, 2))),
        (order.REMOTE_VIEW, 3, view, 7),
        (order.CONNECTION, 1, 3, 4, 5, 6),
    ):
        encoder.append(entry)
    found += [b"\2" + encoder.take(), b"\3" + encoder.context.pack(), b"\4\1\0\2\3\1\1\2\3"]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument(
        "--corpus", type=Path, default=None, help="kept and extended; default: a temporary one"
    )
    options = parser.parse_args()
    corpus = options.corpus or Path(tempfile.mkdtemp(prefix="llft-fuzz-"))
    corpus.mkdir(parents=True, exist_ok=True)
    for index, seed in enumerate(seeds()):
        (corpus / f"seed-{index}").write_bytes(seed)
    limits = [f"-max_total_time={options.seconds}", "-max_len=600", "-rss_limit_mb=1024", "-timeout=10"]
    output = [f"-artifact_prefix={corpus}/", "-print_final_stats=1", "-verbosity=1"]
    atheris.Setup([sys.argv[0], *limits, *output, str(corpus)], one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
