"""Order entries and their coding as one byte stream per group (D-04).

In memory an entry is a plain tuple whose first item says its kind; `pick` is the number of
the scheduling decision under which it was made (token mode, D-16; 0 in ordered mode):

    (READ,  pick, thread, fd, size)                  message order: `size` bytes taken (D-03)
    (SEND,  pick, thread, fd, timestamp, digest)     message order: one message sent (line 8)
    (MUTEX, pick, thread, mutex, count, result)      claim, trylock or release
    (TIME,  pick, thread, clock_id, value_ns)        a clock reading
    (SOCKET, pick, thread, fd, count, data)          accept, connect, select, failed calls
    (GENERAL, pick, thread, operation, count, data)  the paper's (T, O, N, D)
    (WAKE,  pick, thread)                            token: a blocked thread became runnable
    (CHECKPOINT, pick, thread)                       token: the state was taken; `thread` ran, 0: none
    (PRIMARY_VIEW, view, view_bases)                 view: ViewId, view_bases: ((fd, base), ...)
    (REMOTE_VIEW, fd, view, position)                messages from `position` on came in `view`
    (CONNECTION, what, fd, client_group_id, server_group_id, conn_seq_num)
                                                     a step in the life of a virtual connection

This is the paper's OrderInfo (data structures figure, lines 1-15): the union of lines 3-7 is the
tuple, m_orderSeqNum is the entry's place in the stream, and the merger that m_opaque (line 12)
allows is the run. Ranges: pick, timestamp, mutex, operation, count, position and base are 64 bits
unsigned; thread, fd, digest and the three numbers that name a connection 32 bits; `what` 8 bits (its
meaning is messaging's own); size up to 2**31; value_ns and result 64 bits signed; clock_id 32
bits signed; data up to 65535 bytes. `result` True and False come back as 1 and 0.

The stream's laws:

* Bytes have absolute offsets from the group's birth; entries are numbered from 1 (`count`).
* An entry is coded against the OrderContext, what both ends know of the entries before it. Whoever has the
  context, the offset and the count of one point of the stream can go on from there: a joiner
  from a State message, a promoted backup from its decoder.
* Identical READs, and SENDs of one thread on one fd with consecutive timestamps, merge into the *open*
  last entry. `seal` closes it; sealed bytes never change. A run of SENDs keeps the last
  digest only (digests are running, D-09, so the last one vouches for all): the others
  decode as None.
* A piece of the stream may end anywhere: a decoder asks for more, and holds what it was fed.

An entry is one byte of kind and flags (order_entries), then as varints what the flags announce
(pick as a zigzag difference; thread; fd, clock or result; count), then the rest:

    READ size [run-2]        SEND zigzag(timestamp-last-1) digest(4) [run-2]        WAKE        CHECKPOINT
    MUTEX mutex [count] [zigzag(result)]                TIME [zigzag(clock)] zigzag(value-last)
    SOCKET [count] length data                          GENERAL operation [count] length data
    PRIMARY_VIEW view number (fd base)*                 REMOTE_VIEW fd view position
    CONNECTION what fd client server conn_seq_num
"""

from __future__ import annotations

from llft.wire.order_context import OrderContext
from llft.wire.order_decoder import OrderDecoder
from llft.wire.order_encoder import OrderEncoder
from llft.wire.order_entries import (
    CHECKPOINT,
    CONNECTION,
    GENERAL,
    MUTEX,
    PRIMARY_VIEW,
    READ,
    REMOTE_VIEW,
    SEND,
    SOCKET,
    TEMPLATES,
    TIME,
    WAKE,
    Entry,
    counted_template,
    describe,
    view_told,
)

__all__ = [
    "CHECKPOINT",
    "CONNECTION",
    "GENERAL",
    "MUTEX",
    "PRIMARY_VIEW",
    "READ",
    "REMOTE_VIEW",
    "SEND",
    "SOCKET",
    "TEMPLATES",
    "TIME",
    "WAKE",
    "Entry",
    "OrderContext",
    "OrderDecoder",
    "OrderEncoder",
    "counted_template",
    "describe",
    "view_told",
]
