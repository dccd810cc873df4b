"""A partition among hosts: the primary's host is cut off under load, later healed.

The side with the gateway goes on under a new primary, clients see no break; the old primary, which went on
alone, is superseded by precedence and rejoins; what it did alone is listed as pruned.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest

from llft.cli.main import main
from tests.live.evidence import assert_journals_hold, lost_operations
from tests.live.world import assert_nothing_went_wrong, short_directory, until
from tests.live.world_hosts import Clients, Host, can_make_hosts, cluster

pytestmark = pytest.mark.skipif(not can_make_hosts(), reason="needs root and network namespaces")

TIMEOUTS = """
[timeouts]
primary_timeout_ms = 2500
connect_bound_ms = 20000
backup_timeout_ms = 4000
recovery_bound_ms = 4000
lag_bound_ms = 8000
"""


def settings_of(host: Host, hosts: list[Host], mode: str, key_file: Path) -> str:
    members = ", ".join(f'"{one.address}:21000"' for one in hosts)
    return f"""
[transport]
mode = "{mode}"
interface = "{host.address}"
key_file = "{key_file}"
{TIMEOUTS}
[groups.bank]
members = [{members}]
"""


def start(hosts: list[Host], mode: str, home: Path) -> None:
    """One after the other, which makes their precedences; the gateway is on the last host."""
    key_file = home / "cluster.keys"
    key_file.write_text(f"1:{os.urandom(32).hex()}\n")
    key_file.chmod(0o600)
    for host in hosts:
        options = [] if host is hosts[0] else ["--join"]
        options += [] if host is hosts[-1] else ["--no-gateway"]
        host.run(settings_of(host, hosts, mode, key_file), *options)
        role = "primary" if host is hosts[0] else "backup"
        until(f"host {host.number} is a member", partial(is_member, host, role))
    until("the gateway listens", lambda: bool(hosts[-1].status().get("listening")))


def is_member(host: Host, role: str, view: str = "") -> bool:
    status = host.status()
    return status.get("role") == role and bool(status.get("has_state")) and status["view"].startswith(view)


@pytest.mark.parametrize("mode", ["multicast", "unicast"])
def test_the_cut_off_primary_is_superseded_and_rejoins(mode: str, capsys: pytest.CaptureFixture[str]) -> None:
    with short_directory() as home:
        with cluster(home, 3) as hosts:
            start(hosts, mode, home)
            cut_off, *others = hosts
            with Clients(others[-1], 3) as clients:
                until("requests are served", lambda: clients.order("count")["replies"] > 20)
                cut_off.cut()
                until("a new primary", lambda: any(is_member(host, "primary", "v2") for host in others))
                until("the old one is alone", lambda: len(cut_off.status().get("members") or ()) == 1)
                assert is_member(cut_off, "primary", "v1"), "nobody could tell it"
                replies = clients.order("count")["replies"]
                until("requests go on", lambda: clients.order("count")["replies"] > replies + 20)
                cut_off.heal()
                until("the old primary is a backup", lambda: is_member(cut_off, "backup", "v2"))
                replies = clients.order("count")["replies"]
                until("requests go on", lambda: clients.order("count")["replies"] > replies + 20)
                assert_nothing_went_wrong(clients.order("stop"))
        directories = [host.directory.path for host in hosts]
        journals = assert_journals_hold(*directories)
        pruned = [one for one in lost_operations(journals) if one.category == "pruned_operations"]
        views = {one.view.primary_view_num for one in pruned}
        # When the hosts end one after the other, the last moments of a primary may be its own, too.
        assert views - {2} == {1}, "what the old primary did alone"
        capsys.readouterr()
        assert main(["journal", "check", *map(str, directories)]) == 0
        assert f"{len(pruned)} pruned operations" in capsys.readouterr().out


def test_what_the_superseded_side_told_its_clients_is_never_contradicted_in_silence() -> None:
    """The rule of precedence is blind to where the clients are: a backup that was alone wins over those that
    served them. Their connections must then break, every one; what was done is listed as pruned."""
    with short_directory() as home:
        with cluster(home, 3) as hosts:
            start(hosts, "multicast", home)
            alone = hosts[1]  # it joined before the gateway's host did
            served = [host for host in hosts if host is not alone]
            with Clients(hosts[-1], 3) as clients:
                alone.cut()
                until("it takes over", lambda: is_member(alone, "primary", "v2"))
                replies = clients.order("count")["replies"]
                until("the others serve on", lambda: clients.order("count")["replies"] > replies + 20)
                alone.heal()
                until("the others rejoin", lambda: all(is_member(host, "backup", "v2") for host in served))
                until("connections break", lambda: clients.order("count")["broken"] == 3)
            with Clients(hosts[-1], 3) as clients:
                until("new clients are served", lambda: clients.order("count")["replies"] > 20)
        journals = assert_journals_hold(*(host.directory.path for host in hosts))
        assert [one for one in lost_operations(journals) if one.category == "pruned_operations"]
