"""`llft bench failover`: how long clients wait when the primary dies, stage by stage. `llft bench load`: no
faults at all. `llft bench join`: one more replica, under load. `llft bench soak`: very many requests. All
other figures compare with plain TCP and with other systems (`llft.cli.measure`).

Exit status: 0 if nothing was lost, duplicated, changed or broken; else 1.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from llft.cli.arguments import add_json, add_replication, positive, positive_float
from llft.cli.measure.command import add_figures
from llft.config import Checkpoints, Replication

PASSIVE_LOG_KB = 64
"""A semi-passive group's server has an image taken so often: a backup that takes over replays what followed.
Its clients stay connected, so it is no use for hooks."""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "bench",
        help="measure latency, throughput, fail-over and more, beside plain TCP",
        description="Measure real groups, beside plain TCP and beside other systems.",
    )
    figures = parser.add_subparsers(title="figures", dest="figure", metavar="FIGURE", required=True)
    failover = figures.add_parser(
        "failover",
        help="kill the primary many times",
        description="Kill the primary many times under load; what the clients saw, and what each stage took.",
    )
    failover.add_argument("--kills", type=positive, default=100, metavar="N", help="at most (default: 100)")
    failover.add_argument(
        "--seconds", type=positive_float, metavar="S", help="begin no new kill after so long"
    )
    failover.add_argument(
        "--signal",
        default="KILL",
        metavar="NAME",
        help="KILL (default), or STOP: it is stopped, and goes on later",
    )
    failover.add_argument(
        "--silent",
        action="store_true",
        help="no signal: it is held as by a debugger, and no kernel tells, as of a host that is cut off",
    )
    _add_group(failover, pace_ms=50.0)
    load = figures.add_parser(
        "load",
        help="no faults: is anybody suspected?",
        description="Load and no faults: latency, and whether a living replica was taken for dead.",
    )
    load.add_argument("--seconds", type=positive_float, default=60.0, metavar="S", help="default: 60")
    _add_group(load, pace_ms=1.0)
    load.set_defaults(kills=0, signal="KILL", silent=False)
    _add_join(figures)
    _add_soak(figures)
    add_figures(figures)


def _add_group(figure: argparse.ArgumentParser, *, pace_ms: float) -> None:
    _add_sizes(figure, replicas=3)
    add_replication(figure)
    figure.add_argument(
        "--pace-ms",
        type=positive_float,
        default=pace_ms,
        metavar="MS",
        help=f"from a reply to the client's next request, on average (default: {pace_ms:g})",
    )
    figure.set_defaults(run=run)


def _add_sizes(figure: argparse.ArgumentParser, *, replicas: int) -> None:
    figure.add_argument(
        "--replicas", type=int, choices=range(2, 6), default=replicas, help=f"default: {replicas}"
    )
    figure.add_argument("--clients", type=positive, default=8, metavar="N", help="default: 8")
    figure.add_argument("--config", type=Path, metavar="FILE", help="settings, such as timeouts")
    add_json(figure)


def _add_join(figures: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    join = figures.add_parser(
        "join",
        help="one more replica, under load",
        description="A replica joins a group that has much state, while clients are served: how long it "
        "takes, and how much longer they wait.",
    )
    join.add_argument("--state-mb", type=positive, default=100, metavar="MB", help="default: 100")
    join.add_argument("--rate", type=positive, default=1000, metavar="N", help="requests/s (default: 1000)")
    join.add_argument(
        "--seconds", type=positive_float, default=5.0, metavar="S", help="of calm before it (default: 5)"
    )
    join.add_argument(
        "--joins",
        type=positive,
        default=3,
        metavar="N",
        help="each with a group of its own; their requests count together (default: 3)",
    )
    _add_pipeline(join, default=1)
    _add_checkpoints(join, log_kb=256)
    _add_sizes(join, replicas=2)
    join.set_defaults(run=_run_join)


def _add_soak(figures: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    soak = figures.add_parser(
        "soak",
        help="very many requests: what is kept of them",
        description="Very many requests, as fast as they go: memory, journals and log meanwhile.",
    )
    soak.add_argument("--requests", type=positive, default=5_000_000, metavar="N", help="default: 5000000")
    soak.add_argument("--seconds", type=positive_float, metavar="S", help="at most so long")
    soak.add_argument("--samples", type=positive, default=40, metavar="N", help="default: 40")
    soak.add_argument(
        "--journal-mb", type=positive, default=32, metavar="MB", help="of each process (default: 32)"
    )
    _add_pipeline(soak, default=32)
    _add_checkpoints(soak, log_kb=4096)
    _add_sizes(soak, replicas=3)
    soak.set_defaults(run=_run_soak)


def _add_pipeline(figure: argparse.ArgumentParser, *, default: int) -> None:
    figure.add_argument(
        "--pipeline",
        type=positive,
        default=default,
        metavar="N",
        help=f"requests that a client sends at once, before it waits for their replies (default: {default})",
    )


def _add_checkpoints(figure: argparse.ArgumentParser, *, log_kb: int) -> None:
    figure.add_argument(
        "--checkpoints",
        choices=[choice.value for choice in Checkpoints],
        default=Checkpoints.IMAGE.value,
        help="where the state comes from (default: image)",
    )
    figure.add_argument(
        "--checkpoint-log-kb",
        type=positive,
        default=log_kb,
        metavar="KB",
        help=f"a checkpoint is due when the log has grown by so much (default: {log_kb})",
    )


def _run_join(arguments: argparse.Namespace) -> int:
    from llft.cli import bench_join

    return bench_join.run(arguments)


def _run_soak(arguments: argparse.Namespace) -> int:
    from llft.cli import bench_soak

    return bench_soak.run(arguments)


def _group_settings(replication: str | None) -> str:
    if replication != Replication.SEMI_PASSIVE.value:
        return ""
    return f'replication = "{replication}"\ncheckpoints = "image"\ncheckpoint_log_kb = {PASSIVE_LOG_KB}'


def run(arguments: argparse.Namespace) -> int:
    """Perform the verb; returns the exit status."""
    from llft.cli.live_demo import perform
    from llft.cli.trial import TrialOptions
    from llft.runtime.supervisor.orders import signal_number

    options = TrialOptions(
        kills=arguments.kills,
        replicas=arguments.replicas,
        clients=arguments.clients,
        pace_ms=arguments.pace_ms,
        signal=signal_number(arguments.signal),
        silent=arguments.silent,
        seconds=arguments.seconds,
        config=arguments.config,
        replication=arguments.replication or Replication.SEMI_ACTIVE.value,
        group_settings=_group_settings(arguments.replication),
    )
    return perform(options, as_json=arguments.json)
