"""What lies between client and server: the loopback interface, or a cable between two hosts.

`veth`: the server is in a network namespace of its own, behind a pair of virtual interfaces whose packets are
as large as on Ethernet. Namespaces need root; they carry our pid in their names, and go when the figure ends.
All replicas of a group share its end of the cable.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from llft.errors import MisuseError
from llft.runtime.settings import TransportSettings

LOOPBACK, VETH = "loopback", "veth"
NETWORKS = (LOOPBACK, VETH)
MTU = 1500
_IP_TIMEOUT_S = 20
SPIN_US = TransportSettings().spin_us
SPIN_MAX_US = 10_000  # as in `llft.toml`


@dataclass(frozen=True, slots=True)
class Network:
    name: str = LOOPBACK
    host: str = "127.0.0.1"
    """The server's."""
    launcher: tuple[str, ...] = ()
    """What a command of the server's begins with."""
    server_settings: str = ""
    """As in `llft.toml`."""
    client_settings: str = ""
    authenticated: bool = True
    spin_us: int = SPIN_US


@contextmanager
def network(
    name: str, *, configured: bool, authenticated: bool = True, spin_us: int = SPIN_US
) -> Iterator[Network]:
    """`configured`: the user has settings of his own, which may speak of the transport."""
    spinning = f"spin_us = {spin_us}\n" if spin_us != SPIN_US else ""
    if configured and (name == VETH or spinning or not authenticated):
        raise MisuseError("two-transports", "with --network veth, --spin or --key there is no --config")
    if name == LOOPBACK:
        own = spinning if authenticated else f"authenticate = false\n{spinning}"
        settings = f"[transport]\n{own}" if own else ""
        yield Network(
            server_settings=settings,
            client_settings=settings,
            authenticated=authenticated,
            spin_us=spin_us,
        )
        return
    if not authenticated:
        raise MisuseError("no-key", "without a key only loopback is allowed")
    namespace, cable = f"llft{os.getpid()}", f"llft{os.getpid() % 10**6}"
    _ip("netns", "add", namespace)
    try:
        # Two of us at once must not have the same network.
        here, there = (f"10.78.{os.getpid() % 250}.{number}" for number in (1, 2))
        _lay(cable, namespace, here, there)
        with tempfile.TemporaryDirectory(prefix="llft-key-") as directory:
            key = Path(directory) / "keys"
            key.write_text(f"1:{secrets.token_hex(32)}\n")
            key.chmod(0o600)
            launcher = ("ip", "netns", "exec", namespace)
            at_server, at_client = (_transport(own, key) + spinning for own in (there, here))
            yield Network(VETH, there, launcher, at_server, at_client, spin_us=spin_us)
    finally:
        _ip("netns", "delete", namespace)


def _lay(cable: str, namespace: str, here: str, there: str) -> None:
    _ip("link", "add", cable, "mtu", str(MTU), "type", "veth",
        "peer", "name", "eth0", "mtu", str(MTU), "netns", namespace)  # fmt: skip
    _ip("addr", "add", f"{here}/24", "dev", cable)
    _ip("link", "set", cable, "up")
    _ip("-n", namespace, "addr", "add", f"{there}/24", "dev", "eth0")
    for device in ("lo", "eth0"):
        _ip("-n", namespace, "link", "set", device, "up")


def _transport(interface: str, key: Path) -> str:
    return f'[transport]\ninterface = "{interface}"\nkey_file = "{key}"\n'


def _ip(*words: str) -> None:
    try:
        subprocess.run(["ip", *words], check=True, capture_output=True, text=True, timeout=_IP_TIMEOUT_S)
    except (OSError, subprocess.CalledProcessError) as error:
        why = error.stderr.strip() if isinstance(error, subprocess.CalledProcessError) else str(error)
        raise MisuseError("no-namespaces", "it needs root and iproute2", why=why) from None
