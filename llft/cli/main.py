"""The command `llft`: finds the verb, and turns errors into a line and an exit status.

0: done. 1: a property was violated, or a file is bad. 2: bad usage. 130, 143: interrupted, terminated.
An InvariantError is a bug of ours and keeps its traceback.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType

from llft.cli import (
    audit,
    bench,
    campaign,
    check,
    demo,
    figures,
    journal,
    kill,
    membership,
    run,
    simulate,
    status,
    switch,
    tune,
    watch,
)
from llft.errors import DivergenceError, MisuseError, PeerError, UnsupportedOperationError
from llft.lane import choice
from llft.version import version

EXAMPLES = """\
examples:
  llft demo                                      a real server, killed again and again; nothing is lost
  llft run --replicas 3 -- python server.py      your program, replicated
  llft status                                    who is primary, who follows, and how far behind
  llft kill --primary                            see it survive
  llft check -- python server.py                 whether a program can be replicated
  llft simulate --seeds 0:1000                   a thousand simulated runs with faults, all properties checked
  llft VERB --help                               all the options
"""

VERBS = (
    run,
    status,
    kill,
    switch,
    membership,
    check,
    journal,
    demo,
    bench,
    simulate,
    campaign,
    figures,
    tune,
    audit,
    watch,
)


class _Terminated(BaseException):
    """SIGTERM came: unwind, so that no worker is left behind."""


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="llft",
        description="Low Latency Fault Tolerance: process groups that survive crashes.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"llft {version()}, {choice.described()}")
    verbs = parser.add_subparsers(title="verbs", dest="verb", metavar="VERB", required=True)
    for verb in VERBS:
        verb.add_parser(verbs)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """The entry point. `argv` without the program's name; None: of this process."""
    arguments = build_parser().parse_args(argv)
    previous = signal.signal(signal.SIGTERM, _on_terminate)
    try:
        status: int = arguments.run(arguments)
        sys.stdout.flush()
        return status
    except MisuseError as error:
        return _complain(error, 2)
    except (PeerError, DivergenceError, UnsupportedOperationError, OSError) as error:
        if isinstance(error, BrokenPipeError):
            return _reader_left()
        return _complain(error, 1)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 128 + signal.SIGINT
    except _Terminated:
        return 128 + signal.SIGTERM
    finally:
        signal.signal(signal.SIGTERM, previous)


def _complain(error: Exception, status: int) -> int:
    print(f"llft: {error}", file=sys.stderr)
    return status


def _reader_left() -> int:
    """`llft ... | head` is no error; but the interpreter flushes once more at exit, so give it a sink."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _on_terminate(number: int, frame: FrameType | None) -> None:
    """Once: a second signal, which `timeout` sends right after the first, must not interrupt the tidying."""
    signal.signal(number, signal.SIG_IGN)
    raise _Terminated


if __name__ == "__main__":
    sys.exit(main())
