"""Application programs for the simulated processes: banks, their clients, and servers in between.

They are chosen to meet every source of non-determinism that the determinizer knows, and to make
any inconsistency visible: each reply of a bank carries the number of the operation, the group clock
and a digest of all shared data.
"""

from __future__ import annotations

from llft.errors import MisuseError
from llft.simulator.workloads.bank_client import BankClient
from llft.simulator.workloads.bank_server import BankServer
from llft.simulator.workloads.middle_server import MiddleServer
from llft.simulator.workloads.stepped import Program

__all__ = ["VARIANTS", "BankClient", "BankServer", "MiddleServer", "Program", "build_program"]

VARIANTS = ("locked", "locked-pool", "racy", "racy-pool")
"""Of servers. The racy ones need the token (D-16); the pools share out accepted connections."""


def build_program(
    kind: str, *, group_id: int, servers: tuple[int, ...], requests: int, variant: str
) -> Program:
    """Kinds: "server", "client", "middle". `servers`: whom a client or a middle server asks."""
    if variant not in VARIANTS:
        raise MisuseError("unknown-variant", variant=variant, remedy=f"choose one of {VARIANTS}")
    if kind == "server":
        return BankServer(group_id=group_id, variant=variant)
    if kind == "client":
        return BankClient(group_id=group_id, servers=servers, requests=requests)
    if kind == "middle":
        return MiddleServer(group_id=group_id, servers=servers, variant=variant)
    raise MisuseError("unknown-program", kind=kind, remedy="choose server, client or middle")
