"""A member with a transport and liveness and nothing else, as a process of its own.

    python -m tests.live.liveness_member '{"transport": ...}'

Says who it is, whom it watches and whose death it was told, a line each; obeys lines on standard input:
`farewell` (closes liveness and lives on) and `exec` (becomes another program).
"""

from __future__ import annotations

import json
import os
import select
import sys

from llft import originals
from llft.identifiers import BirthId
from llft.runtime.liveness import Liveness
from llft.runtime.settings import Settings
from llft.runtime.transport import open_transport

GROUP = 77
LONGEST_LIFE_NS = 60 * 10**9


def main(document: str) -> None:
    settings = Settings.from_json(json.loads(document))
    birth_id = BirthId(settings.host_id(), os.getpid(), originals.time_ns())
    transport = open_transport(settings, GROUP, birth_id)
    liveness = Liveness(settings, GROUP, birth_id, transport)
    transport.service_port = liveness.port
    say("born", birth_id)
    watched: set[BirthId] = set()
    poll = select.poll()
    for fd in (0, *transport.filenos(), *liveness.filenos()):
        poll.register(fd, select.POLLIN)
    until_ns = originals.monotonic_ns() + LONGEST_LIFE_NS
    while originals.monotonic_ns() < until_ns:
        transport.multicast(GROUP, b"here I am")
        if any(fd == 0 for fd, _ in poll.poll(10)):
            order = sys.stdin.readline().strip()
            if order == "exec":
                os.execvp("sleep", ["sleep", "30"])
            if order != "farewell":
                return
            for fd in liveness.filenos():
                poll.unregister(fd)
            liveness.close()
            break
        transport.receive()
        liveness.work(originals.monotonic_ns())
        for dead in liveness.take_certificates():
            say("certificate", dead, originals.monotonic_ns())
        now = set(liveness.watched())
        for each in sorted(now - watched):
            say("watches", each)
        for each in sorted(watched - now):
            say("watches no longer", each)
        watched = now
    say("farewell said", birth_id)
    sys.stdin.readline()


def say(what: str, birth_id: BirthId, *more: int) -> None:
    sys.stdout.write(json.dumps([what, str(birth_id), *more]) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
