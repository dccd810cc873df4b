"""How often a new primary asks about each of its connections (line 29, D-29)."""

from __future__ import annotations

from llft.core.determinizer.operations import Accept, Connect, Receive, Send
from llft.journal.record import Suspected
from llft.wire.codec import decode
from llft.wire.messages import MessageType
from tests.paper.playbook import GROUP_IDS, Playbook, connected

QUESTION = MessageType.NEW_PRIMARY_VIEW


def two_connections(play: Playbook) -> None:
    connected(play)
    play.act("s", Accept())
    play.act("c", Connect(GROUP_IDS["s"]))
    play.run(60)
    play.act("s", Receive(1, 9), Receive(2, 9))
    play.act("c", Send(1, b"x"), Send(2, b"y"))
    play.run(60)


def asked_about(play: Playbook) -> list[int]:
    return sorted(datagram.message.header.conn_seq_num for datagram in play.sent(QUESTION, by="s2"))


def test_who_is_about_to_answer_is_not_asked_again() -> None:
    """The first answer settles the view; the second, which was on its way, settles its connection."""
    with Playbook() as play:
        two_connections(play)
        play.crash("s1")
        play.mark()
        play.until(lambda: play["s2"].role == "primary", ms=300)
        play.run(3)
        assert play.recorded(Suspected, "s2")
        assert asked_about(play) == [1, 2]
        assert all(connection.settled for connection in play["s2"].messaging.table)


def test_whose_answer_is_lost_is_asked_again_before_long() -> None:
    with Playbook() as play:
        two_connections(play)
        play.crash("s1")
        play.mark()
        second = play["s2"].messaging.table.by_fd[2]
        play.until(lambda: bool(asked_about(play)), ms=300)
        play.in_flight[:] = [
            parcel
            for parcel in play.in_flight
            if (parcel.datagram.kind, parcel.datagram.message.header.conn_seq_num) != (QUESTION, 2)
        ]
        play.until(lambda: play["s2"].role == "primary", ms=30)
        assert not second.settled
        play.run(10)
        assert second.settled
        assert play.recorded(Suspected, "s2")
        assert asked_about(play) == [1, 2, 2]


def test_a_long_answer_has_its_time_in_every_piece() -> None:
    """What a closed connection skips is known by that time only. It once had a nonce there, and the remote
    group forgot messages that nobody had."""
    with Playbook() as play:
        two_connections(play)
        core = play["c1"]
        connection = core.messaging.table.by_fd[1]
        pieces = []
        for _ in range(2):
            header = core.messaging.header(connection, MessageType.NEW_PRIMARY_VIEW_ACK)
            payload = bytes(3 * core.messaging.fragment_room)
            pieces.append([decode(data) for data in core.intra.datagrams(header, payload)])
        for piece in (*pieces[0], *pieces[1]):
            assert piece.header.timestamp == core.messaging.lane.clock.value > 0
            assert not piece.reflected_bytes
        nonces = [{piece.reflected_start for piece in answer} for answer in pieces]
        assert [len(pieces[0]), len(nonces[0]), len(nonces[1])] == [3, 1, 1]
        assert nonces[0] != nonces[1]
