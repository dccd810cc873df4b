"""The echo server and its client, in each of the ways that figures compare."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from llft.cli.free_port import free_port
from llft.cli.measure.comparison import Manner
from llft.cli.measure.control import Control, connected
from llft.cli.measure.running import Running, command_of, ending, plain, start_group
from llft.cli.measure.side import Side

THREADS, SELECT = "threads", "select"
Serve = Callable[[int, str], list[str]]
"""The command of a program that serves a port of a host."""


def echo_with_threads(port: int, host: str) -> list[str]:
    return command_of("echo_server", port, THREADS, host)


def echo_by_selecting(port: int, host: str) -> list[str]:
    return command_of("echo_server", port, SELECT, host)


ECHO: Mapping[str, Serve] = {THREADS: echo_with_threads, SELECT: echo_by_selecting}


@contextmanager
def plain_side(manner: Manner, serve: Serve = echo_with_threads) -> Iterator[Side]:
    """Plain TCP, without LLFT at either end."""
    port, control_port, host = free_port(), free_port(), manner.network.host
    with (
        plain([*manner.network.launcher, *serve(port, host)]) as server,
        plain(command_of("asking_client", control_port)) as client,
        _heard(client, server, control_port, host, port) as side,
    ):
        connected(port, host).close()
        yield side


@contextmanager
def group_side(
    manner: Manner,
    *,
    replicas: int,
    client_replicas: int,
    serve: Serve = echo_with_threads,
    threads: str = "token",
) -> Iterator[Side]:
    """Two process groups, without a gateway between them; the client's gateway is for its orders."""
    port, control_port, network = free_port(), free_port(), manner.network
    server = start_group(
        "server",
        serve(port, network.host),
        replicas=replicas,
        outside=False,
        gateway=False,
        options=["--threads", threads],
        config=manner.config,
        common=network.server_settings,
        launcher=network.launcher,
    )
    endpoint = f'[groups."{server.group}"]\nendpoints = ["{network.host}:{port}"]\n'
    with ending(server):
        client = start_group(
            "client",
            command_of("asking_client", control_port),
            replicas=client_replicas,
            outside=False,
            config=manner.config,
            common=network.client_settings + endpoint,
        )
        with ending(client):
            server.await_whole(listening=False)
            client.await_whole(listening=True)
            with _heard(client, server, control_port, network.host, port) as side:
                yield side


@contextmanager
def gateway_side(
    manner: Manner,
    *,
    replicas: int,
    settings: str = "",
    common: str = "",
    serve: Serve = echo_with_threads,
) -> Iterator[Side]:
    """A plain client, and a group behind its gateway."""
    port, control_port, host = free_port(), free_port(), manner.network.host
    server = start_group(
        "server",
        serve(port, host),
        replicas=replicas,
        outside=True,
        config=manner.config,
        settings=settings,
        common=common,
    )
    with ending(server), plain(command_of("asking_client", control_port)) as client:
        server.await_whole(listening=True)
        with _heard(client, server, control_port, host, port) as side:
            yield side


@contextmanager
def _heard(client: Running, server: Running, control_port: int, host: str, port: int) -> Iterator[Side]:
    control = Control(control_port)
    try:
        yield Side(client, server, control, host, port)
    finally:
        control.close()
