"""Application hooks: `__llft_snapshot__` and `__llft_restore__` of the program's main module.

LLFT cannot put a thread into the midst of a function. So a state is captured only where the program *stands*
as it stood once before, at a ready point: same threads, same stacks, same descriptors, no connection
(docs/CHECKPOINTS.md, "Hooks: where the threads are"). And only where it *rests*: where every thread waits for
something of the outside, or of another thread. A backup's threads also wait at calls that a primary
completes at once, for their order information; where they do so is chance, and a successor may never stand
there again.

The hooks run in a thread of the runtime's, under the driver's lock: they must only compute.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple
from zlib import crc32

from llft import originals
from llft.core.determinizer.operations import Accept, Park, Receive, Select, Sleep
from llft.errors import DivergenceError, UnsupportedOperationError
from llft.past.birth_log import OPERATION_KINDS
from llft.past.source import HOOKS, Captured, Interposed, NotCapturedError
from llft.runtime.application import Application
from llft.runtime.stacks import stacks
from llft.runtime.state import tree

SNAPSHOT, RESTORE = "__llft_snapshot__", "__llft_restore__"
READY_POINTS_MAX = 64
HEAD_BYTES_MAX = 4 * 1024 * 1024
STACK_DEPTH = 100
_OURS = "/llft/runtime/"
_RESTING = frozenset(OPERATION_KINDS[kind] for kind in (Accept, Park, Receive, Select, Sleep))

Stand = tuple[object, ...]


class ReadyPoint(NamedTuple):
    position: int
    digest: int
    counts: int
    """A digest of the interposition's marks there: who comes there again must have the same."""


class Hooks:
    name = HOOKS

    def __init__(self, application: Application, interposed: Interposed, path: str, data: str = "") -> None:
        """`path` is where states are put, with their positions added; `data` is the data directory, if there
        is one."""
        self._data = data
        self._application = application
        self._interposed = interposed
        self._path = path
        self._ready_points: dict[Stand, ReadyPoint] = {}

    def are_there(self) -> bool:
        main = self._interposed.main()
        return callable(getattr(main, SNAPSHOT, None)) and callable(getattr(main, RESTORE, None))

    def look(self) -> None:
        """At quiescent points early in the program's life: where it stands now it may stand again."""
        log = self._application.log
        early = log.start == 0 and log.length <= HEAD_BYTES_MAX
        if early and len(self._ready_points) < READY_POINTS_MAX and not self._unrest():
            stand = self._stand()
            if stand not in self._ready_points:
                self._ready_points[stand] = ReadyPoint(log.length, log.digest, self._counts())

    def obstacle(self) -> str:
        unrest = self._unrest()
        if not unrest and self._ready_point() is None:
            return "its threads stand where they did not stand early in its life"
        return unrest

    def _unrest(self) -> str:
        if self._interposed.is_connected():
            return "a connection is open"
        resting = all(thread.kind in _RESTING for thread in self._application.threads.values())
        return "" if resting else "its threads are about to go on"

    def _ready_point(self) -> ReadyPoint | None:
        """Where the program stood as it stands now. What of the beginning is kept is what the checkpoints
        need that were taken: a ready point beyond that is one no more."""
        log, found = self._application.log, self._ready_points.get(self._stand())
        return None if found is None or (log.start and found.position > len(log.head)) else found

    def capture(self) -> Captured:
        began_ns = originals.monotonic_ns()
        log, ready = self._application.log, self._ready_point()
        assert ready is not None  # `obstacle` was asked at this very point
        program = self._snapshot()
        files = self._files()
        state = self._header(ready, len(files)) + files + program
        path = f"{self._path}-{log.length}"
        with open(path, "wb") as file:
            file.write(state)
        pause_ns = originals.monotonic_ns() - began_ns
        return Captured(
            path, log.length, log.digest, pause_ns, head_bytes=ready.position, head_digest=ready.digest
        )

    def check_counts(self, state: bytes) -> None:
        """In a scratch process, at the ready point of that state: what is only found out when a thread yields
        elsewhere, one time in a hundred, is to be found out each time."""
        marks, _ = _parted(state)
        if marks["head_counts"] != self._counts():
            raise DivergenceError(
                "began_differently",
                "the program came to its ready point with other counts of loops, locks or hashes; "
                "run it with --checkpoints none",
                expected=marks["head_counts"],
                found=self._counts(),
            )

    def _counts(self) -> int:
        return crc32(json.dumps(self._interposed.marks()).encode())

    def restore(self, state: bytes) -> None:
        """At the ready point of that state, in the midst of a replay."""
        marks, rest = _parted(state)
        files, bytes_of_program = rest[: marks["files"]], rest[marks["files"] :]
        log = self._application.log
        self._ready_points = {
            self._stand(): ReadyPoint(len(log.head), marks["head_digest"], marks["head_counts"])
        }
        if self._data:
            tree.put_back(self._data, files)
        getattr(self._interposed.main(), RESTORE)(bytes_of_program)
        for number, count in marks["spawned"]:
            self._application.threads[number].spawned_count = count
        self._interposed.adopt(marks["interposed"])

    def _snapshot(self) -> bytes:
        before = self._interposed.marks()
        try:
            state: Any = getattr(self._interposed.main(), SNAPSHOT)()
        except Exception as error:
            raise NotCapturedError(f"{SNAPSHOT} raised {error!r}") from error
        finally:
            self._interposed.adopt(before)
        if not isinstance(state, bytes):
            raise NotCapturedError(f"{SNAPSHOT} gave {type(state).__name__}: let it return bytes")
        return state

    def _files(self) -> bytes:
        """After the snapshot: that may have flushed something."""
        try:
            return tree.pack(self._data) if self._data else b""
        except (OSError, UnsupportedOperationError) as error:
            raise NotCapturedError(f"the data directory: {error}") from error

    def _header(self, ready: ReadyPoint, files_bytes: int) -> bytes:
        threads = self._application.threads.values()
        marks = {
            "interposed": self._interposed.marks(),
            "spawned": [[thread.number, thread.spawned_count] for thread in threads],
            "head_digest": ready.digest,
            "head_counts": ready.counts,
            "files": files_bytes,
        }
        return json.dumps(marks).encode() + b"\n"

    def _stand(self) -> Stand:
        known = stacks(STACK_DEPTH)
        threads = sorted(self._application.threads.values(), key=lambda thread: thread.number)
        return (
            tuple(
                (
                    thread.number,
                    thread.kind,
                    tuple(line for line in known.get(thread.ident, ()) if _OURS not in line),
                )
                for thread in threads
            ),
            tuple(self._interposed.descriptors()),
        )


def _parted(state: bytes) -> tuple[dict[str, Any], bytes]:
    """LLFT's own marks, and what follows them: files, and the program's bytes."""
    header, _, rest = state.partition(b"\n")
    return json.loads(header), rest
