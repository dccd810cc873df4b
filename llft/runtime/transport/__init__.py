"""Datagrams between processes: sealed, authenticated, deduplicated, and otherwise as unreliable as UDP is.

interface   the Protocol that the driver knows, and Peer
keys        the key file: who may speak (D-15)
gmac        the MAC that processors have instructions for, in Python
envelope    the bytes round every datagram; replay, the window that drops one that came before
senders     processes that were heard: their windows, addresses and service ports
sockets     how the sockets are made: buffers, descriptor numbers, close-on-exec
udp         the transport; multicast and unicast say where a group is (D-14)
lossy       loses, duplicates and reorders on purpose, for tests
    opening     the transport that the settings ask for
"""

from llft.runtime.transport.interface import Peer, Transport
from llft.runtime.transport.opening import open_keys, open_transport

__all__ = ["Peer", "Transport", "open_keys", "open_transport"]
