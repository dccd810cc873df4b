"""The figures' command line: what each measures by default, and what can be said otherwise."""

from __future__ import annotations

import argparse
from pathlib import Path

from llft.cli.arguments import add_json, positive, positive_float
from llft.cli.measure.catalogue import BOTH, FIGURES, LANES, LISTS, NO, YES, Figure, names, numbers
from llft.cli.measure.network import LOOPBACK, SPIN_MAX_US, SPIN_US, VETH
from llft.cli.measure.placement import BACKUPS, PLACEMENTS

FAILOVER = "failover"


def add_figures(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    for figure in FIGURES.values():
        parser = verbs.add_parser(
            figure.name,
            help=figure.help,
            description=figure.description,
            epilog=_examples(figure),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        for name, default in figure.lists.items():
            reader, what = LISTS[name]
            shown = ",".join(map(str, default))
            parser.add_argument(
                f"--{name.replace('_', '-')}",
                type=reader,
                default=default,
                metavar="X,...",
                help=f"{what} (default: {shown})",
            )
        parser.set_defaults(run=run, **figure.fixed)
        add_manner(parser, figure)
    add_all(verbs)


def add_manner(parser: argparse.ArgumentParser, figure: Figure) -> None:
    parser.add_argument(
        "--rounds", type=positive, default=figure.rounds, metavar="N", help=f"default: {figure.rounds}"
    )
    parser.add_argument(
        "--seconds",
        type=positive_float,
        default=figure.seconds,
        metavar="S",
        help=f"of each side in a round, about (default: {figure.seconds:g})",
    )
    parser.add_argument(
        "--placement",
        choices=[*PLACEMENTS, BOTH],
        default=figure.placement,
        help=f"client and server on one core, or on two (default: {figure.placement})",
    )
    parser.add_argument(
        "--backups",
        choices=BACKUPS,
        default=BACKUPS[0],
        help="on other cores than their primary where there are some (default), or on the same",
    )
    add_between(parser, figure)
    parser.add_argument("--lane", choices=[*LANES, BOTH], help="default: the compiled one if it is there")
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings, such as timeouts")
    parser.add_argument("--svg", type=Path, metavar="DIR", help="draw the figure into this directory")
    add_json(parser)


def add_between(parser: argparse.ArgumentParser, figure: Figure) -> None:
    """What lies between client and server, where that can be said."""
    if VETH not in figure.networks:
        parser.set_defaults(network=LOOPBACK, spin=None)
        return
    parser.add_argument(
        "--network",
        choices=figure.networks,
        default=LOOPBACK,
        help="veth: the server in a network namespace of its own, packets as on Ethernet (needs root)",
    )
    parser.add_argument(
        "--key", choices=[YES, NO], help="datagrams are authenticated (default: no, but on veth)"
    )
    parser.add_argument(
        "--spin",
        type=numbers(0, SPIN_MAX_US),
        metavar="US,...",
        help="whoever waits looks at most so many microseconds for datagrams before it sleeps, where that "
        f"pays ({SPIN_US}, as everywhere; 0: never; default: {','.join(map(str, figure.spin))}, with "
        "--config what that says)",
    )


def add_all(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "all",
        help="every figure, and a page of them",
        description="Every figure with its defaults, and the page FIGURES.md with tables and pictures.",
        epilog="examples:\n  llft bench all\n  llft bench all --figures latency,gateway --rounds 9",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    known = (*FIGURES, FAILOVER)
    parser.add_argument(
        "--figures", type=names(known), default=list(known), metavar="X,...", help=f"of {', '.join(known)}"
    )
    parser.add_argument("--rounds", type=positive, metavar="N", help="default: each figure's own")
    parser.add_argument("--seconds", type=positive_float, metavar="S", help="default: each figure's own")
    parser.add_argument(
        "--kills", type=positive, default=10, metavar="N", help="of a point of failover (default: 10)"
    )
    parser.add_argument("--lane", choices=[*LANES, BOTH], help="default: the compiled one if it is there")
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings, such as timeouts")
    parser.add_argument(
        "--output", type=Path, default=Path("docs"), metavar="DIR", help="for the page (default: docs)"
    )
    add_json(parser)
    parser.set_defaults(run=run_all)


def run_all(arguments: argparse.Namespace) -> int:
    """Perform the verb; returns the exit status."""
    from llft.cli.measure import everything

    return everything.run(arguments)


def _examples(figure: Figure) -> str:
    lines = [f"  llft bench {figure.name} --json"]
    for name, values in list(figure.lists.items())[:1]:
        option = f"--{name.replace('_', '-')} {values[-1]}"
        lines.append(f"  llft bench {figure.name} {option} --rounds 9 --seconds 1")
    return "\n".join(["examples:", *lines])


def run(arguments: argparse.Namespace) -> int:
    """Perform the verb; returns the exit status."""
    from llft.cli.measure.perform import perform

    return perform(arguments)
